package dash

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// feed is what the store said.
type feed struct {
	rows      map[ID]*row // the followed keys
	servers   []Server
	coverage  coverage
	roundTrip history // in milliseconds
	fetching  bool    // a look is under way
	lookedAt  time.Time
	away      map[string]awayNode // nodes that do not answer, while others do
	answered  time.Time
	problem   error // why the last look failed
	tally     tally // of the followed keys
	denials   rates
	anyDenied bool // some rows have a denial
	overrides overrides
	// least is the row that what a scan finds must be closer to its limit than to be followed; nil if there is none.
	least      *row
	leastShare atomic.Uint64      // its used share, for the scan
	scanBegun  time.Time          // when the scan that is going on, or was the last, began
	scanError  error              // why the last scan failed
	pass       int                // the number of the scan that is going on, or was the last
	scanning   bool               // a scan is going on
	scanCut    bool               // a pause has ended one
	stopScan   context.CancelFunc // ends it
	search     search
}

// look reads the followed keys, unless that is under way.
func (m *model) look() tea.Cmd {
	if m.feed.fetching {
		return nil
	}
	m.feed.fetching, m.feed.lookedAt = true, m.now
	ask := request{Keys: make([]ID, 0, len(m.feed.rows)), Coverage: m.feed.coverage, Rules: m.rules()}
	for key := range m.feed.rows {
		ask.Keys = append(ask.Keys, key)
	}
	if m.screen == &m.detail {
		of := m.detail.key // which may change before the answer comes
		ask.Detail = &of
	}
	return m.reader.Fetch(m.ctx, ask)
}

// absorb takes in what a look at the keys brought.
func (m *model) absorb(s fetched) {
	f := &m.feed
	f.fetching = false
	if len(s.Servers) > 0 && (s.Err == nil || len(s.Servers) > 1) { // else the last answer of the servers stays
		f.servers = s.Servers
		f.roundTrip.Add(s.Time, float32(roundTripOf(s.Servers).Seconds()*1000))
	}
	for i := range s.Keys {
		key := iDOf(&s.Keys[i].Entry)
		r := f.rows[key]
		if r != nil { // else it stopped being followed meanwhile
			r.Update(s.Keys[i], s.Time)
		}
	}
	if f.problem = s.Err; s.Err != nil {
		return
	}
	f.absorbAway(&s.snapshot)
	f.answered = s.Time
	m.detail.absorb(s.Detail)
	m.forget(&s)
	m.arrange()
}

// forgetAfter is how long a key that is unused is still shown.
const forgetAfter = time.Minute

// forget makes keys that were not found unused, and after a while stops following them.
func (m *model) forget(s *fetched) {
	for _, key := range s.Asked {
		r := m.feed.rows[key]
		if r == nil || r.Updated.Equal(s.Time) {
			continue
		}
		r.Empty(s.Time, m.rules())
		if s.Time.Sub(r.UsedAt) > forgetAfter && !m.isPinned(r) && r.Denial == nil && m.Query.Keys == nil {
			delete(m.feed.rows, key)
		}
	}
}

// scan begins a pass through all keys, unless only named keys are followed.
func (m *model) scan() tea.Cmd {
	if m.Query.Keys != nil {
		return nil
	}
	ctx, stop := context.WithCancel(m.ctx)
	m.feed.pass++
	last := m.feed.search
	m.feed.scanning, m.feed.scanBegun, m.feed.stopScan, m.feed.search = true, m.now, stop, search{text: m.filter.Text}
	if last.text == m.filter.Text {
		m.feed.search.whole, m.feed.search.total = last.whole, last.total
	}
	p := pass{Number: m.feed.pass, rules: m.rules(), Followed: make(map[ID]bool, len(m.feed.rows)),
		LeastShare: &m.feed.leastShare}
	for id, r := range m.feed.rows {
		if id.StoreKey != "" { // it is read again, as its key does not say which limit it is
			continue
		}
		p.Followed[id] = true
		if !r.InUse || !m.selects(r) {
			continue
		}
		p.Matched++
		if r.IsAtLimit() {
			p.AtLimit++
		}
		if m.filter.Text != "" && m.filter.Matches(r) {
			m.feed.search.followed++
		}
	}
	if wanted := m.filter.filter; wanted.Text != "" {
		p.Wanted = wanted.MatchesReading
	}
	return p.Start(ctx)
}

// passEvery is how often all keys are scanned if a scan is quick. After a scan that takes longer the server rests for
// restsFor times as long.
const (
	passEvery = 2 * time.Second
	restsFor  = 3
)

