#!/bin/sh
# Makes the release of one system twice and compares the bytes, and looks into the archive and the packages: what they install
# starts. Its argument is the module of nfpm. CI runs it as `make release-try`.
set -eu
cd "$(dirname "$0")/../.."

first=bin/release-first second=bin/release-second
go run ./internal/release -to $first -nfpm "$1" linux/amd64
go run ./internal/release -to $second -nfpm "$1" linux/amd64
(cd $second && sha256sum --quiet -c ../../$first/checksums.txt)

cd $first
folder=$(mktemp -d)
server=
trap 'test -z "$server" || kill $server; rm -rf "$folder"' EXIT
tar -xzf limitctl_*_linux_amd64.tar.gz -C "$folder" --strip-components 1
"$folder/limitctl" version | grep -q "commit $(git rev-parse --short=12 HEAD) of "
for wanted in LICENSE NOTICES README.md INSTALL.md man/limitctl-consume.1 completions/limitctl.bash limitctl.service \
	docs/samples/access.log docs/limitctl.schema.json; do
	test -s "$folder/$wanted" || { echo "the archive has no $wanted" >&2; exit 1; }
done
(cd "$folder/docs/samples" && ../../limitctl config validate limitctl.yaml)

tar -tzf limitctl_*_site.tar.gz | grep -q '_site/index.html$'

# starts PROGRAM CONFIG starts a server as the unit does, and ends it.
starts() {
	"$1" version
	"$1" serve --config "$2" --check-config --store memory:
	rm -f "$folder/ready" # of the server before; the shell that empties it may come late
	"$1" serve --config "$2" --store memory: --listen 127.0.0.1:0 --admin 127.0.0.1:0 -o json >"$folder/ready" 2>"$folder/log" &
	server=$!
	tries=0
	until test -s "$folder/ready"; do # it prints its addresses when it is ready
		kill -0 $server 2>/dev/null && tries=$((tries + 1)) && test $tries -lt 600 || { cat "$folder/log" >&2; exit 1; }
		sleep 0.1
	done
	kill $server
	wait $server
	server=
}

# has ROOT looks at what a package puts below a root.
has() {
	starts "$1/usr/bin/limitctl" "$1/etc/limitctl/limitctl.yaml"
	grep -q '^ExecStart=/usr/bin/limitctl ' "$1/usr/lib/systemd/system/limitctl.service"
	gzip -dc "$1/usr/share/man/man1/limitctl.1.gz" | grep -q '^.TH LIMITCTL 1 '
}

left=
tar -tzf limitctl_*_linux_amd64.apk 2>/dev/null >"$folder/apk"
for wanted in usr/bin/limitctl usr/lib/systemd/system/limitctl.service etc/limitctl/limitctl.yaml usr/share/man/man1/limitctl.1.gz; do
	grep -qx $wanted "$folder/apk" || { echo "the apk has no $wanted" >&2; exit 1; }
done
if command -v dpkg-deb >/dev/null; then
	dpkg-deb -x limitctl_*_linux_amd64.deb "$folder/deb"
	has "$folder/deb"
else
	left="$left deb"
fi
if command -v rpm2cpio >/dev/null && command -v cpio >/dev/null; then
	mkdir "$folder/rpm"
	package=$(realpath limitctl_*_linux_amd64.rpm)
	(cd "$folder/rpm" && rpm2cpio "$package" | cpio -id --quiet --no-absolute-filenames)
	has "$folder/rpm"
else
	left="$left rpm"
fi
echo "The release of linux/amd64 gives the same bytes twice: $(ls | wc -l) files.${left:+ Not unpacked, for want of a program:$left}"
