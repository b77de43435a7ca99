package admin

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Keyspace is a [store.Store] whose keys can be listed, deleted, adjusted and brought back, for operators. All
// stores of this module are one. [KeyspaceOf] finds it.
type Keyspace interface {
	store.Store
	// Scan yields every key in use that q selects, each once, in no particular order, and holds only a part of them
	// at a time. A [store.ForeignError] is about one key, whose Entry has only its names, and the scan continues.
	// Any other error ends it, after all entries that could be read. Scan writes nothing.
	Scan(ctx context.Context, q Query) iter.Seq2[Entry, error]
	// Delete makes the keys of records unused and returns how many were in use. If a Record has a Value and the key
	// no longer holds it, changed has what was deleted instead, so that the caller can complete a backup. Foreign
	// values stay, each with a [store.ForeignError] among the joined errors. After any other error some keys may
	// have been deleted.
	Delete(ctx context.Context, records ...Record) (deleted int, changed []Record, err error)
	// Adjust sets the usage of each key, each at one instant by itself, and returns the results. If Kept is set and
	// the key no longer holds that value, the result has what the key held instead, so that the caller can complete
	// a backup. Foreign values stay, each with a [store.ForeignError] among the joined errors. After any other
	// error some keys may have been adjusted.
	Adjust(ctx context.Context, adjustments ...Adjustment) ([]Adjusted, error)
	// Import brings records of a scan back, with the expiry they had, and returns the outcomes. It overwrites a key
	// in use only if replace is set. After an error some records may have been imported: those whose outcome says
	// so, and perhaps those with the outcome NotKnown. There may be no outcomes at all. A store can skip records
	// that it cannot hold: each then has an [UnfitError] among the joined errors.
	Import(ctx context.Context, replace bool, records ...Record) ([]ImportOutcome, error)
}

// KeyspaceOf returns backend as a Keyspace, or the one that it wraps; see [store.As].
func KeyspaceOf(backend store.Store) (keys Keyspace, has bool) { return store.As[Keyspace](backend) }

// Query selects keys for [Keyspace.Scan].
type Query struct {
	// Subjects selects by subject.
	Subjects store.Pattern
	// Names selects by the name of the limit; the zero Pattern selects every name.
	Names store.Pattern
	// Match, if set, decides last about a key. It is called before the value is read, unless only the value says
	// what the key is. Calls may be concurrent.
	Match func(store.Key) bool
	// Keys, if set, are exactly the keys to read, without a scan. The other selecting fields are then unused.
	Keys []store.Key
	// StoreKeys are the store keys of Keys, in the same order, for the keys of other limiters, from which the store
	// keys do not follow.
	StoreKeys []string
	// Bytes, Records and States fill in [Entry.Bytes], [Entry.Record] and [Entry.State].
	Bytes, Records, States bool
	// InForce, if set, returns the limit that counts for a key now, whose record has the Limit of the
	// entry. What is used and what remains is told by it. It may be called concurrently, and must
	// not change the entry. The keys of other limiters have no such limit.
	InForce func(*Entry) store.Limit
	// Foreign asks for store keys, too, that begin as those of limits do, and that no limit
	// has. Each comes with a [store.ForeignError], and has what follows the prefix as its subject.
	// Stores that hold nothing but limits have none.
	Foreign bool
	// KeysPerSecond bounds how many keys of all that there are, selected or
	// not, the store looks at in a second; 0 is without bound.
	KeysPerSecond int
	// Progress, if set, is told now and then how many keys the store has looked
	// at and about how many there are. What it selected of these has been yielded
	// by then. The two are equal at the end.
	Progress func(looked, total int64)
}

// describe tells by the limit in force what is used and what remains of an entry at now.
func (q *Query) describe(e *Entry, now store.Instant) {
	if q.InForce == nil {
		return
	}
	limit, err := q.InForce(e).Normalize()
	if err != nil || limit == e.Limit {
		return
	}
	e.Recorded, e.Limit = e.Limit, limit
	if e.State != nil {
		reqs, decisions := [1]store.Request{{Key: e.Key, Limit: limit, Cost: 1}}, [1]store.Decision{}
		store.Decide(store.Peek, reqs[:], []*store.State{e.State}, decisions[:], now)
		e.Decision = decisions[0]
	}
}

// Selects reports whether q selects key, if it is in use.
func (q *Query) Selects(key store.Key) bool {
	return q.Subjects.Match(key.Subject) && (q.Names.IsZero() || q.Names.Match(key.Name)) && (q.Match == nil || q.Match(key))
}

// Report tells q.Progress, if there is one.
func (q *Query) Report(looked, total int64) {
	if q.Progress != nil {
		q.Progress(looked, total)
	}
}

