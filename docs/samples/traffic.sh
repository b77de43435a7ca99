#!/bin/sh
# Makes the traffic of the night that docs/operations.md tells of: sh traffic.sh STORE
set -eu
take() {
	limitctl consume --store "$store" -q --policy api tenant="$1" user="$2" route="$3" --cost "$4"
}
store=$1
take globex 1 /c 20
take acme 8 /d 30
take acme 9 /c 40
take acme 7 /c 50
take acme 7 /e 60
