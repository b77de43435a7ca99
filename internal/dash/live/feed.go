// Package live reads rate limits for the dashboard, and keeps what the store said: the followed keys in their order, who
// is denied, and what is in force. feed.go takes the answers in, scan.go and nodes.go read keys outside the loop,
// denials.go and overrides.go read the two tables beside them, rows.go knows keys, orders and filters.
package live

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Feed is what the store said. Only Update and what is called from it change it.
type Feed struct {
	Options
	ctx    context.Context
	reader *reader

	Clock    time.Time // the time of day that is shown
	Paused   bool      // nothing is read until it goes on
	Order    Order
	Reversed bool
	Filter   Filter
	// Wanted is the key that is read by itself, nil for none, and Read what was read of it.
	Wanted *ID
	Read   *Detail
	// Pinned reports whether somebody works with a key, so that it stays followed however far it is from its limit.
	Pinned func(ID) bool

	Rows      map[ID]*Row // the followed keys
	Listed    []*Row      // those that are selected and pass the filter, in order
	Offenders []Offender  // what many of them have in common
	Tally     Tally
	Servers   []Server
	Coverage  Coverage
	Allowed   History         // units a second that were charged to followed keys
	Away      map[string]Away // nodes that do not answer, while others do
	Answered  time.Time       // when the store last did
	Problem   error           // why the last look failed
	Denials   Denials
	Overrides Overrides

	fetching   bool // a look is under way
	lookedAt   time.Time
	ticks      int // the number of the current interval; see refreshDue
	anyDenied  bool
	least      *Row          // that a key must be closer to its limit than to be followed; nil if there is none
	leastShare atomic.Uint64 // its used share, for the scan
	scanner
}

// scanner is the scan for keys that is going on, or was the last.
type scanner struct {
	ScanError error     // why the last one failed
	ScanBegun time.Time // when it began
	Search    Search
	pass      int  // its number
	scanning  bool // it is going on
	cut       bool // a pause has ended it
	stop      context.CancelFunc
}

// Search is what a scan found of a filter.
type Search struct {
	Text            string // the filter's; empty if there was none
	followed, found int64  // the followed keys that it keeps, when the scan began, and those found since then
	Whole           bool   // a scan for the same filter is over, and found total
	total           int64
}

// Found is how many keys of the store the filter keeps, as far as that is known.
func (s *Search) Found() int64 {
	if s.Whole { // what the next scan has found so far says less
		return s.total
	}
	return s.followed + s.found
}

// Messages of time.
type (
	// refreshDue: the followed keys are to be read again. A tick of an interval that was changed meanwhile does not count.
	refreshDue struct{ tick int }
	// passDue: all keys are to be scanned again, that long after the scan of that number.
	passDue      struct{ pass int }
	denialsDue   struct{}
	overridesDue struct{}
)

// OnlyReads reports whether a message makes a feed read the store, and changes nothing that is drawn.
func OnlyReads(msg tea.Msg) bool {
	switch msg.(type) {
	case refreshDue, denialsDue, overridesDue, passDue:
		return true
	}
	return false
}

// New returns a feed that knows nothing yet. It reads until ctx ends.
func New(ctx context.Context, o Options) *Feed {
	f := &Feed{Options: o, ctx: ctx, Clock: o.Now(), Answered: o.Now(), Rows: map[ID]*Row{}, Allowed: History{Sums: true},
		Pinned: func(ID) bool { return false }, scanner: scanner{stop: func() {}}}
	f.reader = &reader{Options: &f.Options, nodes: map[string]*node{}}
	if o.Overrides != nil {
		f.Overrides.reader = &overrideReader{Options: &f.Options}
	}
	if o.Denials != nil {
		f.Denials.reader = &denialReader{Options: &f.Options, Table: o.Denials}
	}
	for _, key := range o.Query.Keys {
		f.Rows[OwnID(key)] = newRow(Reading{Entry: admin.Entry{Key: key}}, f.Clock)
	}
	return f
}

// Init begins to read.
func (f *Feed) Init() tea.Cmd {
	begin := f.Overrides.look(f.ctx)
	if begin == nil { // there are none, and the scan need not wait for them
		begin = f.scan()
	}
	return tea.Batch(f.Look(), begin, f.LookDenials())
}

