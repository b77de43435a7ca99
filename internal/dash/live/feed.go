// Package live reads rate limits for the dashboard, and keeps what the store said. feed.go takes the answers in,
// scan.go and read.go read keys outside the loop, denials.go and overrides.go the tables, rows.go knows orders and
// filters.
package live

import (
	"cmp"
	"context"
	"maps"
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

	Clock  time.Time // the time of day that is shown
	Order  Order
	Filter Filter
	// Pinned reports whether somebody works with a key, so that it stays followed however far it is from its limit.
	Pinned func(store.Key) bool

	Rows      map[store.Key]*Row // the followed keys
	Listed    []*Row             // those that are selected and pass the filter, in order
	Offenders []Offender         // what many of them have in common
	Began     string             // what began lately
	Tally     Tally
	Servers   []Server
	Coverage  Coverage
	Allowed   History   // units a second that were charged to followed keys
	Away      []away    // nodes that do not answer, while others do
	Answered  time.Time // when the store last did
	Problem   error     // why the last look failed
	Denials   Denials
	Overrides Overrides

	fetching   bool          // a look is under way
	looks      int           // that are over
	leastShare atomic.Uint64 // the used share, as math.Float64bits, that a key must have more of to be followed

	ScanError error // why the last scan for keys failed
}

// due is a message of time: something is to be asked again, or was answered.
type due func() tea.Cmd

// New returns a feed that knows nothing yet. It reads until ctx ends.
func New(ctx context.Context, o Options) *Feed {
	f := &Feed{Options: o, ctx: ctx, Clock: o.Now(), Answered: o.Now(), Rows: map[store.Key]*Row{},
		Allowed: History{Sums: true}, Pinned: func(store.Key) bool { return false }}
	f.reader = &reader{Options: &f.Options}
	f.Overrides.table = o.Overrides
	if o.Denials != nil {
		f.Denials.reader = &denialReader{Options: &f.Options}
	}
	for _, key := range o.Query.Keys {
		f.Rows[key] = newRow(Reading{Entry: admin.Entry{Key: key}}, f.Clock)
	}
	return f
}

// Init begins to read.
func (f *Feed) Init() tea.Cmd {
	begin := f.LookOverrides()
	if begin == nil { // there are none, and the scan need not wait for them
		begin = f.scan()
	}
	return tea.Batch(f.Look(), begin, f.LookDenials(), f.LookServers(), f.lookBegan())
}

// Update takes a message in. Those that are none of the feed's change nothing.
func (f *Feed) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case due:
		return msg()
	case fetched:
		f.Clock = f.Now()
		f.absorb(msg)
		f.looks++ // a store that takes long is given at least as long a rest
		// Each key costs a Redis of our test machine 4 µs, so looking takes at most 4 % of a core.
		pause := max(f.Refresh, time.Duration(len(f.Rows))*100*time.Microsecond) - msg.Took
		return f.After(max(pause, min(msg.Took, f.Refresh)), f.lookAfter(f.looks))
	case scanned:
		return f.absorbScan(msg)
	case deniedSince:
		f.Denials.fetching = false
		if f.Denials.Problem = msg.Err; msg.Over > 0 {
			f.Denials.add(&msg, f.Rows)
			f.followDenied()
		}
		return f.After(max(f.tablesEvery()-msg.Took, msg.Took), due(f.LookDenials))
	case overridesLook: // on which depends what is left of limits, so the first scan begins after the first look
		var reread, scan tea.Cmd
		first := !f.Overrides.looked
		if f.Overrides.take(msg) {
			reread = f.Look()
			f.Arrange()
		}
		if first {
			scan = f.scan()
		}
		return tea.Batch(reread, scan, f.After(max(f.tablesEvery(), msg.took), due(f.LookOverrides)))
	}
	return nil
}

// lookAfter looks at the keys after the look of that number, unless there was one since.
func (f *Feed) lookAfter(number int) due {
	return func() tea.Cmd {
		if number != f.looks {
			return nil
		}
		return f.Look()
	}
}

