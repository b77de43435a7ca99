package dash

import (
	"context"
	"slices"
	"time"

	"github.com/charmbracelet/bubbles/cursor"
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// screen is what is shown.
type screen int

const (
	keysScreen screen = iota
	groupsScreen
	detailScreen
	helpScreen
)

// model is the state of a dashboard. Only Update changes it, and only View draws it.
type model struct {
	Options
	ctx    context.Context
	reader *reader

	width, height int
	now           time.Time
	screen        screen
	back          []screen // where esc goes to
	paused        bool
	still         bool  // it is only drawn, and nobody moves in it
	played        bool  // all of a recording was shown
	interrupted   bool  // by Ctrl-C
	failed        error // what ended it

	// What the store said.
	rows      map[limiter.Key]*row
	servers   []Server
	coverage  Coverage
	roundTrip history // in milliseconds
	fetching  bool
	answered  time.Time // when it last did
	problem   error     // why it did not since
	scanError error

	// What is made of it for the screen.
	order    order
	reversed bool
	shown    []*row // those that the filter keeps, in order
	groups   []*group
	by       grouping
	within   *group // the opened group

	// Where one is.
	cursor, top int
	selected    limiter.Key
	moved       bool // the cursor stays with its key
	groupCursor int
	groupTop    int
	detailOf    limiter.Key
	detail      *detail
	scroll      int // of a text: the detail or the help
	marked      map[limiter.Key]bool
	filter      filter
	filtering   bool
	before      string // the filter's text before it was edited
	input       textinput.Model
	question    *question
	note        note
	lastReset   *Changed
	lastKeys    []limiter.Key // that were chosen for it
	acting      bool
	working     panics.Group // the actions that are under way
	ticks       int          // tells the ticks of an interval that was changed from others
}

// note is something to be said once.
type note struct {
	text  string
	bad   bool
	until time.Time
}

// noteStays is how long a note is shown.
const noteStays = 8 * time.Second

func newModel(ctx context.Context, o Options) *model {
	input := textinput.New()
	input.Cursor.SetMode(cursor.CursorStatic) // so that it wants nothing but keys
	input.KeyMap.Paste.SetEnabled(false)      // which terminals do by themselves
	m := &model{Options: o, ctx: ctx, width: 80, height: 24, now: o.Now(), rows: map[limiter.Key]*row{},
		marked: map[limiter.Key]bool{}, input: input, answered: o.Now(), by: groupings()[0]}
	if m.Play != nil {
		m.MaxKeys = mostPlayed // it says itself how many were followed
	}
	m.reader = newReader(&m.Options)
	for _, key := range o.Query.Keys {
		m.rows[key] = newRow(Reading{Entry: limiter.Entry{Key: key}}, m.now)
	}
	return m
}

// Messages of time.
type (
	// refreshDue says that the keys are to be looked at again.
	refreshDue struct{ tick int }
	// clockTick moves the clock, also while nothing is heard of the store.
	clockTick struct{}
	// passDue says that all keys are to be looked at again.
	passDue struct{}
)

// Init implements tea.Model.
func (m *model) Init() tea.Cmd {
	return tea.Batch(m.look(), m.scan(), m.clock())
}

// clock moves the time of day on, unless it is that of a recording.
func (m *model) clock() tea.Cmd {
	if m.Play != nil {
		return nil
	}
	return m.after(time.Second, clockTick{})
}

// after brings a message when some time has passed.
func (m *model) after(d time.Duration, msg tea.Msg) tea.Cmd {
	return func() tea.Msg {
		if m.Sleep(m.ctx, d) != nil {
			return nil
		}
		return msg
	}
}

// look fetches the followed keys, unless that is under way.
func (m *model) look() tea.Cmd {
	if m.fetching {
		return nil
	}
	m.fetching = true
	ask := request{coverage: m.coverage}
	for key := range m.rows {
		ask.keys = append(ask.keys, key)
	}
	if m.screen == detailScreen {
		of := m.detailOf // which may be another by the time of the answer
		ask.detail = &of
	}
	return m.reader.fetch(m.ctx, ask)
}

// scan begins a pass through all keys, if there are others than those that are
// followed.
func (m *model) scan() tea.Cmd {
	if m.Play != nil || m.Query.Keys != nil {
		return nil
	}
	p := pass{Options: &m.Options, followed: make(map[limiter.Key]bool, len(m.rows)), rate: m.scanRate()}
	for key, r := range m.rows {
		p.followed[key] = true
		if !r.inUse || !m.selects(r) {
			continue
		}
		p.matched++
		if r.atLimit() {
			p.atLimit++
		}
	}
	return p.start(m.ctx)
}

// passEvery is how often all keys are looked at if that is quickly done.
const passEvery = 2 * time.Second

// absorbScan takes in what a scan has found.
func (m *model) absorbScan(s scanned) tea.Cmd {
	m.coverage.Looked, m.coverage.Total = s.looked, s.total
	for _, reading := range s.readings {
		if m.rows[reading.Key] == nil {
			m.rows[reading.Key] = newRow(reading, m.now)
		}
	}
	if len(s.readings) > 0 {
		m.evict()
		m.arrange()
	}
	if !s.done {
		return await(s.next)
	}
	if m.scanError = s.err; s.err == nil {
		m.coverage.Passes++
		m.coverage.Took, m.coverage.Matched, m.coverage.AtLimit = s.took, s.matched, s.atLimit
		m.coverage.Full = s.matched > int64(m.MaxKeys)
	}
	return m.after(max(passEvery-s.took, passEvery/2), passDue{})
}

// evict stops following the keys that matter least, if there are too many.
func (m *model) evict() {
	if len(m.rows) <= m.MaxKeys {
		return
	}
	all := make([]*row, 0, len(m.rows))
	for _, r := range m.rows {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *row) int {
		switch kept, other := m.keep(a), m.keep(b); {
		case kept && !other:
			return -1
		case other && !kept:
			return 1
		}
		return closestFirst(a.Reading, b.Reading)
	})
	for _, r := range all[m.MaxKeys:] {
		delete(m.rows, r.Key)
	}
}

