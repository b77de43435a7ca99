package admin

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// SideTable is what a store keeps beside its limits: records by name, lists of texts, and counts of denials. It bounds
// and ends them by its own clock. Whoever can write to the store can write to it, so do not trust what you read.
type SideTable interface {
	// Get returns the records of those names that have not ended, without names all of an [OverrideTable]; the name ""
	// is that of the table's version. One that holds a foreign value has no Value. now is known if it returns
	// overrides.
	Get(ctx context.Context, t Table, names ...string) (found []TableRecord, now store.Instant, err error)
	// Change makes a change at one instant. done is false, and nothing was changed, if the record that it is guarded by
	// has another value. After a [store.ErrOutcomeUnknown] it may have been made.
	Change(ctx context.Context, c *Change) (done bool, err error)
	// Append adds a text to a list, and removes what is more than is kept.
	Append(ctx context.Context, l List, text string) error
	// Lines returns the latest texts of a list, at most most, the oldest first; damaged of them Append did not write.
	Lines(ctx context.Context, l List, most int) (lines []JournalEntry, damaged int, err error)
	// AddCounts adds checked denials to the current steps, keeps their most denied keys, and sums up the others.
	AddCounts(ctx context.Context, d *Denials) error
	// Counts calls step for each step that the last period touches and that has counts, the earliest first, and returns
	// the instant that the period ends at. With an [IncompleteError] steps are missing.
	Counts(ctx context.Context, last time.Duration, step func(now store.Instant, number int64, t *Tally)) (
		now store.Instant, err error)
}

// A Table is a kind of records.
type Table uint8

// The tables. An older limitctl finds each where it looks for it.
const (
	// IdentityTable has one record, the id of the store, under the name "".
	IdentityTable Table = iota
	// OverrideTable has the overrides by their IDs. Its version ends with the last of them.
	OverrideTable
	// ConfigTable has the published configurations by their numbers. Its version is a text that says which is in force.
	ConfigTable
	// ReportTable has what processes report about the published configuration, by the numbers of their places.
	ReportTable
)

// Bounds of published configurations, in bytes.
const (
	MaxConfigHead   = 4 << 10 // of the version of a [ConfigTable]
	MaxConfigRecord = 1<<20 + 64<<10
	MaxConfigReport = 1 << 10
)

// tables has what is known about each table: what errors call it, and where in a store its records are.
var tables = [...]struct{ what, head, others string }{
	IdentityTable: {"the store's id", "id", "id:"},
	OverrideTable: {"overrides", "{override}", "{override}:"},
	ConfigTable:   {"published configurations", "{config}:head", "{config}:v:"},
	ReportTable:   {"reports of processes", "{config}:process:", "{config}:process:"},
}

// Check is for stores. It returns a [store.ErrInvalid] if there is no such table.
func (t Table) Check() error {
	if int(t) < len(tables) {
		return nil
	}
	return store.Invalidf("unknown table number %d", uint8(t))
}

// String returns what errors call the table.
func (t Table) String() string { return tables[t].what }

// Key is for stores. It is the key of a record, which no record of another table has.
func (t Table) Key(name string) string {
	if name == "" {
		return tables[t].head
	}
	return tables[t].others + name
}

// Max returns the most bytes of a record of that name.
func (t Table) Max(name string) int {
	switch {
	case t == OverrideTable && name != "":
		return maxOverrideSize
	case t == ConfigTable && name == "":
		return MaxConfigHead
	case t == ConfigTable:
		return MaxConfigRecord
	case t == ReportTable:
		return MaxConfigReport
	}
	return storeIDSize // also of a version of overrides
}

// TableRecord is a record of a [SideTable].
type TableRecord struct {
	Name, Value string
	// Created and Ends are the instants of an override, in whole milliseconds; a version ends with the last override.
	Created, Ends store.Instant
	// Left is how long the record is kept; 0 for ever. It may be 0, too, for one that was asked for by itself.
	Left time.Duration
	// Place is where the store keeps the record, for errors.
	Place string
}

const foreignValue = "a value that limitctl did not write"

// Foreign returns the error about a value that limitctl did not write.
func (r *TableRecord) Foreign(holds string) error {
	return &store.ForeignError{StoreKey: r.Place, Holds: holds}
}

// Change is a change of a table.
type Change struct {
	Table Table
	// What is the change, such as "publication", for errors.
	What string
	// Guard is the name of a record that must have the value Was, "" for none or (but of overrides) a foreign one.
	Guard, Was string
	// Set are records to set, and Drop names of records to remove.
	Set  []TableRecord
	Drop []string
	// Rest are the other records in force, of an [OverrideTable].
	Rest []TableRecord
	// Line, if it is not empty, is added to the [HistoryList].
	Line string
}

// Check is for stores. It returns a [store.ErrInvalid] if the change is out of bounds.
func (c *Change) Check() error {
	if err := c.Table.Check(); err != nil {
		return err
	}
	for i := range c.Set {
		if r := &c.Set[i]; r.Value == "" || len(r.Value) > c.Table.Max(r.Name) {
			return store.Invalidf("a record of %d bytes for %s; it can have 1 to %d", len(r.Value), c.Table,
				c.Table.Max(r.Name))
		}
	}
	if c.Line != "" {
		return checkText(c.Line)
	}
	return nil
}

// A List is a kind of texts.
type List uint8

// The lists.
const (
	// JournalList says who changed what.
	JournalList List = iota
	// HistoryList says what was published.
	HistoryList
)

// String returns what errors call the list.
func (l List) String() string { return [...]string{"the journal", "the history of configurations"}[l] }

// Kept is the number of texts that a store keeps.
func (l List) Kept() int { return [...]int{JournalKept, 1000}[l] }

// Tables are what the records of a [SideTable] mean: the store's id, a journal, overrides, and denials.
type Tables struct {
	SideTable
	// AuditOnly: the limits are those of another limiter, so that only the id and the journal are about them.
	AuditOnly bool
	// Private: no other process finds what is in the tables.
	Private bool
}

func (t *Tables) tables() *Tables { return t }

// Value returns the value of a record; it is empty if there is none.
func (t *Tables) Value(ctx context.Context, table Table, name string) (string, error) {
	found, _, err := t.Get(ctx, table, name)
	switch {
	case err != nil || len(found) == 0:
		return "", err
	case found[0].Value == "":
		return "", found[0].Foreign(foreignValue)
	}
	return found[0].Value, nil
}

// AuditOf returns the tables of backend, or of the store that it wraps (see [store.As]), for the id and the journal.
func AuditOf(backend store.Store) (*Tables, bool) {
	holder, has := store.As[interface{ tables() *Tables }](backend)
	if !has || holder.tables().SideTable == nil {
		return nil, false
	}
	return holder.tables(), true
}

// TablesOf returns the tables of backend, as [AuditOf] does, if all of them are about its limits.
func TablesOf(backend store.Store) (*Tables, bool) {
	tables, has := AuditOf(backend)
	if !has || tables.AuditOnly {
		return nil, false
	}
	return tables, true
}
