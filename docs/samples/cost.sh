#!/bin/sh
# Says what a decision costs the Redis at a URL in processor time: that of the whole
# server, its network work included. The arguments behind the URL are those of a load test.
# Nobody else should use the server meanwhile.
cpu() { redis-cli -u "$url" info cpu | tr -d '\r' | awk -F: '/^used_cpu_(sys|user):/ {s += $2} END {print s}'; }
url=$1
shift
before=$(cpu)
limitctl loadtest --store "$url" --save cost.json "$@" >/dev/null 2>&1 || exit
after=$(cpu)
tr ',{' '\n\n' <cost.json | awk -F': *' -v seconds="$after $before" '
  $1 ~ /"requests"/ && !n { n = $2 + 0 }
  END { split(seconds, s, " "); printf "%.1f µs of the server\n", (s[1] - s[2]) * 1e6 / n }'
