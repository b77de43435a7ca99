#!/bin/sh
# Installs Chromium for the tests, which look at the HTML reports in it.
set -eu

root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

echo "chromium is missing; installing it"
if command -v apt-get >/dev/null; then
	root apt-get update -q
	root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium
elif command -v brew >/dev/null; then
	brew install --cask chromium
else
	echo "Install Chromium or Chrome under the name chromium, then run this again." >&2
	exit 1
fi
