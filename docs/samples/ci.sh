#!/bin/sh
# Tests the limits of the policy "login" in a Redis of its own, and compares with the
# report of an earlier run, last-run.json, if there is one.
redis-server --port 6390 --save '' --daemonize yes >&2
trap 'redis-cli -p 6390 shutdown nosave' EXIT
limitctl loadtest --store redis://localhost:6390 --policy login --keys 50 \
  --rate 500 --duration 20s --warmup 2s --save this-run.json --html report.html \
  --threshold 'over_admitted==0' --threshold 'under_admitted==0' --threshold 'errors==0' \
  --threshold 'p99<20ms' --threshold 'dropped==0'
case $? in
0) test ! -e last-run.json || limitctl report this-run.json --against last-run.json --margin 50% ;;
1) echo "the limit broke a promise, or too many requests failed; see report.html" >&2; exit 1 ;;
*) echo "the test itself failed" >&2; exit 2 ;;
esac
