#!/bin/sh
# The steps of action.yml: install gets limitctl, and run runs the command of LIMITCTL_ARGS. Its JSON answer becomes the
# output "answer", and its exit code that of the step.
set -eu
bin=${RUNNER_TEMP:-/tmp}/limitctl-action
releases=https://github.com/limitctl/limitctl/releases/download

# download puts the program of a release into $bin, if there is one for this machine, and checks its sum.
download() {
	system=$(uname -s | tr '[:upper:]' '[:lower:]')
	case $(uname -m) in x86_64 | amd64) machine=amd64 ;; arm64 | aarch64) machine=arm64 ;; *) return 1 ;; esac
	name=limitctl_${LIMITCTL_VERSION#v}_${system}_$machine
	from=$releases/$LIMITCTL_VERSION
	curl -fsSL --retry 3 -o "$bin/$name.tar.gz" "$from/$name.tar.gz" || return 1
	curl -fsSL --retry 3 "$from/checksums.txt" | grep " $name.tar.gz\$" | (cd "$bin" && checksum -c - >/dev/null) || exit 1
	tar -xzf "$bin/$name.tar.gz" -C "$bin" --strip-components 1 "$name/limitctl"
}

checksum() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }

# words prints the arguments, one a line: those of several lines as they are, those of one as a shell divides them at
# blanks outside of quotes, without anything else that a shell does.
words() {
	case $LIMITCTL_ARGS in
	*'
'?*) printf '%s\n' "$LIMITCTL_ARGS" ;;
	*) printf '%s\n' "$LIMITCTL_ARGS" | xargs -n 1 printf "%s\n" 2>/dev/null ;;
	esac
}

case $1 in
install)
	mkdir -p "$bin"
	if [ -n "${LIMITCTL_VERSION:-}" ]; then
		download || GOBIN=$bin go install "github.com/limitctl/limitctl@$LIMITCTL_VERSION"
	else # the version of this action
		cd "$GITHUB_ACTION_PATH"
		CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$bin/limitctl" .
	fi
	;;
run)
	given=$(words) || { echo "limitctl: args has a quote without its end: $LIMITCTL_ARGS" >&2; exit 2; }
	if [ -z "$given" ]; then echo "limitctl: args is empty; give a command, such as: consume deploys --limit 5/1d" >&2; exit 2; fi
	set --
	while IFS= read -r word; do set -- "$@" "$word"; done <<-EOF
		$given
	EOF
	# An input that is left out must not hide the variable of the job. One that is given and empty is a secret that
	# is missing, which limitctl refuses.
	if [ "${GIVEN_STORE-left out}" != 'left out' ]; then export LIMITCTL_STORE="$GIVEN_STORE"; fi
	if [ -n "${GIVEN_PASSWORD:-}" ]; then export LIMITCTL_PASSWORD="$GIVEN_PASSWORD"; fi
	answer=$bin/answer.$$
	code=$bin/code.$$
	# A job that "limitctl run" runs shows its log while it runs.
	{ "$bin/limitctl" -o json "$@" && echo 0 >"$code" || echo $? >"$code"; } | tee "$answer"
	# A command that "limitctl run" runs prints what it likes, so nobody can know the line that ends the answer.
	end=LIMITCTL_ANSWER_$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
	{
		echo "answer<<$end"
		cat "$answer"
		echo "$end"
	} >>"${GITHUB_OUTPUT:-/dev/null}"
	read -r ended <"$code"
	rm -f "$answer" "$code"
	exit "$ended"
	;;
esac
