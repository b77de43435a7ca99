#!/bin/sh
# The main job in ten lines: take until a denial, inspect, reset, wait for the retry after, take again. It keeps
# its state in a temporary directory and removes it. The speed of the machine does not matter: the first limit
# gives a unit back every twenty minutes, and the script waits for the second.
set -eu
limitctl=$1
XDG_STATE_HOME=$(mktemp -d)
XDG_CONFIG_HOME=$XDG_STATE_HOME
LIMITCTL_STORE=file:$XDG_STATE_HOME/demo.db
export LIMITCTL_STORE XDG_STATE_HOME XDG_CONFIG_HOME
trap 'rm -rf "$XDG_STATE_HOME"' EXIT

run() { # with time for a slow disk
	"$limitctl" --timeout 1m "$@"
}

show() {
	printf '\n$ limitctl %s\n' "$*"
	run "$@"
}

echo "A limit of 3 per hour, kept in a file:"
taken=0
while show consume user:42 --limit 3/1h; do
	taken=$((taken + 1))
	[ "$taken" -lt 10 ] || { echo "10 units got through a limit of 3" >&2; exit 1; }
done
echo "exit code 1: denied after $taken"
[ "$taken" -eq 3 ] || { echo "expected 3" >&2; exit 1; }

show inspect user:42
show reset user:42 --yes --no-backup
show check user:42 --limit 3/1h

printf '\nA limit of 1 per 5 seconds:\n'
show consume user:43 --limit 1/5s
retry_ms=$(run check user:43 --limit 1/5s -o jsonl | sed 's/.*"retry_after_ms":\([0-9]*\).*/\1/;q')
printf '\nWaiting the stated %s ms ...\n' "$retry_ms"
sleep "$(awk "BEGIN { print $retry_ms / 1000 }")"
show consume user:43 --limit 1/5s
