// Package admin is for operators' tools, and for stores that serve them: what a store offers besides decisions.
// Services need none of it.
//
//   - [Keyspace] lists, deletes, brings back and adjusts keys. [KeyspaceOf] finds it.
//   - [Tables] keep what is beside the limits: overrides, denials, a journal and the id of the store. [TablesOf] finds
//     them. A store implements the [SideTable] below them.
//
// All stores of this module have them.
package admin

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Keyspace is a [store.Store] whose keys can be listed, deleted and brought back, for operators. [KeyspaceOf] finds it.
type Keyspace interface {
	store.Store
	// Scan yields every key in use that q selects, each once, in no particular order. A [store.ForeignError] is about
	// one key, whose Entry has only its names, and the scan continues. Any other error ends it. Scan writes nothing.
	Scan(ctx context.Context, q Query) iter.Seq2[Entry, error]
	// Delete makes the keys of records unused and returns how many were in use. Where a key no longer holds the Value
	// of its Record, changed has what was deleted, to complete a backup. Foreign values stay, each with a
	// [store.ForeignError] among the joined errors. After any other error some keys may have been deleted.
	Delete(ctx context.Context, records ...Record) (deleted int, changed []Record, err error)
	// Import brings records of a scan back, with the expiry they had, and returns the outcomes. It overwrites a key in
	// use only if replace is set. A record that is not sound is a [store.ErrInvalid].
	Import(ctx context.Context, replace bool, records ...Record) ([]ImportOutcome, error)
	// Adjust sets the usage of each key, each at one instant by itself, and returns the results. Foreign values stay,
	// each with a [store.ForeignError] among the joined errors. After any other error some keys may have been adjusted.
	// It is a [store.ErrInvalid] for limits of other limiters, which are only deleted and restored.
	Adjust(ctx context.Context, adjustments ...Adjustment) ([]Adjusted, error)
}

// KeyspaceOf returns backend as a Keyspace, or the one that it wraps; see [store.As].
func KeyspaceOf(backend store.Store) (keys Keyspace, has bool) { return store.As[Keyspace](backend) }

// Query selects keys for [Keyspace.Scan].
type Query struct {
	// Subjects selects by subject.
	Subjects store.Pattern
	// Names selects by the name of the limit; the zero Pattern selects every name.
	Names store.Pattern
	// Match, if set, decides last about a key, and before the value is read if possible. Calls may be concurrent.
	Match func(store.Key) bool
	// Keys, if set, are exactly the keys of limitctl to read, without a scan. The other selecting fields are then
	// unused.
	Keys []store.Key
	// Bytes, Records and States fill in [Entry.Bytes], [Entry.Record] and [Entry.State].
	Bytes, Records, States bool
	// InForce, if set, returns the limit that applies to a key of limitctl now, from which usage and remaining then
	// follow. Calls may be concurrent, and must neither change the entry nor keep it.
	InForce func(*Entry) store.Limit
	// Foreign selects also store keys that begin like those of limits but belong to none, each with a
	// [store.ForeignError]. Its subject is what follows the prefix.
	Foreign bool
	// Progress, if set, gets from time to time the number of keys that the scan has read, and the approximate
	// number of all. The selected ones of these have been yielded by then. The numbers are equal at the end.
	Progress func(looked, total int64)
}

// describe sets the usage and the remaining units of an entry by the limit in force at now.
func (q *Query) describe(e *Entry, now store.Instant) {
	if q.InForce == nil {
		return
	}
	limit, err := q.InForce(e).Normalize()
	if err != nil || limit == e.Limit {
		return
	}
	if limit.IsRecordedAs(e.Limit) { // a record has its window, and not its zone
		e.Limit.Calendar = limit.Calendar
		return
	}
	limit = limit.InWindow(now)
	e.Recorded, e.Limit = e.Limit, limit
	if e.State != nil {
		e.Decision = peek(e.Key, limit, e.State, now)
	}
}

// Selects reports whether q selects a key that is in use.
func (q *Query) Selects(key store.Key) bool {
	return q.Subjects.Match(key.Subject) && (q.Names.IsZero() || q.Names.Match(key.Name)) &&
		(q.Match == nil || q.Match(key))
}

// Has reports whether q selects a key, which is one of q.Keys if they are set.
func (q *Query) Has(key store.Key) bool {
	if q.Keys == nil {
		return q.Selects(key)
	}
	return slices.Contains(q.Keys, key)
}

// Report calls q.Progress, if it is set.
func (q *Query) Report(looked, total int64) {
	if q.Progress != nil {
		q.Progress(looked, total)
	}
}

// Record is what a store holds under one key: the value of [store.State.AppendRecord], and its expiry by the store's
// clock, zero if it never expires. The record of another limiter has Members instead.
type Record struct {
	Key     store.Key
	Value   []byte
	Expires time.Time
	Members []Member
}