// scanAgain scans all keys, once the store answers.
func (f *Feed) scanAgain() tea.Cmd {
	if f.Problem != nil {
		return f.After(time.Second, due(f.scanAgain))
	}
	return f.scan()
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
func (f *Feed) tablesEvery() time.Duration { return max(f.Refresh, time.Second) }

// Look reads the followed keys, unless that is under way.
func (f *Feed) Look() tea.Cmd {
	if f.fetching {
		return nil
	}
	f.fetching = true
	return f.reader.Fetch(f.ctx, slices.Collect(maps.Keys(f.Rows)), f.rules())
}

// LookOverrides reads the overrides, unless there are none, or that is under way.
func (f *Feed) LookOverrides() tea.Cmd { return f.Overrides.look(f.ctx, &f.Options) }

// LookDenials reads the table of denials, unless there is none, or that is under way.
func (f *Feed) LookDenials() tea.Cmd { return f.Denials.look(f.ctx) }

// LookServers asks the servers, if there are any.
func (f *Feed) LookServers() tea.Cmd {
	if f.Options.Servers == nil {
		return nil
	}
	return func() tea.Msg {
		all := f.Options.Servers(f.ctx)
		return due(func() tea.Cmd {
			// else what it said last stays
			if len(all) > 1 || len(all) == 1 && all[0].Problem == "" || f.Servers == nil {
				f.Servers = all
			}
			return f.After(f.tablesEvery(), due(f.LookServers))
		})
	}
}

// lookBegan asks what began, while somebody is denied.
func (f *Feed) lookBegan() tea.Cmd {
	if f.Options.Began == nil {
		return nil
	}
	const every = 5 * time.Second
	look := f.Options.Began
	if f.Denials.Keys == 0 {
		look = func(context.Context) string { return "" }
	}
	return func() tea.Msg {
		began := look(f.ctx)
		return due(func() tea.Cmd { f.Began = began; return f.After(every, due(f.lookBegan)) })
	}
}

// bounded is a context that ends when an answer has been waited for long enough.
func (o *Options) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.Timeout > 0 {
		return store.BudgetContext(ctx, o.Timeout)
	}
	return ctx, func() {}
}

func (f *Feed) absorb(s fetched) {
	f.fetching = false
	units := float32(0)
	for i := range s.Keys {
		if r := f.Rows[s.Keys[i].Key]; r != nil { // else it stopped being followed meanwhile
			if !r.Updated.IsZero() && s.Keys[i].Taken > 0 {
				units += float32(s.Keys[i].Taken)
			}
			r.update(s.Keys[i], s.Time)
		}
	}
	if f.Problem = s.Err; s.Err != nil {
		return
	}
	if f.Allowed.values == nil {
		units = float32(math.NaN()) // there is no look before to compare with
	}
	f.Allowed.Add(s.Time, units)
	if store.IsAway(f.ScanError) { // no longer
		f.ScanError = nil
	}
	f.Away, f.Answered = s.Away, s.Time
	for _, r := range f.Rows {
		r.Stale = false
	}
	for i := range f.Away {
		for _, key := range f.Away[i].Keys {
			if r := f.Rows[key]; r != nil {
				r.Stale = true
			}
		}
	}
	forget(f, &s)
	f.Arrange()
}

const forgetAfter = time.Minute // that a key is unused

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

func (f *Feed) pins(r *Row) bool {
	return f.Pinned(r.Key) || f.Filter.Text != "" && f.Filter.Matches(r)
}

// Arrange lists the rows that are to be shown. Rows that are equal in the order keep their places.
func (f *Feed) Arrange() {
	rules := f.rules()
	f.Tally, f.Listed = Tally{}, f.Listed[:0]
	for _, r := range f.Rows {
		r.Override = rules.Override(r.Key)
		r.placed = r.place()
	}
	f.evict()
	for _, r := range f.Rows {
		if f.Keep != nil && !(r.Found() && f.Keep(&r.Entry)) {
			continue
		}
		if r.InUse {
			f.Tally.InUse++
		}
		if r.placed.atLimit {
			f.Tally.AtLimit++
		}
		named := r.Updated.IsZero() && f.Query.Keys != nil // and not found yet
		if !named && f.Filter.Matches(r) {
			f.Listed = append(f.Listed, r)
		}
	}
	slices.SortFunc(f.Listed, func(a, b *Row) int { return cmp.Or(f.Order.compare(a, b), compareKeys(a.Key, b.Key)) })
	f.Offenders = offendersOf(f.Listed, f.Denials.Others())
}

