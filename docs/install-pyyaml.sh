#!/bin/sh
# Installs PyYAML for the tests, which read our YAML with a parser of YAML 1.1.
set -eu

root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

echo "PyYAML is missing; installing it"
if command -v apt-get >/dev/null; then
	root apt-get update -q
	root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q python3-yaml
else
	echo "Install PyYAML for python3 (https://pyyaml.org), then run this again." >&2
	exit 1
fi