// absorbScan takes in what a scan has found.
func (m *model) absorbScan(s scanned) tea.Cmd {
	f := &m.feed
	if s.Pass != f.pass { // it was given up
		return nil
	}
	f.coverage.Looked, f.coverage.Total = s.Looked, s.Total
	f.search.found = s.Wanted
	added := false
	for i := range s.Readings {
		reading := &s.Readings[i]
		if f.least != nil && closestFirst(reading, &f.least.reading) > 0 {
			continue // evict would take it
		}
		if id := iDOf(&reading.Entry); f.rows[id] == nil {
			f.rows[id] = new(*reading, m.now)
			added = true
		}
	}
	if added {
		m.evict()
		m.arrange()
	}
	if !s.Done {
		return await(s.Next)
	}
	f.stopScan()
	f.scanning = false
	if s.Err == nil {
		f.search.whole, f.search.total = true, f.search.followed+f.search.found
	}
	if f.scanError = s.Err; s.Err == nil {
		f.coverage.Passes++
		f.coverage.Took, f.coverage.Matched, f.coverage.AtLimit = s.Took, s.Matched, s.AtLimit
		f.coverage.Unsure, f.coverage.UnsureNoTTL = s.Unsure, s.UnsureNoTTL
		f.coverage.Full = s.Matched > int64(m.MaxKeys)
	}
	return m.after(max(passEvery-s.Took, passEvery/2, restsFor*s.Took), passDue{f.pass})
}

// evict stops following the keys that matter least, if there are too many.
func (m *model) evict() {
	rows := m.feed.rows
	if len(rows) <= m.MaxKeys {
		return
	}
	over := len(rows) - m.MaxKeys
	worst := make([]*row, 0, over+1) // the best of them first; they are few, so all rows need not be sorted
	for _, r := range rows {
		if len(worst) == over && m.compareWorth(r, worst[0]) < 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(worst, r, m.compareWorth)
		if worst = slices.Insert(worst, i, r); len(worst) > over {
			worst = slices.Delete(worst, 0, 1)
		}
	}
	for _, r := range worst {
		delete(rows, r.ID())
	}
}

// compareWorth says which of two rows is rather followed.
func (m *model) compareWorth(a, b *row) int {
	if c := trueFirst(m.isPinned(a), m.isPinned(b)); c != 0 {
		return c
	}
	if c := cmp.Or(trueFirst(!a.IsUnderBlock(), !b.IsUnderBlock()), cmp.Compare(b.DeniedRate(), a.DeniedRate())); c != 0 {
		return c
	}
	return closestFirst(&a.reading, &b.reading)
}

// findLeast finds the row that evict would take first. There is none with room for more rows, and while a filter
// pins what it matches.
func (m *model) findLeast() {
	f := &m.feed
	f.least = nil
	f.leastShare.Store(0)
	if len(f.rows) < m.MaxKeys || m.filter.Text != "" {
		return
	}
	for _, r := range f.rows {
		if f.least == nil || m.compareWorth(r, f.least) > 0 {
			f.least = r
		}
	}
	if f.least == nil || f.least.IsUnderBlock() || f.least.DeniedRate() > 0 || m.isPinned(f.least) {
		f.least = nil // which one is followed goes by more than how close it is to its limit
		return
	}
	f.leastShare.Store(math.Float64bits(f.least.UsedShare()))
}

// tally counts followed rows.
type tally struct {
	inUse, atLimit   int64
	defective, stuck int // those that have a defect, and those that stay so
}

func (t *tally) add(r *row) {
	if !r.InUse {
		return
	}
	if t.inUse++; r.PlacedAtLimit() {
		t.atLimit++
	}
	if len(r.Defects) == 0 {
		return
	}
	if t.defective++; r.IsStuck() {
		t.stuck++
	}
}

// isPinned reports whether somebody works with a key, so that it stays followed however
// far it is from its limit.
func (m *model) isPinned(r *row) bool {
	return m.keys.marked[r.ID()] || m.keys.moved && r.ID() == m.keys.selected ||
		m.screen == &m.detail && r.ID() == m.detail.key || m.filter.Text != "" && m.filter.Matches(r)
}

// isAway reports whether the store did not answer the last look.
func (m *model) isAway() bool { return m.feed.problem != nil }

// isWaiting reports whether an answer is waited for longer than usual. It may still come.
func (m *model) isWaiting() bool {
	return m.feed.fetching && m.now.Sub(m.feed.lookedAt) > max(m.Refresh, time.Second)
}

// atLimit returns how many keys are at their limit. It is exact unless there are more
// keys than are followed.
func (m *model) atLimit() (n int64, exact bool) {
	n = m.feed.tally.atLimit
	if c := &m.feed.coverage; c.Full && c.AtLimit > n {
		return c.AtLimit, false
	}
	return n, n == 0 || !m.feed.coverage.Full
}

// awayNode is a node that does not answer, as it is shown.
type awayNode struct {
	since   time.Time // when it answered last
	problem string
	keys    int
}

// absorbAway takes in which nodes do not answer.
func (f *feed) absorbAway(s *snapshot) {
	away := map[string]awayNode{}
	for i := range s.Away {
		a := &s.Away[i]
		n := awayNode{f.answered, a.Problem, len(a.Keys)}
		if before, was := f.away[a.Node]; was {
			n.since = before.since
		}
		away[a.Node] = n
	}
	f.away = away
	unread := s.Unread()
	for key, r := range f.rows {
		_, r.Stale = unread[key]
	}
}

// denialsEvery is the least time between two looks: services add to the table once a
// second.
const denialsEvery = time.Second

