package dash

import (
	"cmp"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// feed is what the store said.
type feed struct {
	rows      map[ID]*row // the followed keys
	servers   []Server
	coverage  Coverage
	roundTrip history // in milliseconds
	fetching  bool    // a look is under way
	lookedAt  time.Time
	away      map[string]awayNode // nodes that do not answer, while others do
	answered  time.Time
	problem   error // why the last look failed
	denials   denials
	overrides overrides
	groups    *groupTotals // what the last whole scan found; nil before it
	scanError error        // why the last scan failed
}

// look reads the followed keys, unless that is under way.
func (m *model) look() tea.Cmd {
	if m.feed.fetching {
		return nil
	}
	m.feed.fetching, m.feed.lookedAt = true, m.now
	ask := request{coverage: m.feed.coverage, force: m.force()}
	if m.Record != nil {
		ask.denials = m.feed.denials.frame(m.now)
	}
	for key := range m.feed.rows {
		ask.keys = append(ask.keys, key)
	}
	if m.screen == &m.detail {
		of := m.detail.key // which may change before the answer comes
		ask.detail = &of
	}
	return m.reader.fetch(m.ctx, ask)
}

// absorb takes in what a look at the keys brought.
func (m *model) absorb(s fetched) {
	f := &m.feed
	f.fetching = false
	if len(s.Servers) > 0 && (s.err == nil || len(s.Servers) > 1) { // else the last answer of the servers stays
		f.servers = s.Servers
		f.roundTrip.add(s.Time, float32(roundTripOf(s.Servers).Seconds()*1000))
	}
	for i := range s.Keys {
		key := idOf(&s.Keys[i].Entry)
		r := f.rows[key]
		if r == nil {
			if m.Play == nil {
				continue // it stopped being followed meanwhile
			}
			r = newRow(s.Keys[i], s.Time)
			f.rows[key] = r
		}
		r.update(s.Keys[i], s.Time)
	}
	if m.Play != nil {
		f.coverage = s.Coverage
		m.playDenials(s.Denials, s.Time)
	}
	if f.problem = s.err; s.err != nil {
		return
	}
	f.absorbAway(&s.Snapshot)
	f.answered = s.Time
	if m.Play != nil {
		m.Where, m.Layouts = s.Store, s.Layouts
	}
	m.detail.absorb(s.detail)
	m.forget(&s)
	m.reunite()
	m.arrange()
}

// forgetAfter is how long a key that is unused is still shown.
const forgetAfter = time.Minute

// forget makes keys that were not found unused, and after a while stops following them.
func (m *model) forget(s *fetched) {
	if m.Play != nil { // a recording has all keys that were followed
		for key, r := range m.feed.rows {
			if !r.stale {
				s.asked = append(s.asked, key)
			}
		}
	}
	for _, key := range s.asked {
		r := m.feed.rows[key]
		if r == nil || r.updated.Equal(s.Time) {
			continue
		}
		r.empty(s.Time, m.force())
		if s.Time.Sub(r.usedAt) > forgetAfter && !m.isPinned(r) && r.denial == nil && m.Query.Keys == nil {
			delete(m.feed.rows, key)
		}
	}
}

// scan begins a pass through all keys, unless only named keys are followed.
func (m *model) scan() tea.Cmd {
	if m.Play != nil || m.Query.Keys != nil {
		return nil
	}
	p := pass{force: m.force(), followed: make(map[ID]bool, len(m.feed.rows)), rate: m.scanRate(), groups: newGroupTotals()}
	for id, r := range m.feed.rows {
		if id.StoreKey != "" { // it is read again, as its key does not say which limit it is
			continue
		}
		p.followed[id] = true
		if !r.inUse || !m.selects(r) {
			continue
		}
		p.matched++
		if r.isAtLimit() {
			p.atLimit++
		}
		p.groups.add(&r.Reading)
	}
	return p.start(m.ctx)
}

// passEvery is how often all keys are scanned if a scan is quick.
const passEvery = 2 * time.Second

// absorbScan takes in what a scan has found.
func (m *model) absorbScan(s scanned) tea.Cmd {
	f := &m.feed
	f.coverage.Looked, f.coverage.Total = s.looked, s.total
	for _, reading := range s.readings {
		if id := idOf(&reading.Entry); f.rows[id] == nil {
			f.rows[id] = newRow(reading, m.now)
		}
	}
	if len(s.readings) > 0 {
		m.reunite()
		m.evict()
		m.arrange()
	}
	if !s.done {
		return await(s.next)
	}
	if f.scanError = s.err; s.err == nil {
		f.coverage.Passes++
		f.coverage.Took, f.coverage.Matched, f.coverage.AtLimit = s.took, s.matched, s.atLimit
		f.coverage.Unsure, f.coverage.UnsureNoTTL = s.unsure, s.unsureNoTTL
		f.coverage.Full = s.matched > int64(m.MaxKeys)
		f.groups = s.groups
	}
	return m.after(max(passEvery-s.took, passEvery/2), passDue{})
}

// evict stops following the keys that matter least, if there are too many.
func (m *model) evict() {
	rows := m.feed.rows
	if len(rows) <= m.MaxKeys {
		return
	}
	all := make([]*row, 0, len(rows))
	for _, r := range rows {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *row) int {
		if c := compareBool(m.isPinned(a), m.isPinned(b)); c != 0 {
			return c
		}
		return cmp.Or(compareBool(a.deniedRate() > 0 && !a.isBlocked(), b.deniedRate() > 0 && !b.isBlocked()),
			cmp.Compare(b.deniedRate(), a.deniedRate()), closestFirst(a.Reading, b.Reading))
	})
	for _, r := range all[m.MaxKeys:] {
		delete(rows, r.id())
	}
}

// isPinned reports whether somebody works with a key, so that it stays followed however
// far it is from its limit.
func (m *model) isPinned(r *row) bool {
	return m.keys.marked[r.id()] || m.keys.moved && r.id() == m.keys.selected ||
		m.screen == &m.detail && r.id() == m.detail.key || m.filter.text != "" && m.filter.matches(r)
}

// isAway reports whether the store did not answer the last look.
func (m *model) isAway() bool { return m.feed.problem != nil }

// isWaiting reports whether an answer is waited for longer than usual. It may still come.
func (m *model) isWaiting() bool {
	return m.feed.fetching && m.Play == nil && m.now.Sub(m.feed.lookedAt) > max(m.Refresh, time.Second)
}

// atLimit returns how many keys are at their limit. It is exact unless there are more
// keys than are followed.
func (m *model) atLimit() (n int64, exact bool) {
	for _, r := range m.feed.rows {
		if r.inUse && r.isAtLimit() && m.selects(r) {
			n++
		}
	}
	if c := &m.feed.coverage; c.Full && c.AtLimit > n {
		return c.AtLimit, false
	}
	return n, n == 0 || !m.feed.coverage.Full
}

// attributes returns the names of the attributes that the followed keys have, in order.
func (f *feed) attributes() []string {
	var names []string
	for _, r := range f.rows {
		for _, attribute := range r.attributes {
			if !slices.Contains(names, attribute.Name) {
				names = append(names, attribute.Name)
			}
		}
	}
	slices.Sort(names)
	return names[:min(len(names), mostGroupings)]
}

// roundTripOf returns the longest round trip to any of the servers.
func roundTripOf(servers []Server) (longest time.Duration) {
	for i := range servers {
		longest = max(longest, servers[i].RoundTrip)
	}
	return longest
}
