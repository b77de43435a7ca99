#!/bin/sh
# Tests the limits of the policy "login" in a Redis of its own, and compares with the
# report of an earlier run, last-run.json, if there is one.
dir=$(mktemp -d)
redis-server --port 0 --unixsocket "$dir/redis" --save '' --dir "$dir" >"$dir/log" &
trap 'kill $!; rm -rf "$dir"' EXIT
until [ -S "$dir/redis" ]; do kill -0 $! || exit 2; sleep 0.1; done
limitctl loadtest --store "unix://$dir/redis" --policy login --keys 50 \
  --rate 500 --duration 20s --warmup 2s --save this-run.json --html report.html \
  --threshold 'over_admitted==0' --threshold 'under_admitted==0' --threshold 'errors==0' \
  --threshold 'p99<50ms'
case $? in
0) test ! -e last-run.json || limitctl report this-run.json --against last-run.json --margin 50% ;;
1) echo "the limit broke a promise, or too little was seen; see report.html" >&2; exit 1 ;;
*) echo "the test itself failed" >&2; exit 2 ;;
esac
