#!/bin/sh
# A gate for a CI job: at most five deploys on a day, each of an environment. The answer
# is the exit code, so that the job needs no more than `sh ci-gate.sh production`.
#
# fixed-window is what "a day" means here: five from midnight to midnight, UTC. A token
# bucket of 5/1d would give one back every 4.8 hours, and let nine through in a day.
set -u
environment=${1:?which environment? give its name}

limitctl consume "deploy:$environment" --limit fixed-window:5/1d
case $? in
0) echo "go ahead" ;;
1) echo "no more deploys of $environment today" >&2; exit 1 ;;
*) echo "the gate could not be asked, so nothing is deployed" >&2; exit 1 ;;
esac