// keep reports whether a key stays followed whatever it is like.
func (m *model) keep(r *row) bool {
	return m.marked[r.Key] || m.moved && r.Key == m.selected || m.screen == detailScreen && r.Key == m.detailOf || m.filter.text != "" && m.filter.matches(r)
}

// absorb takes in what a look at the keys brought.
func (m *model) absorb(s fetched) {
	m.fetching = false
	if len(s.Servers) > 0 && (s.err == nil || len(s.Servers) > 1) { // else what is known of it stays
		m.servers = s.Servers
		m.roundTrip.add(s.Time, float32(roundTripOf(s.Servers).Seconds()*1000))
	}
	for i := range s.Keys {
		key := s.Keys[i].Key
		r := m.rows[key]
		if r == nil {
			if m.Play == nil {
				continue // it was let go meanwhile
			}
			r = newRow(s.Keys[i], s.Time)
			m.rows[key] = r
		}
		r.update(s.Keys[i], s.Time)
	}
	if m.Play != nil {
		m.coverage = s.Coverage
		m.evict()
	}
	if m.problem = s.err; s.err != nil {
		return
	}
	m.answered = s.Time
	if m.Play != nil {
		m.Where = s.Store
	}
	if m.detail = s.detail; s.detail != nil && s.detail.of != m.detailOf {
		m.detail = nil
	}
	m.forget(&s)
	m.arrange()
}

// stays is how long a key that is unused is still shown.
const stays = time.Minute

