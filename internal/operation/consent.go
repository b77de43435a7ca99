package operation

import (
	"context"
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Consent is what somebody has agreed to before being asked, and why.
type Consent struct {
	// Yes agrees to any change, except in a protected context.
	Yes bool
	// Context agrees to any change in the context of that name, also a protected one.
	Context string
	// Reason is why, for the audit log. Nobody has to say it.
	Reason string
}

// Covers reports whether nobody needs to be asked.
func (c Consent) Covers(a Access) bool {
	return c.Context != "" && c.Context == a.Context || c.Yes && !a.Protected
}

// Check returns why a change cannot be made even with a yes: the context is read-only
// (a [connect.ReadOnlyError]), or the consent names another one (a [WrongContextError]).
// what is the operation, such as "reset".
func (c Consent) Check(a Access, what string) error {
	switch {
	case a.ReadOnly:
		return &connect.ReadOnlyError{Context: a.Context, What: what}
	case c.Context != "" && c.Context != a.Context:
		return &WrongContextError{Agreed: c.Context, InUse: a.Context}
	}
	return nil
}

// WrongContextError says that a consent is for another context than the one in use. It is
// a [store.ErrInvalid].
type WrongContextError struct {
	Agreed string // the context of the consent
	InUse  string // empty if none is in use
}

// Error names both contexts.
func (e *WrongContextError) Error() string {
	if e.InUse == "" {
		return fmt.Sprintf("the consent is for context %s, and no context is in use", e.Agreed)
	}
	return fmt.Sprintf("the consent is for context %s, and the context in use is %s", e.Agreed, e.InUse)
}

// Is makes every WrongContextError a [store.ErrInvalid].
func (e *WrongContextError) Is(target error) bool { return target == store.ErrInvalid }

// Question is asked before something is changed.
type Question struct {
	// Text is the question without its question mark, such as "Delete 3 keys".
	Text string
	// Context is the protected context whose name has to be typed for a yes; empty for a
	// question that yes and no answer.
	Context string
}

// IsYes reports whether an answer, as it was typed, is a clear yes.
func (q Question) IsYes(answer string) bool {
	answer = strings.TrimSpace(answer)
	if q.Context != "" {
		return answer == q.Context
	}
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}

// Observer follows an operation and confirms it before anything is changed. An operation calls it from
// one goroutine.
type Observer interface {
	// Begin says that a step begins, and returns what takes its progress.
	Begin(step Step) Progress
	// Selected shows what a reset is about to change, before it asks.
	Selected(s *Selected)
	// Confirm asks. It returns nil for a clear yes, and an error for a no or if it cannot
	// ask; the operation ends with this error and changes nothing.
	Confirm(ctx context.Context, q Question) error
	// Undoable gets the absolute path of the backup from which a change can be undone, as soon as that is whole.
	Undoable(backup string)
}

// confirm asks the observer unless the consent covers the place.
func (r *Runner) confirm(ctx context.Context, observer Observer, consent Consent, text string) error {
	if consent.Covers(r.Place.Access) {
		return nil
	}
	question := Question{Text: text}
	if r.Place.Protected {
		question.Context = r.Place.Context
	}
	err := observer.Confirm(ctx, question)
	if err != nil && ctx.Err() != nil {
		return outcome.WithProgress(err, "nothing was changed")
	}
	return err
}

// Selected is what a reset is about to change.
type Selected struct {
	// Count is how many keys.
	Count int
	// Sample is the first few of them.
	Sample []admin.Entry
	// Limits is how they divide into limits, those with most keys first, so that one
	// sees at once if a selection goes too far.
	Limits []LimitCount
	// Layouts are those of other limiters whose keys are among them, by name.
	Layouts []string
	// Remaining is what an adjustment leaves, nil if the keys are deleted. Effect is what it
	// would do.
	Remaining *Remaining
	Effect    Effect
	// Incomplete is why not all keys could be looked at, nil if all were.
	Incomplete error
}

// LimitCount is how many keys a limit has.
type LimitCount struct {
	Name string // as [policy.LimitName] has it, or of another limiter as it is
	Keys int
}

// sampled is how many keys are in a sample.
const sampled = 5
