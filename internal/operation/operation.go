// Package operation is what limitctl does to the keys of a store: it selects them, resets
// them or adjusts what remains of them, restores them from a backup and refunds units.
//
// An operation gets a plan, reports its progress to an observer, asks the observer before it changes anything, and
// returns a result. It knows nothing of command lines and screens: a command turns its flags into a plan and the result
// into an answer, and the dashboard calls the same operations.
//
// What somebody has to agree to, such as a reset, goes through the method change of the [Runner]. It changes nothing
// that the context forbids, that nobody agreed to, or that cannot be written to the audit log.
package operation

import (
	"time"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/connect"
)

// Runner runs operations in one store. It is safe for concurrent use if its fields are.
type Runner struct {
	Store connect.Store
	Place Place
	// Timeout bounds each exchange with the store.
	Timeout time.Duration
	Now     func() time.Time
	// User is who runs the operations, Account the name of the process's user if that is
	// another, and Host the machine, for the audit log.
	User, Account, Host string
	// OpenAuditLog opens the audit log, before anything is asked or changed.
	OpenAuditLog func() (auditlog.Writer, error)
	// Describe is what the audit log says of an error: one line, without passwords.
	Describe func(error) string
	// Address identifies the store by the form of [connect.Address].
	Address string
	// Warn, if set, gets what went wrong without stopping anything.
	Warn func(error)
}

// Access is what the context in use allows, or the protected one whose store it is.
type Access struct {
	// Context is its name; empty if the store was chosen without a context, and is not that of a protected one.
	Context string
	// Reached: the context is not the one in use. It is protected, and this is its store, which
	// was reached in another way.
	Reached bool
	// ReadOnly forbids all changes. Protected wants the name of the context for each.
	ReadOnly, Protected bool
}

// Place is where operations work, as people know it.
type Place struct {
	Access
	// Store is the store's name, without a password.
	Store string
	// Prefix is what the store's keys begin with.
	Prefix string
	// Layout names the layout of another limiter by which the keys are read; empty for limitctl's own.
	Layout string
}
