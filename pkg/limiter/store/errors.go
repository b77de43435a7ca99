package store

import (
	"errors"
	"fmt"
	"strings"
)

// The errors a caller can branch on with errors.Is. Each one returned wraps
// one of these and says in its text what exactly was wrong.
var (
	// ErrInvalid: the request itself is wrong (a limit, key, pattern or cost
	// out of bounds). Nothing was sent to the store.
	ErrInvalid = errors.New("invalid request")
	// ErrNeverFits: the cost is greater than the limit ever allows at once,
	// so no wait would help. It is also an ErrInvalid.
	ErrNeverFits = errors.New("cost can never fit")
	// ErrUnavailable: the store could not be reached, and nothing was charged.
	ErrUnavailable = errors.New("store unavailable")
	// ErrOutcomeUnknown: the store stopped answering after it may have seen
	// the request, so the units may or may not have been charged. It is never
	// retried here, and it is not an ErrUnavailable: trying again can charge
	// twice.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrGaveUp: the caller's own context ended before the store answered, or before its turn
	// came, so it says nothing about the store. Nothing was charged, unless it is also an
	// ErrOutcomeUnknown. It wraps the context's error.
	ErrGaveUp = errors.New("the caller gave up")
	// ErrRefused: the store answered and refused: wrong password, missing
	// right, out of memory, a replica. Nothing was charged.
	ErrRefused = errors.New("store refused")
	// ErrForeign: the key holds a value that limitctl did not write. It is
	// left as it is. See [ForeignError] for the key.
	ErrForeign = errors.New("foreign value")
	// ErrUnknownToken: a settlement's token is not remembered, because nothing was allowed
	// with it or because its time is over. Nothing was changed.
	ErrUnknownToken = errors.New("unknown token")
	// ErrClosed: the store, or what wraps it, was closed before. Nothing was charged. It is not
	// an ErrUnavailable: no failure policy decides in place of a store that is closed.
	ErrClosed = errors.New("closed")
)

// IsAway reports whether err says that the store gave no answer
// (ErrUnavailable or ErrOutcomeUnknown), as against an answer one dislikes, and that
// the caller had the time for one (no ErrGaveUp). A failure policy is for these errors
// and no others.
func IsAway(err error) bool {
	return (errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown)) && !errors.Is(err, ErrGaveUp)
}

// invalidError is an ErrInvalid with a text of its own.
type invalidError struct {
	text      string
	neverFits bool
}

func (e *invalidError) Error() string { return e.text }

func (e *invalidError) Is(target error) bool {
	return target == ErrInvalid || e.neverFits && target == ErrNeverFits
}

// Invalidf returns an [ErrInvalid] with a text of its own, for packages that check
// requests before they come here.
func Invalidf(format string, args ...any) error {
	return &invalidError{text: fmt.Sprintf(format, args...)}
}

// ForeignError says which key holds a value that limitctl did not write.
// errors.Is(err, ErrForeign) holds for it.
type ForeignError struct {
	StoreKey string // the key as the store knows it
	Holds    string // what was found there, such as "a list, which is not a limit record"
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("key %q holds %s; it was left as it is", e.StoreKey, e.Holds)
}

// IsDamaged reports whether the key holds a damaged record of limitctl's own. admin.Keyspace.Delete
// deletes it.
func (e *ForeignError) IsDamaged() bool { return strings.HasPrefix(e.Holds, damagedRecord) }

// damagedRecord is what Holds of a damaged record begins with.
const damagedRecord = "a damaged limit record"

// Is makes every ForeignError an ErrForeign.
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }
