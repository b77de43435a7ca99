package metrics

import (
	"errors"

	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// outcome is the outcome of one limit in one call.
type outcome uint8

const (
	// allowed: the limit had room.
	allowed outcome = iota
	// denied: the limit, or its override, had no room.
	denied
	// shadowDenied: a shadow limit had no room, which denied nothing.
	shadowDenied
	// local: the store was away, and the local share of the limit had room.
	local
	// localDenied: the store was away, and the local share had no room.
	localDenied
	// unguarded: the store was away, and the policy allows.
	unguarded
	// unguardedDenied: the store was away, and the policy denies.
	unguardedDenied
	// blocked: an operator blocks the subject.
	blocked
	// notAsked: another limit of the call had already denied.
	notAsked
	// failed: there is an error instead of an answer.
	failed

	outcomes
)

// outcomeWords are the outcomes as labels.
var outcomeWords = [outcomes]string{
	"allowed", "denied", "shadow-denied", "local", "local-denied", "unguarded", "unguarded-denied", "blocked", "not-asked", "error",
}

// outcomeOf returns the outcome of d.
func outcomeOf(d *store.Decision) outcome {
	switch {
	case d.Unguarded && d.DecidedBy != store.DecidedByFailurePolicy:
		return notAsked
	case d.Unguarded && (d.Allowed || d.Shadow):
		return unguarded
	case d.Unguarded:
		return unguardedDenied
	case !d.Allowed && d.Shadow:
		return shadowDenied
	case d.DecidedBy == store.DecidedByLocal && d.Allowed:
		return local
	case d.DecidedBy == store.DecidedByLocal:
		return localDenied
	case d.Allowed:
		return allowed
	case d.Override != nil && d.Override.Effect == store.OverrideBlock:
		return blocked
	}
	return denied
}

// operation is the operation of a call, in the words of the server's interface.
type operation uint8

const (
	consume operation = iota // a take, a take of what fits, or a charge
	check
	refund
	settle

	operations
)

var operationWords = [operations]string{"consume", "check", "refund", "settle"}

func operationOf(op store.Op) operation {
	switch op {
	case store.Peek:
		return check
	case store.Refund, store.Adjust:
		return refund
	case store.Settle:
		return settle
	default:
		return consume
	}
}

// result is the result of a whole call.
type result uint8

const (
	callAllowed result = iota
	callDenied
	callFailed

	results
)

var resultWords = [results]string{"allowed", "denied", "error"}

// errorWords are the kinds of errors as labels: those of [layers.Call.Outcome], and one for an unknown policy.
var errorWords = []string{
	"invalid", "unavailable", "outcome-unknown", "gave-up", "gave-up-unknown", "refused", "foreign", "error", unknownPolicyError,
}

const unknownPolicyError = "unknown-policy"

// errorWord returns the kind of err.
func errorWord(err error) string {
	if errors.Is(err, engine.ErrUnknownPolicy) {
		return unknownPolicyError
	}
	call := layers.Call{Err: err}
	return call.Outcome()
}
