package operation

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Migrated counts limits of another limiter by the outcome of their usage.
type Migrated struct {
	// Matched is how many were selected.
	Matched int64
	// Raised is how many of them raised the usage of a limit of ours, and Already how many did not need to,
	// because as much was in use there.
	Raised, Already int64
	// Filled is how many of these two had used more than the limit holds, which is all in use now.
	Filled int64
	// Shared is how many of these two went into a limit together with another one before. The most
	// used of them counts there.
	Shared int64
	// UsageUnknown is how many have a usage that nobody can tell without the old limit. Unfit is
	// how many limitctl can have no key for, and Occupied how many have a key that holds a value
	// that limitctl did not write. Their usage was not carried over.
	UsageUnknown, Unfit, Occupied int64
	// Stuck is how many have a defect that deleting their keys puts right, and may be used.
	Stuck int64
	// FirstUnfit are why there is no key, of the first few.
	FirstUnfit []error
	// Sample are the first few that are carried over.
	Sample []Carried
}

// Carried is the usage of a limit of another limiter on its way into one of ours.
type Carried struct {
	Old admin.Entry
	Key store.Key
	// Before and After are the units in use of Key.
	Before, After int64
}

// Carried is how many old limits are in force in ours.
func (m *Migrated) Carried() int64 { return m.Raised + m.Already }

// Left is how many were not carried over.
func (m *Migrated) Left() int64 { return m.UsageUnknown + m.Unfit + m.Occupied }

// NotCarriedError says how much usage could not be carried over, and why.
type NotCarriedError struct{ Migrated }

// Error says how many and why.
func (e *NotCarriedError) Error() string {
	var parts []string
	if e.UsageUnknown > 0 {
		parts = append(parts, fmt.Sprintf("of %s nobody can tell what is used without the limit",
			output.Plural(int(e.UsageUnknown), "old limit")))
	}
	if e.Unfit > 0 {
		text := "there can be no key for " + output.Plural(int(e.Unfit), "old limit")
		if len(e.FirstUnfit) > 0 {
			text += fmt.Sprintf(" (%s)", e.FirstUnfit[0])
		}
		parts = append(parts, text)
	}
	if e.Occupied > 0 {
		parts = append(parts, fmt.Sprintf("the keys for %s hold what limitctl did not write", output.Plural(int(e.Occupied), "old limit")))
	}
	return fmt.Sprintf("%s not carried over: %s", output.Plural(int(e.Left()), "old limit"), strings.Join(parts, "; "))
}

// question is what to ask before the usage is carried over, after a scan that ended with scanErr.
func (m *Migrated) question(scanErr error) string {
	question := "Carry over what " + output.Plural(int(m.Carried()), "old limit")
	if m.Carried() == 1 {
		question += " has used"
	} else {
		question += " have used"
	}
	if scanErr == nil {
		return question
	}
	return incompleteQuestion(question, scanErr)
}

// Is makes it the error of a request that cannot be, or of foreign data.
func (e *NotCarriedError) Is(target error) bool {
	if e.UsageUnknown+e.Unfit > 0 {
		return target == store.ErrInvalid
	}
	return target == store.ErrForeign
}