// forget makes keys that were not found unused, and in time lets them go.
func (m *model) forget(s *fetched) {
	if m.Play != nil {
		there := make(map[limiter.Key]bool, len(s.Keys))
		for i := range s.Keys {
			there[s.Keys[i].Key] = true
		}
		for key := range m.rows {
			s.asked = append(s.asked, key)
		}
	}
	for _, key := range s.asked {
		r := m.rows[key]
		if r == nil || r.updated.Equal(s.Time) {
			continue
		}
		r.empty(s.Time)
		if s.Time.Sub(r.usedAt) > stays && !m.keep(r) && m.Query.Keys == nil {
			delete(m.rows, key)
		}
	}
}

// isAway reports whether the last answer of the store is not of the last look.
func (m *model) isAway() bool { return m.problem != nil }

// arrange makes the list that is shown of the rows. Rows that are equal in the order
// keep their places.
func (m *model) arrange() {
	m.shown = m.shown[:0]
	for _, r := range m.rows {
		if m.shows(r) {
			m.shown = append(m.shown, r)
		}
	}
	compare := m.order.compare
	slices.SortFunc(m.shown, func(a, b *row) int {
		if c := compare(a, b); c != 0 {
			if m.reversed {
				return -c
			}
			return c
		}
		return compareKeys(a.Key, b.Key)
	})
	m.arrangeGroups()
	m.follow()
}

// selects reports whether the state of a row is one that was selected.
func (m *model) selects(r *row) bool { return m.Keep == nil || r.found() && m.Keep(&r.Entry) }

// shows reports whether a row is among those that were asked for.
func (m *model) shows(r *row) bool {
	if !m.selects(r) {
		return false
	}
	if r.updated.IsZero() && m.Query.Keys != nil { // named, and not found yet
		return false
	}
	return (m.within == nil || m.within.by.of(r) == m.within.name) && m.filter.matches(r)
}

// follow keeps the cursor with its key, and in sight.
func (m *model) follow() {
	if m.moved {
		if i := slices.IndexFunc(m.shown, func(r *row) bool { return r.Key == m.selected }); i >= 0 {
			m.cursor = i
		}
	}
	m.moveTo(m.cursor, m.moved)
}

// moveTo puts the cursor on a row. moved says whether it stays with that row's key.
func (m *model) moveTo(i int, moved bool) {
	m.cursor = max(0, min(i, len(m.shown)-1))
	m.moved = moved
	if m.cursor < len(m.shown) {
		m.selected = m.shown[m.cursor].Key
	}
	m.top = scrolled(m.top, m.cursor, len(m.shown), m.listHeight())
}

// scrolled returns the first row of a list that is in sight, with the cursor being
// so, and moved no more than it must.
func scrolled(top, cursor, rows, height int) int {
	height = max(1, height)
	top = max(min(top, cursor), cursor-height+1)
	return max(0, min(top, rows-height))
}

// current returns the row under the cursor, or nil.
func (m *model) current() *row {
	if m.screen == detailScreen {
		return m.rows[m.detailOf]
	}
	if m.cursor < len(m.shown) {
		return m.shown[m.cursor]
	}
	return nil
}

// chosen returns the keys that an action is about: the marked ones, else that under
// the cursor.
func (m *model) chosen() []limiter.Key {
	if len(m.marked) > 0 && m.screen != detailScreen {
		keys := make([]limiter.Key, 0, len(m.marked))
		for key := range m.marked {
			keys = append(keys, key)
		}
		slices.SortFunc(keys, compareKeys)
		return keys
	}
	if r := m.current(); r != nil {
		return []limiter.Key{r.Key}
	}
	return nil
}

// atLimit returns how many keys are at their limit, and whether that is all there are.
func (m *model) atLimit() (n int64, exact bool) {
	for _, r := range m.rows {
		if r.inUse && r.atLimit() && m.selects(r) {
			n++
		}
	}
	if m.coverage.Full && m.coverage.AtLimit > n {
		return m.coverage.AtLimit, false
	}
	return n, n == 0 || !m.coverage.Full
}

func roundTripOf(servers []Server) (longest time.Duration) {
	for i := range servers {
		longest = max(longest, servers[i].RoundTrip)
	}
	return longest
}
