#!/bin/sh
# The main job in ten lines: take until denied, look, wait as told, take again,
# reset. It keeps its state in a directory of its own and removes it.
set -eu
limitctl=$1
XDG_STATE_HOME=$(mktemp -d)
XDG_CONFIG_HOME=$XDG_STATE_HOME
LIMITCTL_STORE=file:$XDG_STATE_HOME/demo.db
export LIMITCTL_STORE XDG_STATE_HOME XDG_CONFIG_HOME
trap 'rm -rf "$XDG_STATE_HOME"' EXIT

show() {
	printf '\n$ limitctl %s\n' "$*"
	"$limitctl" "$@"
}

echo "A limit of 3 per 6 seconds, kept in a file:"
taken=0
while show consume user:42 --limit 3/6s; do
	taken=$((taken + 1))
	[ "$taken" -lt 10 ] || { echo "10 units got through a limit of 3" >&2; exit 1; }
done
echo "exit code 1: denied after $taken"
[ "$taken" -eq 3 ] || { echo "expected 3" >&2; exit 1; }

show inspect user:42

retry_ms=$("$limitctl" check user:42 --limit 3/6s -o jsonl | sed 's/.*"retry_after_ms":\([0-9]*\).*/\1/;q')
printf '\nWaiting the stated %s ms ...\n' "$retry_ms"
sleep "$(awk "BEGIN { print $retry_ms / 1000 }")"
show consume user:42 --limit 3/6s

show reset user:42 --yes --no-backup
show check user:42 --limit 3/6s
