package live

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
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
	// NotCounted says that nobody counts denials, so that none is not 0.
	NotCounted bool
	// Overrides is the store's table of overrides; nil if it has none.
	Overrides *admin.Tables
	// InForce returns the limit that counts now for the key of an entry, which has the recorded one, under the override
	// that applies to the key; nil for none. It may be called concurrently. Without it the recorded limit counts.
	InForce func(*admin.Entry, *store.Override) store.Limit
	// Config says by which configuration that is, such as "version 5"; "" says nothing.
	Config func() string
	// Began says in a line which denials began lately, and what was changed just before, "" if none did; nil for
	// nothing. A second line is a command that may help.
	Began func(ctx context.Context) string
	// Servers asks the masters what they say of themselves; nil for a store that has none.
	Servers func(ctx context.Context) []Server
	// NodeOf names the node that has the keys of a subject; nil for a store that is all in one place.
	NodeOf func(ctx context.Context, subject string) string
	// Actions change keys; nil where nothing may be changed.
	Actions Actions
	// Where names the store, and Context its context, if any. A change in a Protected one needs its name typed.
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
	Now     func() time.Time
	// Sleep waits, and returns the context's error if that ends first.
	Sleep func(ctx context.Context, d time.Duration) error
	// Unread gets why the overrides cannot be read, so that the frame is without them; only Once calls it.
	Unread func(error)
}

// Actions are what can be done to keys from the dashboard.
type Actions interface {
	// Reset makes the key unused and keeps a backup of what it was.
	Reset(ctx context.Context, key store.Key) (Changed, error)
	// Undo brings back what a reset deleted. Keys that were used since then are left as they are.
	Undo(ctx context.Context, reset Changed) (Changed, error)
	// ParseOverride reads what was typed in. Whom the override is about is not in it.
	ParseOverride(form OverrideForm) (override store.Override, lasts time.Duration, err error)
	// ParseSubjects reads the pattern of whom an override is about.
	ParseSubjects(pattern string) (store.Pattern, error)
	// SetOverride sets an override, and returns it as the store has it.
	SetOverride(ctx context.Context, override store.Override, lasts time.Duration) (store.Override, error)
	// RevokeOverride ends the override of an ID.
	RevokeOverride(ctx context.Context, id string) error
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

func compareKeys(a, b store.Key) int {
	if c := strings.Compare(a.Subject, b.Subject); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// networkOf returns the network of an address that one sender often has, "" for what is none.
func networkOf(value string) string {
	if network, is := store.NetworkOf(value, 24, 64); is {
		return network.String()
	}
	return ""
}

// attributesOf returns the attributes that a key was made of: by a policy, or by somebody who writes subjects like
// tenant:acme:user:42.
func attributesOf(key store.Key) []policy.Attribute {
	if parts, is := policy.ParseKey(key); is {
		return parts.Attributes
	}
	attributes, _ := policy.ParseSubject(key.Subject)
	return attributes
}
