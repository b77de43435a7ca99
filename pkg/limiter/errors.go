package limiter

import (
	"context"
	"fmt"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What an error means, for errors.Is. After an error nothing was decided, and the [Decisions] are denied. The text
// of an error has the details.
var (
	// ErrInvalid: the request is wrong. Correct the program or its configuration.
	ErrInvalid = store.ErrInvalid
	// ErrNeverFits: the cost is more than the limit ever allows at once, so waiting does not help.
	// It is also an ErrInvalid. The text names the limit and the subject.
	ErrNeverFits = store.ErrNeverFits
	// ErrUnavailable: the store is away, and nothing was charged.
	ErrUnavailable = store.ErrUnavailable
	// ErrOutcomeUnknown: the store is away, and may have charged. Another try can charge twice, unless the requests
	// have a [Request.Token].
	ErrOutcomeUnknown = store.ErrOutcomeUnknown
	// ErrGaveUp: the caller's context ended. Nothing was charged, unless it is also an ErrOutcomeUnknown.
	ErrGaveUp = store.ErrGaveUp
	// ErrRefused: the store answered and refused: a wrong password, a missing right, no memory.
	// Nothing was charged.
	ErrRefused = store.ErrRefused
	// ErrForeign: the key holds a value that limitctl did not write. The value stays as it is.
	ErrForeign = store.ErrForeign
	// ErrUnknownToken: the store does not remember the token. Nothing was changed.
	ErrUnknownToken = store.ErrUnknownToken
	// ErrNotGivenBack: the caller left while it waited, and its charge could not be taken back.
	ErrNotGivenBack = layers.ErrNotGivenBack
	// ErrClosed: the limiter or its store is closed. Nothing was charged.
	ErrClosed = store.ErrClosed
)

// IsAway reports whether err says that the store gave no answer although the caller had time for one: an
// [ErrUnavailable] or [ErrOutcomeUnknown] that is not an [ErrGaveUp]. Only for these errors do [FailOpen],
// [FailClosed] and [FailLocal] decide.
func IsAway(err error) bool { return store.IsAway(err) }

// DeniedError says that [Limiter.Wait] or [Limiter.Reserve] was denied. Nothing is charged, unless a failure policy
// denied a call whose answer was lost. The error of Wait is also a context.DeadlineExceeded.
type DeniedError struct {
	Decisions
	// Requests are those of the call; [Decisions.DeniedBy] has the indexes of those that were denied.
	Requests []Request
	waited   bool
}

// Error names the limits that denied, with their subjects, and says when to try again.
func (e *DeniedError) Error() string {
	text, between, by := "denied", " by ", e.DeniedBy()
	if e.Unguarded() {
		text, by = "denied, because the store is away", nil
	}
	for _, i := range by {
		if o := e.At(i).Override; o != nil && o.Effect == store.OverrideBlock.String() {
			between += "override " + o.ID + " of "
		}
		key := e.Requests[i].asked.Key
		text += fmt.Sprintf("%slimit %q of %q", between, key.Name, key.Subject)
		between = ", "
	}
	if e.waited && !e.Unguarded() {
		text += ": the turn did not come in time"
	}
	if after := e.RetryAfter(); after > 0 {
		text += "; try again in " + store.FormatPeriod(after)
	}
	return text
}

// Is makes the error of a wait a context.DeadlineExceeded.
func (e *DeniedError) Is(target error) bool { return e.waited && target == context.DeadlineExceeded }
