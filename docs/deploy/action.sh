#!/bin/sh
# The steps of action.yml: install builds limitctl, and run runs the command of LIMITCTL_ARGS. Its JSON answer becomes the
# output "answer", and its exit code that of the step.
set -eu
bin=${RUNNER_TEMP:-/tmp}/limitctl-action

case $1 in
install)
	if [ -n "${LIMITCTL_VERSION:-}" ]; then
		GOBIN=$bin go install "github.com/limitctl/limitctl@$LIMITCTL_VERSION"
	else # the version of this action
		cd "$GITHUB_ACTION_PATH"
		CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$bin/limitctl" .
	fi
	;;
run)
	# The arguments are words with blanks between; no shell reads them.
	set -f
	# shellcheck disable=SC2086
	set -- $LIMITCTL_ARGS
	# An input that is left out must not hide the variable of the job.
	if [ -n "${GIVEN_STORE:-}" ]; then export LIMITCTL_STORE="$GIVEN_STORE"; fi
	if [ -n "${GIVEN_PASSWORD:-}" ]; then export LIMITCTL_PASSWORD="$GIVEN_PASSWORD"; fi
	code=0
	answer=$("$bin/limitctl" -o json "$@") || code=$? # what follows -- is a command's own
	printf '%s\n' "$answer"
	# A command that "limitctl run" runs prints what it likes, so nobody can know the line that ends the answer.
	end=LIMITCTL_ANSWER_$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
	{
		echo "answer<<$end"
		printf '%s\n' "$answer"
		echo "$end"
	} >>"${GITHUB_OUTPUT:-/dev/null}"
	exit "$code"
	;;
esac