// denialsDue: the table is to be read again.
type denialsDue struct{}

// lookDenials reads the table, unless that is under way.
func (m *model) lookDenials() tea.Cmd {
	d := &m.feed.denials
	if d.Reader == nil || d.Fetching {
		return nil
	}
	d.Fetching = true
	return func() tea.Msg { return d.Reader.Look(m.ctx) }
}

// absorbDenials takes in what a look at the table brought.
func (m *model) absorbDenials(since deniedSince) tea.Cmd {
	d := &m.feed.denials
	d.Fetching = false
	if d.Problem = since.Err; since.Over > 0 {
		m.addDenials(&since)
	}
	pause := max(m.Refresh, denialsEvery) - since.Took
	return m.after(max(pause, since.Took), denialsDue{})
}

func (m *model) addDenials(since *deniedSince) {
	d := &m.feed.denials
	if d.Known, d.Lost = true, since.Lost; since.First {
		d.Begun, d.Totals, d.Unnamed = since.At, history{}, history{}
		d.Keys, d.Blocks = map[store.Key]*rate{}, map[blockRow]*rate{}
	}
	names := m.longNames()
	keys, blocks := map[store.Key]*admin.Denied{}, map[blockRow]*admin.Denied{}
	sum := int64(0)
	for i := range since.Rows {
		row := &since.Rows[i]
		if row.Override != "" {
			blocks[blockRow{row.Key, row.Override}] = row
			continue
		}
		key := row.Key
		if whole, is := names[key]; is {
			key = whole
		}
		keys[key] = row
		if d.Keys[key] != nil || since.ago(row) <= lately*time.Second {
			sum += row.Count
		}
	}
	countAll(d, d.Keys, keys, since)
	countAll(d, d.Blocks, blocks, since)
	d.Total = d.LateRate(&d.Totals, sum, since)
	d.Others = d.LateRate(&d.Unnamed, since.Others, since)
	d.CountLetThrough(since)
	m.followDenied()
}

// ago is how long before the look the last denial of a row was.
func (since *deniedSince) ago(row *admin.Denied) time.Duration {
	return time.Duration(since.Now-row.LastAt) * time.Microsecond
}

// countAll takes in what a look brought of keys, or of blocks. One that is not denied lately is dropped.
func countAll[K comparable](d *rates, all map[K]*rate, brought map[K]*admin.Denied, since *deniedSince) {
	for key, row := range brought {
		known := all[key]
		if known == nil {
			if since.ago(row) > lately*time.Second {
				continue
			}
			known = &rate{}
			all[key] = known
		}
		known.LastAt, known.Last = row.LastAt, since.At.Add(-since.ago(row))
		if row.Since > 0 {
			known.Since = since.At.Add(-time.Duration(since.Now-row.Since) * time.Microsecond)
		}
		d.Count(known, row.Count, since)
	}
	for key, known := range all {
		if brought[key] == nil {
			d.Count(known, 0, since)
		}
		if known.PerSecond == 0 {
			delete(all, key)
		}
	}
}

// longNames returns the followed keys by the shorter names that the table has for them.
func (m *model) longNames() map[store.Key]store.Key {
	names := map[store.Key]store.Key{}
	for id := range m.feed.rows {
		key := id.Key
		if len(key.Subject) > admin.MaxDenialText || len(key.Name) > admin.MaxDenialText {
			short := admin.Denied{Key: key}
			short.Shorten()
			names[short.Key] = key
		}
	}
	return names
}

// followDenied follows the keys that are being denied, however far from its limit the
// store says that they are.
func (m *model) followDenied() {
	denied := len(m.feed.denials.Keys) > 0
	if !denied && !m.feed.anyDenied {
		return
	}
	m.feed.anyDenied = denied
	for key := range m.feed.denials.Keys {
		if m.feed.rows[ownID(key)] == nil {
			m.feed.rows[ownID(key)] = new(reading{Entry: admin.Entry{Key: key}}, m.now)
		}
	}
	for id, r := range m.feed.rows {
		r.Denial = m.feed.denials.Keys[id.Key]
	}
	m.evict()
	m.arrange()
}

// lookOverrides reads the overrides, unless that is under way.
func (m *model) lookOverrides() tea.Cmd {
	o := &m.feed.overrides
	if o.reader == nil || o.fetching {
		return nil
	}
	o.fetching = true
	return func() tea.Msg { return o.reader.Look(m.ctx) }
}

// absorbOverrides takes in what a look at the overrides brought. What is left of limits depends on them, so
// the first scan begins after the first look, and the followed keys are read again after a change.
func (m *model) absorbOverrides(look overridesLook) tea.Cmd {
	first := !m.feed.overrides.looked
	var reread, scan tea.Cmd
	if m.feed.overrides.take(look) {
		reread = m.look()
		m.arrange()
	}
	if first {
		scan = m.scan()
	}
	return tea.Batch(reread, scan, m.after(max(m.Refresh, overridesEvery, look.Took), overridesDue{}))
}

func (m *model) rules() rules {
	return rules{Options: &m.Options, List: m.feed.overrides.list}
}
