#!/bin/sh
# Installs redis-server for the tests, which start private servers of their own.
set -eu

root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

echo "redis-server is missing; installing it"
if command -v apt-get >/dev/null; then
	root apt-get update -q
	root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q redis-server
elif command -v brew >/dev/null; then
	brew install redis
else
	echo "Install redis-server 5 or later (https://redis.io/docs/install) or valkey-server linked to that name, then run this again." >&2
	exit 1
fi
