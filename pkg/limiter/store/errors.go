package store

import (
	"errors"
	"fmt"
	"strings"
)

// The errors that a caller can check with errors.Is. Each returned error wraps one, and says what is wrong.
var (
	// ErrInvalid: the request itself is wrong (a limit, key, pattern or cost). Nothing was sent to the store.
	ErrInvalid = errors.New("invalid request")
	// ErrNeverFits: the limit never allows so much at once. It is also an ErrInvalid. [NeverFitsError] has the request.
	ErrNeverFits = errors.New("cost can never fit")
	// ErrUnavailable: the store could not be reached, and nothing was charged.
	ErrUnavailable = errors.New("store unavailable")
	// ErrOutcomeUnknown: the store may have received the request, and did not answer, so another try can charge twice.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrGaveUp: the caller's own context, whose error it wraps, ended before the store answered or its turn came.
	// Nothing was charged, unless it is also an ErrOutcomeUnknown.
	ErrGaveUp = errors.New("the caller gave up")
	// ErrRefused: the store refused: wrong password, missing right, out of memory, a replica. Nothing was charged.
	ErrRefused = errors.New("store refused")
	// ErrForeign: the key holds a value that limitctl did not write, and leaves. [ForeignError] has the key.
	ErrForeign = errors.New("foreign value")
	// ErrUnknownToken: nothing was allowed with the token of a settlement, or its time is over. Nothing was changed.
	ErrUnknownToken = errors.New("unknown token")
	// ErrClosed: the store, or one of its wrappers, is closed. Nothing was charged. No failure policy decides instead.
	ErrClosed = errors.New("closed")
)

// IsAway reports whether err says that the store gave no answer (ErrUnavailable or ErrOutcomeUnknown) although the
// caller had time for one (no ErrGaveUp). A failure policy is for these errors only.
func IsAway(err error) bool {
	return (errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown)) && !errors.Is(err, ErrGaveUp)
}

// NeverFitsError is the [ErrNeverFits] of an operation on a request.
type NeverFitsError struct {
	Op      Op
	Request Request
}

// Error names the limit and, unless it is empty, the subject.
func (e *NeverFitsError) Error() string {
	r, cost, of, left := &e.Request, fmt.Sprintf("cost %d", e.Request.Cost), "", ""
	if e.Op == TakeUpTo {
		cost = "a cost of 1"
	}
	if r.Key.Subject != "" {
		of = fmt.Sprintf(" of %q", r.Key.Subject)
	}
	if r.Leave > 0 && e.Op != Adjust {
		left = fmt.Sprintf(", of which %d must stay free", r.Leave)
	}
	return fmt.Sprintf("%s can never fit limit %q%s: %s allows at most %d at once%s",
		cost, r.Key.Name, of, r.Limit, r.Limit.Capacity(), left)
}

// Is makes every NeverFitsError an ErrNeverFits and an ErrInvalid.
func (e *NeverFitsError) Is(target error) bool { return target == ErrInvalid || target == ErrNeverFits }

// textError is one of the errors above with a text of its own.
type textError struct {
	kind error
	text string
}

func (e *textError) Error() string { return e.text }

func (e *textError) Is(target error) bool { return target == e.kind }

// Invalidf returns an [ErrInvalid] with that text, for packages that check requests earlier.
func Invalidf(format string, args ...any) error {
	return &textError{ErrInvalid, fmt.Sprintf(format, args...)}
}

// UnknownToken returns the [ErrUnknownToken] for token, for stores that decide elsewhere.
func UnknownToken(token string) error {
	return &textError{ErrUnknownToken,
		fmt.Sprintf("nothing is remembered of token %q: nothing was allowed with it, or its time is over", token)}
}

// ForeignError says which key holds a value that limitctl did not write. errors.Is(err, ErrForeign) holds for it.
type ForeignError struct {
	StoreKey string // the key as the store knows it
	Holds    string // what was found there, such as "a list, which is not a limit record"
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("key %q holds %s; it was left as it is", e.StoreKey, e.Holds)
}

// IsDamaged reports whether the key holds a damaged record of limitctl's own. admin.Keyspace.Delete deletes it.
func (e *ForeignError) IsDamaged() bool { return strings.HasPrefix(e.Holds, damagedRecord) }

// damagedRecord is the beginning of Holds for a damaged record.
const damagedRecord = "a damaged limit record"

// Is makes every ForeignError an ErrForeign.
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }
