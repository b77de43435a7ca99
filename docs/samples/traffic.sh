#!/bin/sh
# Makes the traffic of the night that docs/operations.md tells of: sh traffic.sh STORE
set -eu
store=$1
take() { # ten units, so many times
	for _ in $(seq "$4"); do
		limitctl consume --store "$store" -q --policy api tenant="$1" user="$2" route="$3" --cost 10
	done
}
take acme 8 /d 3
take acme 9 /c 4
take acme 7 /c 5
take acme 7 /e 6
for _ in 1 2 3 4 5; do take acme 7 /e 5 || true; done # more than is left: denied
take globex 1 /c 6