// scan begins a pass through all keys, unless only named keys are followed.
func (f *Feed) scan() tea.Cmd {
	if f.Query.Keys != nil {
		return nil
	}
	p := pass{rules: f.rules(), LeastShare: &f.leastShare}
	return p.Start(f.ctx)
}

// Rest is how long nothing is scanned after a scan, of which one of a million keys takes some 5 s of a core here.
func (c *Coverage) Rest() time.Duration {
	const shortest, least, usual, enough = 2 * time.Second, 3, 18, 150 * time.Second
	return max(shortest, least*c.Took, min(usual*c.Took, enough))
}

// IsScanning reports whether not all keys were looked at yet, so that counts are the least that there are.
func (f *Feed) IsScanning() bool { return f.Coverage.Passes == 0 && f.Query.Keys == nil }

// FollowsAll reports whether all keys of the store are followed.
func (f *Feed) FollowsAll() bool {
	return !f.Coverage.Full && len(f.Rows) < f.MaxKeys || f.Query.Keys != nil
}

// ScanAll reads the overrides, on which depends what is left of limits, and finds all keys.
func (f *Feed) ScanAll() error {
	if look := f.LookOverrides(); look != nil {
		f.Overrides.take(look().(overridesLook))
	}
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

func (f *Feed) absorbScan(s scanned) tea.Cmd {
	f.Coverage.Looked, f.Coverage.Total = s.Looked, s.Total
	added := false
	for i := range s.Readings {
		if key := s.Readings[i].Key; f.Rows[key] == nil {
			f.Rows[key] = newRow(s.Readings[i], f.Clock)
			added = true
		}
	}
	if added {
		f.Arrange()
	}
	if !s.Done {
		return await(s.Next)
	}
	if f.ScanError = s.Err; s.Err == nil {
		s.Passes, s.Full = f.Coverage.Passes+1, s.Matched > int64(f.MaxKeys)
		f.Coverage = s.Coverage
	} else if store.IsAway(s.Err) {
		return f.After(new(Coverage).Rest(), due(func() tea.Cmd {
			if f.Problem != nil { // all of the store was away, and not one server of several
				return f.scanAgain()
			}
			return f.After(s.Rest(), due(f.scanAgain))
		}))
	}
	return f.After(s.Rest(), due(f.scanAgain))
}

func (f *Feed) rules() rules { return rules{Options: &f.Options, List: f.Overrides.List} }

// followDenied follows the keys that are being denied, however far from its limit the store says that they are.
func (f *Feed) followDenied() {
	for c := range f.Denials.Rates {
		if c.isKey() && f.Rows[c.Key] == nil {
			f.Rows[c.Key] = newRow(Reading{Entry: admin.Entry{Key: c.Key}}, f.Clock)
		}
	}
	for key, r := range f.Rows {
		r.Denial = f.Denials.Rates[Counted{Key: key}]
	}
	f.Arrange()
}

// evict stops following the keys that matter least, if there are too many, and tells scans which matter more.
func (f *Feed) evict() {
	share := -1.0 // any
	if len(f.Rows) >= f.MaxKeys {
		rows := slices.SortedFunc(maps.Values(f.Rows), f.compareWorth)
		for _, r := range rows[f.MaxKeys:] {
			delete(f.Rows, r.Key)
		}
		least := rows[f.MaxKeys-1]
		if f.Filter.Text == "" && !least.IsUnderBlock() && least.DeniedRate() == 0 && !f.pins(least) {
			share = least.UsedShare()
		}
	}
	f.leastShare.Store(math.Float64bits(share))
}

func (f *Feed) compareWorth(a, b *Row) int {
	return cmp.Or(trueFirst(f.Pinned(a.Key), f.Pinned(b.Key)), trueFirst(f.pins(a), f.pins(b)),
		trueFirst(!a.IsUnderBlock(), !b.IsUnderBlock()),
		cmp.Compare(b.DeniedRate(), a.DeniedRate()), closestFirst(&a.Reading, &b.Reading))
}

// Tally counts followed rows.
type Tally struct {
	InUse, AtLimit int64
}