// Update takes a message in. Those that are none of the feed's change nothing.
func (f *Feed) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case fetched:
		f.Clock = f.Now()
		f.absorb(msg)
		f.ticks++ // a store that takes long is given at least as long a rest
		pause := max(f.Refresh, f.LeastRefresh(len(f.Rows))) - msg.Took
		return f.After(max(pause, min(msg.Took, f.Refresh)), refreshDue{f.ticks})
	case refreshDue:
		if msg.tick == f.ticks && !f.Paused {
			return f.Look()
		}
	case scanned:
		return f.absorbScan(msg)
	case deniedSince:
		f.Denials.fetching = false
		if f.Denials.Problem = msg.Err; msg.Over > 0 {
			f.Denials.add(&msg, f.Rows)
			f.followDenied()
		}
		return f.After(max(max(f.Refresh, tablesEvery)-msg.Took, msg.Took), denialsDue{})
	case denialsDue:
		if f.Paused {
			return f.After(max(f.Refresh, tablesEvery), msg)
		}
		return f.LookDenials()
	case overridesLook:
		return absorbOverrides(f, msg)
	case overridesDue:
		if f.Paused {
			return f.After(max(f.Refresh, tablesEvery), msg)
		}
		return f.Overrides.look(f.ctx)
	case passDue:
		switch {
		case msg.pass != f.pass: // a scan began meanwhile
		case f.Paused || f.Problem != nil:
			return f.After(passEvery/2, msg)
		default:
			return f.scan()
		}
	}
	return nil
}

// After brings a message when some time has passed.
func (f *Feed) After(d time.Duration, msg tea.Msg) tea.Cmd {
	return func() tea.Msg {
		if f.Sleep(f.ctx, d) != nil {
			return nil
		}
		return msg
	}
}

// tablesEvery is the least time between two looks at a table beside the keys. A service looks and writes as often.
const tablesEvery = time.Second

// Look reads the followed keys, unless that is under way.
func (f *Feed) Look() tea.Cmd {
	if f.fetching {
		return nil
	}
	f.fetching, f.lookedAt = true, f.Clock
	ask := request{Keys: make([]ID, 0, len(f.Rows)), Coverage: f.Coverage, Rules: f.rules()}
	for key := range f.Rows {
		ask.Keys = append(ask.Keys, key)
	}
	if f.Wanted != nil {
		of := *f.Wanted // which may change before the answer comes
		ask.Detail = &of
	}
	return f.reader.Fetch(f.ctx, ask)
}

// LookOverrides reads the overrides, unless there are none, or that is under way.
func (f *Feed) LookOverrides() tea.Cmd { return f.Overrides.look(f.ctx) }

// LookDenials reads the table of denials, unless there is none, or that is under way.
func (f *Feed) LookDenials() tea.Cmd { return f.Denials.look(f.ctx) }

// Want makes a key the one that is read by itself; nil reads none.
func (f *Feed) Want(id *ID) {
	if f.Wanted = id; f.Read != nil && (id == nil || f.Read.Of != *id) {
		f.Read = nil
	}
}

// absorb takes in what a look at the keys brought.
func (f *Feed) absorb(s fetched) {
	f.fetching = false
	if len(s.Servers) > 0 && (s.Err == nil || len(s.Servers) > 1) { // else the last answer of the servers stays
		f.Servers = s.Servers
	}
	units := float32(0)
	for i := range s.Keys {
		if r := f.Rows[iDOf(&s.Keys[i].Entry)]; r != nil { // else it stopped being followed meanwhile
			if !r.Updated.IsZero() {
				units += float32(s.Keys[i].Taken)
			}
			r.update(s.Keys[i], s.Time)
		}
	}
	if f.Problem = s.Err; s.Err != nil {
		return
	}
	if f.Allowed.Values == nil {
		units = float32(math.NaN()) // there is no look before to compare with
	}
	f.Allowed.Add(s.Time, units)
	if store.IsAway(f.ScanError) { // no longer
		f.ScanError = nil
	}
	absorbAway(f, &s.snapshot)
	f.Answered = s.Time
	if f.Read = s.Detail; f.Wanted != nil {
		f.Want(f.Wanted)
	}
	forget(f, &s)
	f.Arrange()
}

// forgetAfter is how long a key that is unused is still shown.
const forgetAfter = time.Minute

