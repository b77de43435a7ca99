#!/bin/sh
# Stops a Redis of yours on this machine for a second, two seconds from now:
# sh stall.sh redis://localhost:6379
set -eu
server=$(redis-cli -u "$1" info server | sed -n 's/^process_id:\([0-9]*\).*/\1/p')
sleep 2
kill -STOP "$server"
sleep 1
kill -CONT "$server"