// Member is a value that another limiter wrote, and that Redis holds under one store key.
type Member struct {
	StoreKey string
	// Type is the type of the value, as the command TYPE returns it.
	Type string
	// Dump is the value as the command DUMP returns it. It is nil if it was not requested.
	Dump []byte
	// Expires is when the store key expires, by the store's clock; zero if it never does.
	Expires time.Time
}

// Size is the number of bytes in the values of r.
func (r *Record) Size() int {
	size := len(r.Value)
	for i := range r.Members {
		size += len(r.Members[i].Dump)
	}
	return size
}

// Holds reports whether r has values, and not only names.
func (r *Record) Holds() bool {
	return r.Value != nil || len(r.Members) > 0 && r.Members[0].Dump != nil
}

// WithoutValues returns r with names only, to delete whatever the keys hold then.
func (r *Record) WithoutValues() Record {
	names := Record{Key: r.Key, Members: slices.Clone(r.Members)}
	for i := range names.Members {
		names.Members[i].Dump = nil
	}
	return names
}

// Records returns records without values. [Keyspace.Delete] deletes what their keys hold, even if that has changed.
func Records(keys ...store.Key) []Record {
	records := make([]Record, len(keys))
	for i, key := range keys {
		records[i].Key = key
	}
	return records
}

// Check returns a [store.ErrInvalid] if r cannot be imported, because of its key or because a value is not a limit
// record. The store itself checks the values of other limiters.
func (r *Record) Check() error {
	if len(r.Members) == 0 {
		_, err := r.Decode()
		return err
	}
	if r.Value != nil || len(r.Members) > maxMembers {
		return store.Invalidf("the record of key %q has %d parts and a value of %d bytes, "+
			"which no record of another limiter has", r.Key.Subject, len(r.Members), len(r.Value))
	}
	for i := range r.Members {
		if member := &r.Members[i]; member.StoreKey == "" || member.Type == "" || member.Dump == nil {
			return store.Invalidf("part %d of the record of key %q has no store key, type or value", i+1, r.Key.Subject)
		}
	}
	return nil
}

// Decode returns the state in r's value, or the error of [Record.Check].
func (r *Record) Decode() (state store.State, err error) {
	if err := r.Key.Validate(); err != nil {
		return state, err
	}
	if err := state.DecodeRecord(r.Value); err != nil {
		return state, store.Invalidf("the value of key %s is not a limit record: %s", r.Key, err)
	}
	return state, nil
}

// maxMembers is more than the number of store keys that a limit of any known limiter has.
const maxMembers = 64

// ImportOutcome is the result of an import of one record.
type ImportOutcome uint8

const (
	// NotKnown: an error came before the result was known.
	NotKnown ImportOutcome = iota
	// Imported: the key now holds the record.
	Imported
	// Lapsed: nothing of the record would still be in use.
	Lapsed
	// InUse: the key has been used since, and was not changed.
	InUse
	// Foreign: the key holds a foreign value, and was not changed.
	Foreign
	// AlreadyThere: the key held the record before.
	AlreadyThere
)

// IncompleteError is an error of a scan at one master of a Cluster. The scan returns all that the others have.
type IncompleteError struct {
	// Shard is the master's address.
	Shard string
	// Err is what went wrong there.
	Err error
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%s (so keys of the master %s are missing)", e.Err, e.Shard)
}

// Unwrap returns e.Err.
func (e *IncompleteError) Unwrap() error { return e.Err }

// Adjustment sets the usage of one key; [store.Adjust] adjusts those of one call together. See [Keyspace].
type Adjustment struct {
	Key store.Key
	// Limit is the limit to charge if units are missing.
	Limit store.Limit
	// Used is the wanted usage in units, from 0 to the capacity of Limit.
	Used int64
	// Kept is the value of the record that the caller has kept, for instance in a backup; nil for none. It is empty
	// if the caller has kept that nothing was in use.
	Kept []byte
}

// Normalize fills in the defaults of a's limit and name. An error is a [store.ErrInvalid] about a bound.
func (a *Adjustment) Normalize() error {
	req := store.Request{Key: a.Key, Limit: a.Limit, Cost: a.Used}
	err := req.Normalize(store.Adjust)
	a.Key, a.Limit = req.Key, req.Limit
	return err
}

// Apply adjusts s at now. It returns the usage before, and whether s has changed. Its twin is lua/adjust.lua.
func (a *Adjustment) Apply(s *store.State, now store.Instant) (before int64, changed bool) {
	before = s.Used(now)
	return before, s.Adjust(a.Limit, a.Used, now)
}

// Adjusted is the result of an adjustment of one key.
type Adjusted struct {
	// Done: the store has handled the key. It has not after an error, nor a foreign value, which stays.
	Done bool
	// Before and After are the units in use, rounded up. They are equal exactly if the key did not change.
	Before, After int64
	// Record is what the key held before the change, if the caller has not kept that; else it has no Value.
	Record Record
}