// forget makes keys that were not found unused, and after a while stops following them.
func forget(f *Feed, s *fetched) {
	for _, key := range s.Asked {
		r := f.Rows[key]
		if r == nil || r.Updated.Equal(s.Time) {
			continue
		}
		r.empty(s.Time, f.rules())
		if s.Time.Sub(r.UsedAt) > forgetAfter && !f.pins(r) && r.Denial == nil && f.Query.Keys == nil {
			delete(f.Rows, key)
		}
	}
}

// pins reports whether somebody works with a row.
func (f *Feed) pins(r *Row) bool {
	return f.Pinned(r.ID()) || f.Filter.Text != "" && f.Filter.Matches(r)
}

// Arrange lists the rows that are to be shown. Rows that are equal in the order keep their places.
func (f *Feed) Arrange() {
	rules, before := f.rules(), f.Listed
	f.Tally = Tally{}
	rows := make([]*Row, len(before), len(f.Rows)+len(before))
	for _, r := range f.Rows {
		if f.Keep != nil && !(r.Found() && f.Keep(&r.Entry)) {
			continue
		}
		r.Override = rules.Override(r.Key)
		r.placed = r.place()
		f.Tally.add(r)
		switch {
		case r.Updated.IsZero() && f.Query.Keys != nil, !f.Filter.Matches(r): // it was named, and not found yet; or is not wanted
		case r.listed < len(before) && before[r.listed] == r: // most stay in their order, which makes sorting quick
			rows[r.listed] = r
		default:
			rows = append(rows, r)
		}
	}
	f.Listed = slices.DeleteFunc(rows, func(r *Row) bool { return r == nil })
	slices.SortFunc(f.Listed, func(a, b *Row) int {
		if c := f.Order.compare(a, b); c != 0 {
			if f.Reversed {
				return -c
			}
			return c
		}
		return CompareIDs(a.ID(), b.ID())
	})
	for i, r := range f.Listed {
		r.listed = i
	}
	f.Offenders = offendersOf(f.Listed, f.Denials.Others)
	f.findLeast()
}

// scan begins a pass through all keys, unless only named keys are followed.
func (f *Feed) scan() tea.Cmd {
	if f.Query.Keys != nil {
		return nil
	}
	ctx, stop := context.WithCancel(f.ctx)
	last := f.Search
	f.pass++
	f.scanning, f.ScanBegun, f.stop, f.Search = true, f.Clock, stop, Search{Text: f.Filter.Text}
	if last.Text == f.Filter.Text {
		f.Search.Whole, f.Search.total = last.Whole, last.total
	}
	p := pass{Number: f.pass, rules: f.rules(), Followed: make(map[ID]bool, len(f.Rows)), LeastShare: &f.leastShare}
	for id, r := range f.Rows {
		if id.StoreKey != "" { // it is read again, as its key does not say which limit it is
			continue
		}
		p.Followed[id] = true
		if !r.InUse || f.Keep != nil && !f.Keep(&r.Entry) {
			continue
		}
		p.Matched++
		if r.IsAtLimit() {
			p.AtLimit++
		}
		if f.Filter.Text != "" && f.Filter.Matches(r) {
			f.Search.followed++
		}
	}
	if wanted := f.Filter; wanted.Text != "" {
		p.Wanted = func(r *Reading) bool { return wanted.Matches(&Row{Reading: *r, InUse: true}) }
	}
	return p.Start(ctx)
}

// passEvery is how often all keys are scanned if a scan is quick.
const passEvery = 2 * time.Second

// rest is how long nothing is scanned after a scan that took so long: a scan of a million keys takes some 5 s of a core
// here, which are to be few in a hundred.
func rest(took time.Duration) time.Duration {
	const least, usual, enough = 3, 18, 150 * time.Second
	return max(least*took, min(usual*took, enough))
}

// Every is how often all keys are scanned.
func (c *Coverage) Every() time.Duration { return max(c.Took+rest(c.Took), passEvery) }

// IsScanning reports whether not all keys were looked at yet, so that counts are the least that there are.
func (f *Feed) IsScanning() bool { return f.Coverage.Passes == 0 && f.Query.Keys == nil }