// Record is what a store holds under one key: the value as [store.State.AppendRecord]
// writes it and when it expires by the store's clock, zero if never. The record of a limit
// of another limiter has Parts instead.
type Record struct {
	Key     store.Key
	Value   []byte
	Expires time.Time
	// Parts are the values that belong together, each under its own store key. They are only
	// set where another limiter wrote them.
	Parts []Part
}

// Part is a value that another limiter wrote, and that Redis holds under one store key.
type Part struct {
	StoreKey string
	// Field is the field of a hash that others have their fields in, too; empty for the
	// whole value.
	Field string
	// Type is the type of the value, as the command TYPE names it.
	Type string
	// Dump is the value as the command DUMP returns it, or the text of the field. It is nil
	// if it was not asked for.
	Dump []byte
	// Expires is when the store key expires by the store's clock, zero if never.
	Expires time.Time
}

// Size is how many bytes the values of r take.
func (r *Record) Size() int {
	size := len(r.Value)
	for i := range r.Parts {
		size += len(r.Parts[i].Dump)
	}
	return size
}

// Holds reports whether r has what a store held, and not only names.
func (r *Record) Holds() bool { return r.Value != nil || len(r.Parts) > 0 && r.Parts[0].Dump != nil }

// WithoutValues returns r as it is needed to name what is deleted, whatever it holds then.
func (r *Record) WithoutValues() Record {
	names := Record{Key: r.Key, Parts: slices.Clone(r.Parts)}
	for i := range names.Parts {
		names.Parts[i].Dump = nil
	}
	return names
}

// Records returns records of keys without values for [Keyspace.Delete], which then
// deletes what the keys hold, also if that has changed.
func Records(keys ...store.Key) []Record {
	records := make([]Record, len(keys))
	for i, key := range keys {
		records[i].Key = key
	}
	return records
}

// Check reports, as a [store.ErrInvalid], what makes r unfit to be imported: its key,
// or a value that is not a limit record. Of the values of other limiters the store itself
// tells when it gets them.
func (r *Record) Check() error {
	if len(r.Parts) > 0 {
		return r.checkParts()
	}
	_, err := r.Decode()
	return err
}

// Decode returns the state that r's value holds, or the error of [Record.Check].
func (r *Record) Decode() (state store.State, err error) {
	if err := r.Key.Validate(); err != nil {
		return state, err
	}
	if err := state.DecodeRecord(r.Value); err != nil {
		return state, store.Invalidf("the value of key %s is not a limit record: %s", r.Key, err)
	}
	return state, nil
}

// maxParts is more store keys than the limit of any known limiter has.
const maxParts = 64

func (r *Record) checkParts() error {
	if r.Value != nil || len(r.Parts) > maxParts {
		return store.Invalidf("the record of key %q has %d parts and a value of %d bytes, which no record of another limiter has",
			r.Key.Subject, len(r.Parts), len(r.Value))
	}
	for i := range r.Parts {
		if part := &r.Parts[i]; part.StoreKey == "" || part.Type == "" || part.Dump == nil {
			return store.Invalidf("part %d of the record of key %q has no store key, type or value", i+1, r.Key.Subject)
		}
	}
	return nil
}

// ImportOutcome is what became of a record that was to be imported.
type ImportOutcome uint8

const (
	// NotKnown: an error came before the store had said what became of it.
	NotKnown ImportOutcome = iota
	// Imported: the key is as the record says from now on.
	Imported
	// Lapsed: nothing of the record would be in use any more by now.
	Lapsed
	// InUse: the key has been used since, and was left as it is.
	InUse
	// Foreign: the key holds what limitctl did not write, and was left so.
	Foreign
	// AlreadyThere: the key was as the record says before, and is.
	AlreadyThere
	// Unfit: the record cannot be imported, as an [UnfitError] says, and its key was left as it is.
	Unfit
)

// UnfitError says why a record cannot be imported. It concerns that record alone, whose keys were
// left as they are.
type UnfitError struct{ Err error }

// Error says what is wrong with the record.
func (e *UnfitError) Error() string { return e.Err.Error() }

// Unwrap returns the reason, which is a [store.ErrInvalid].
func (e *UnfitError) Unwrap() error { return e.Err }

// IncompleteError is an error of a scan that concerns one master of a Cluster. All that the
// others have was given.
type IncompleteError struct {
	// Part names the part: a master's address.
	Part string
	// Err is what went wrong there.
	Err error
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%s (so keys of the master %s are missing)", e.Err, e.Part)
}

// Unwrap returns e.Err.
func (e *IncompleteError) Unwrap() error { return e.Err }
