#!/bin/sh
# Installs missing programs that the tests run: redis-server, the shells for completion, a browser for reports,
# the proxies in docs/serve.md and docs/probe.md, Node.js for a middleware in
# docs/probe.md. With arguments, it installs only the named tools. No server that it installs is left running, or
# starts with the machine.
#
# With --unasked it installs only if it needs neither a password nor a consent, which is as root with apt-get.
# Otherwise it prints one line that says how to install what is missing, and fails.
set -eu

unasked=
if [ "${1-}" = --unasked ]; then unasked=yes; shift; fi

# advice is the command that installs redis-server on this system.
advice() {
	if command -v apt-get >/dev/null; then
		echo "sudo apt-get install redis-server"
	elif command -v dnf >/dev/null; then
		echo "sudo dnf install redis"
	elif command -v apk >/dev/null; then
		echo "sudo apk add redis"
	elif [ "$(uname)" = Darwin ]; then
		echo "brew install redis"
	else
		echo "your system's package of Redis (or of Valkey, with valkey-server linked to that name)"
	fi
}

root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

is_there() {
	case $1 in
	bash-completion)
		for file in /usr/share/bash-completion/bash_completion \
			/opt/homebrew/etc/profile.d/bash_completion.sh /usr/local/etc/profile.d/bash_completion.sh; do
			if [ -e "$file" ]; then return 0; fi
		done
		return 1
		;;
	python3-myst-parser) python3 -c 'import myst_parser' 2>/dev/null || /usr/bin/python3 -c 'import myst_parser' 2>/dev/null ;;
	furo) python3 -c 'import furo' 2>/dev/null || /usr/bin/python3 -c 'import furo' 2>/dev/null ;;
	nodejs) command -v node >/dev/null ;;
	libfaketime) find /usr/lib -name libfaketime.so.1 | grep -q . ;;
	nginx | haproxy) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null ;; # not on the path of every user
	*) command -v "$1" >/dev/null ;;
	esac
}

# Debian starts a server on installation, unless this file of the administrator forbids it. An existing file is
# restored afterwards.
policy=/usr/sbin/policy-rc.d
allow_starts() {
	root rm -f "$policy"
	if [ -e "$policy.before-limitctl" ]; then root mv "$policy.before-limitctl" "$policy"; fi
}
forbid_starts() {
	trap allow_starts EXIT
	trap 'exit 1' HUP INT TERM
	if [ -e "$policy" ] && [ ! -e "$policy.before-limitctl" ]; then root mv "$policy" "$policy.before-limitctl"; fi
	printf '#!/bin/sh\nexit 101\n' | root tee "$policy" >/dev/null
	root chmod 755 "$policy"
}

missing= lacking=
for tool in ${*:-redis-server chromium bash bash-completion zsh fish curl nginx haproxy caddy prometheus nodejs npm}; do
	is_there "$tool" || missing="$missing $tool"
done
if [ -z "$missing" ]; then exit 0; fi

if [ -n "$unasked" ] && ! { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }; then
	echo "missing:$missing, of which the tests start their own. Install it with: $(advice)" >&2
	exit 1
fi
if command -v apt-get >/dev/null; then
	echo "installing:$missing"
	root apt-get update -q
	forbid_starts
	for tool in $missing; do # each by itself: one that this system lacks keeps no other away
		root env DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 "$tool" || lacking="$lacking $tool"
		if [ -e "/lib/systemd/system/$tool.service" ] && command -v systemctl >/dev/null; then # not in every container
			root systemctl disable "$tool.service" || echo "$tool may start with the machine; systemctl could not disable it" >&2
		fi
	done
	if [ -n "$lacking" ]; then
		echo "not to be had from this system's packages:$lacking; install them under these names" >&2
		exit 1
	fi
elif command -v brew >/dev/null; then
	echo "installing:$missing"
	for tool in $missing; do
		case $tool in
		redis-server) brew install redis ;;
		chromium) brew install --cask chromium ;;
		bash-completion) brew install bash-completion@2 ;;
		nodejs | npm) brew install node ;;
		*) brew install "$tool" ;;
		esac
	done
else
	echo "missing:$missing" >&2
	echo "Install them, redis-server 5 or later (or valkey-server linked to that name) and" >&2
	echo "Chromium or Chrome under the name chromium; then run this again." >&2
	exit 1
fi
