#!/bin/sh
# How many masters: scale.sh DECISIONS_A_SECOND KEYS MICROSECONDS_A_DECISION BYTES_A_KEY
# A master has one core for commands, half of it in use, and 16 GiB, half of it in use.
awk -v decisions="$1" -v keys="$2" -v us="$3" -v bytes="$4" '
function up(x) { return x == int(x) ? x : int(x) + 1 }
BEGIN {
  cores = decisions * us / 1e6; gib = keys * bytes / 1024 ^ 3
  cpu = up(cores / 0.5); memory = up(gib / 8); masters = cpu > memory ? cpu : memory
  printf "processor  %s × %s µs = %.1f cores, so %d for that\n", decisions, us, cores, cpu
  printf "memory     %s × %s B = %.1f GiB, so %d for that\n", keys, bytes, gib, memory
  printf "masters    %d; an outage of one concerns %.1f%% of the keys\n", masters, 100 / masters
}'
