package metrics

import (
	"errors"

	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// outcome is what became of one limit in one call.
type outcome uint8

const (
	// allowed: the limit had room for it.
	allowed outcome = iota
	// denied: the limit had none, or an operator's override of it had none.
	denied
	// shadowDenied: a shadow's limit had none, which denied nothing.
	shadowDenied
	// local: the store was away, and the local share of the limit had room.
	local
	// localDenied: the store was away, and the local share had no room.
	localDenied
	// unguarded: the store was away, and the policy lets everybody in.
	unguarded
	// unguardedDenied: the store was away, and the policy lets nobody in.
	unguardedDenied
	// blocked: an operator blocks who asked.
	blocked
	// notAsked: another limit of the call had denied already.
	notAsked
	// failed: there is no answer, but an error.
	failed

	outcomes
)

// outcomeWords are the outcomes as labels.
var outcomeWords = [outcomes]string{
	"allowed", "denied", "shadow-denied", "local", "local-denied", "unguarded", "unguarded-denied", "blocked", "not-asked", "error",
}

// outcomeOf returns the outcome that d is.
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

// operation is what a call asks for, as callers of the server know it.
type operation uint8

const (
	consume operation = iota // a take, up to what fits, or a charge
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

// result is what became of a whole call.
type result uint8

const (
	callAllowed result = iota
	callDenied
	callFailed

	results
)

var resultWords = [results]string{"allowed", "denied", "error"}

// errorWords are the kinds of errors as labels: those of [layers.Call.Outcome], and that the
// policy is unknown.
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
