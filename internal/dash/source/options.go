package source

import (
	"context"
	"iter"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Options say what a dashboard shows and what it may do.
type Options struct {
	// Store is what is looked at.
	Store admin.Keyspace
	// Find, if set, finds what a query selects instead of a scan of Store.
	Find func(context.Context, admin.Query) iter.Seq2[admin.Entry, error]
	// Query selects the keys, and Keep, if set, which of their states are shown.
	Query admin.Query
	Keep  func(*admin.Entry) bool
	// Denials is the store's table of who was denied; nil if it has none.
	Denials *admin.Tables
	// Overrides is the store's table of overrides; nil if it has none.
	Overrides *admin.Tables
	// InForce returns the limit that counts now for the key of an entry, which has the recorded one, under
	// the override that applies to the key; nil for none. It may be called concurrently. Without it the
	// recorded limit counts.
	InForce func(*admin.Entry, *store.Override) store.Limit
	// Servers asks the masters what they say of themselves; nil for a store that
	// has none.
	Servers func(ctx context.Context) []Server
	// NodeOf names the node that has the keys of a subject; nil for a store that is all in
	// one place.
	NodeOf func(ctx context.Context, subject string) string
	// Actions change keys; nil where nothing may be changed.
	Actions Actions
	// Layouts names the layouts of other limiters by which the keys are read, as --layout takes
	// them; empty for limitctl's own keys.
	Layouts string
	// Beyond says what deleting the keys of a layout does not reach; "" if there is nothing.
	Beyond func(layout string) string
	// Where names the store, and Context the context it is of, if any. A change
	// in a Protected one needs its name typed.
	Where, Context string
	Protected      bool
	// Selection is the selected keys in words.
	Selection string
	// Refresh is how often the keys are looked at.
	Refresh time.Duration
	// Timeout is how long an answer is waited for.
	Timeout time.Duration
	// MaxKeys is how many keys are followed at most.
	MaxKeys int
	// LookYourself is the command that shows a value of a type, which the command TYPE names, ""
	// if there is none.
	LookYourself func(storeKey, valueType string) string
	// Commands are those about the key of an entry alone, to be copied: check and block, as far as they can be given.
	Commands func(*admin.Entry) []string
	Now      func() time.Time
	// Tmux: the terminal is one of tmux.
	Tmux bool
	// Sleep waits, and returns the context's error if that ends first.
	Sleep func(ctx context.Context, d time.Duration) error
	// Color: styles are shown.
	Color bool
	// Document, if set, takes the data of the frame in place of its text; only Once does that.
	Document func(*Document) error
	// Unread gets why the overrides cannot be read, so that the frame is without them; only Once calls it.
	Unread func(error)
}

// Actions are what can be done to keys from the dashboard.
type Actions interface {
	// Reset makes the keys unused and keeps a backup of what they were.
	Reset(ctx context.Context, keys []ID) (Changed, error)
	// Undo brings back what a reset deleted. Keys that were used since then are left as
	// they are, unless replace is true.
	Undo(ctx context.Context, reset Changed, replace bool) (Changed, error)
	// ParseOverride reads what was typed in. Whom the override is about is not in it.
	ParseOverride(form OverrideForm) (override store.Override, lasts time.Duration, err error)
	// ParseSubjects reads the pattern of whom an override is about.
	ParseSubjects(pattern string) (store.Pattern, error)
	// SetOverride sets an override, and returns it as the store has it.
	SetOverride(ctx context.Context, override store.Override, lasts time.Duration) (store.Override, error)
	// RevokeOverride ends the override of an ID.
	RevokeOverride(ctx context.Context, id, reason string) error
}

// Changed is the result of an action.
type Changed struct {
	Keys   int64  // how many keys it changed
	InUse  int64  // how many it left as they are, because they were used since
	Lapsed int64  // how many it did not bring back, because they would have expired
	Backup string // the file to undo it with
}

// OverrideForm is an override as it is typed in.
type OverrideForm struct {
	Effect store.OverrideEffect
	// Value is the factor, the units or the limit, for effects that have one.
	Value string
	// For is how long it lasts.
	For, Reason string
}