// FollowsAll reports whether all keys of the store are followed.
func (f *Feed) FollowsAll() bool {
	return !f.Coverage.Full && len(f.Rows) < f.MaxKeys || f.Query.Keys != nil
}

// SearchStore looks for the keys of the filter in the whole store, at once, unless all its keys are followed.
func (f *Feed) SearchStore() tea.Cmd {
	if f.FollowsAll() || f.Paused || f.pass == 0 || f.Filter.Text == "" || f.Filter.Text == f.Search.Text {
		return nil
	}
	f.stop()
	return f.scan()
}

// ScanAll finds the keys there are, and returns when it has.
func (f *Feed) ScanAll() error {
	for begin := f.scan(); begin != nil; {
		s, more := begin().(scanned)
		if !more {
			return f.ctx.Err()
		}
		if begin = f.absorbScan(s); s.Done {
			return s.Err
		}
	}
	return nil
}

// absorbScan takes in what a scan has found.
func (f *Feed) absorbScan(s scanned) tea.Cmd {
	if s.Pass != f.pass { // it was given up
		return nil
	}
	f.Coverage.Looked, f.Coverage.Total = s.Looked, s.Total
	f.Search.found = s.Wanted
	added := false
	for i := range s.Readings {
		reading := &s.Readings[i]
		if f.least != nil && closestFirst(reading, &f.least.Reading) > 0 {
			continue // evict would take it
		}
		if id := iDOf(&reading.Entry); f.Rows[id] == nil {
			f.Rows[id] = newRow(*reading, f.Clock)
			added = true
		}
	}
	if added {
		f.evict()
		f.Arrange()
	}
	if !s.Done {
		return await(s.Next)
	}
	f.stop()
	f.scanning = false
	if f.ScanError = s.Err; s.Err == nil {
		f.Search.Whole, f.Search.total = true, f.Search.followed+f.Search.found
		f.Coverage.Passes++
		f.Coverage.Took, f.Coverage.Matched, f.Coverage.AtLimit = s.Took, s.Matched, s.AtLimit
		f.Coverage.Unsure, f.Coverage.UnsureNoTTL = s.Unsure, s.UnsureNoTTL
		f.Coverage.Full = s.Matched > int64(f.MaxKeys)
	}
	return f.After(max(passEvery-s.Took, passEvery/2, rest(s.Took)), passDue{f.pass})
}

// Pause stops reading, or goes on.
func (f *Feed) Pause() tea.Cmd {
	if f.Paused = !f.Paused; f.Paused {
		if f.scanning {
			f.stop()
			f.pass++ // what it still finds does not count
			f.scanning, f.cut = false, true
		}
		return nil
	}
	if f.cut {
		f.cut = false
		return tea.Batch(f.Look(), f.scan())
	}
	return f.Look()
}

// RefreshEvery changes how often keys are looked at, and looks.
func (f *Feed) RefreshEvery(interval time.Duration) tea.Cmd {
	f.Refresh = interval
	f.ticks++ // the tick that is under way does not count
	return f.Look()
}

// IsWaiting reports whether an answer is waited for longer than usual, and since when. It may still come.
func (f *Feed) IsWaiting() (since time.Time, is bool) {
	return f.lookedAt, f.fetching && f.Clock.Sub(f.lookedAt) > max(f.Refresh, time.Second)
}

// AtLimit returns how many keys are at their limit. It is exact unless there are more keys than are followed.
func (f *Feed) AtLimit() (n int64, exact bool) {
	n = f.Tally.AtLimit
	if c := &f.Coverage; c.Full && c.AtLimit > n {
		return c.AtLimit, false
	}
	return n, n == 0 || !f.Coverage.Full
}

// absorbOverrides takes in what a look at the overrides brought. What is left of limits depends on them, so the first
// scan begins after the first look, and the followed keys are read again after a change.
func absorbOverrides(f *Feed, look overridesLook) tea.Cmd {
	first := !f.Overrides.looked
	var reread, scan tea.Cmd
	if f.Overrides.take(look) {
		reread = f.Look()
		f.Arrange()
	}
	if first {
		scan = f.scan()
	}
	return tea.Batch(reread, scan, f.After(max(f.Refresh, tablesEvery, look.Took), overridesDue{}))
}

func (f *Feed) rules() rules { return rules{Options: &f.Options, List: f.Overrides.List} }
