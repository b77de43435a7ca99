package dash

import (
	"context"
	"io"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// model is the state of a dashboard. Only Update changes it, and only View draws it.
// What belongs to one screen is in that screen: keyList, detailView, helpView.
type model struct {
	Options
	ctx    context.Context
	reader *reader
	// clipboard is the terminal, which is asked to copy; nil where nobody can paste.
	clipboard io.Writer

	width, height int
	now           time.Time
	ticks         int   // the number of the current refresh interval; see refreshDue
	paused        bool  // nothing is read until it goes on
	still         bool  // one frame is written, and nobody presses keys
	interrupted   bool  // by Ctrl-C
	failed        error // what ended the dashboard
	note          note

	feed    feed // what the store said
	filter  filterLine
	changes changes

	screen screen
	back   []screen // where esc goes to
	keys   keyList
	detail detailView
	help   helpView
	// inForce lists the overrides.
	inForce inForceView
}

// screen is one of the views between the head and the foot.
type screen interface {
	// lines returns what is drawn.
	lines(m *model) []line
	// move moves the cursor or the text by that many lines, down if it is positive.
	move(m *model, by int)
	// enter opens what the cursor is on.
	enter(m *model) tea.Cmd
	// click is a click on column x of a line; line 0 is the first of the screen.
	click(m *model, x, line int) tea.Cmd
	// hints names the keys that are needed most here.
	hints(m *model) string
}

// note is a text that is shown for a while.
type note struct {
	text  string
	bad   bool
	until time.Time
}

// noteStays is how long a note is shown.
const noteStays = 8 * time.Second

func newModel(ctx context.Context, o Options) *model {
	m := &model{
		Options: o, ctx: ctx, width: 80, height: 24, now: o.Now(),
		feed: feed{stopScan: func() {}, rows: map[ID]*row{}, answered: o.Now(),
			denials: rates{Keys: map[store.Key]*rate{}}},
		filter: filterLine{input: newInput()},
		keys:   keyList{marked: map[ID]bool{}}, inForce: newInForceView(),
	}
	m.screen = &m.keys
	m.reader = newReader(&m.Options)
	if m.Overrides != nil {
		m.feed.overrides.reader = &overrideReader{Options: &m.Options}
	}
	if m.Denials != nil {
		m.feed.denials.Reader = &denialReader{Options: &m.Options, Table: m.Denials}
	}
	for _, key := range o.Query.Keys {
		m.feed.rows[ownID(key)] = new(reading{Entry: admin.Entry{Key: key}}, m.now)
	}
	return m
}

// Messages of time.
type (
	// refreshDue: the followed keys are to be read again. A tick of an interval that was
	// changed meanwhile does not count.
	refreshDue struct{ tick int }
	// clockTick moves the clock on, also while the store does not answer.
	clockTick struct{}
	// passDue: all keys are to be scanned again, that long after the scan of that number.
	passDue struct{ pass int }
)

// Init implements tea.Model.
func (m *model) Init() tea.Cmd {
	begin := m.lookOverrides()
	if begin == nil { // there are none, and the scan need not wait for them
		begin = m.scan()
	}
	return tea.Batch(m.look(), begin, m.lookDenials(), m.clock())
}

// clock moves the time of day on.
func (m *model) clock() tea.Cmd { return m.after(time.Second, clockTick{}) }

// after brings a message when some time has passed.
func (m *model) after(d time.Duration, msg tea.Msg) tea.Cmd {
	return func() tea.Msg {
		if m.Sleep(m.ctx, d) != nil {
			return nil
		}
		return msg
	}
}

func (m *model) say(text string) { m.note = note{text: text, until: m.now.Add(noteStays)} }

func (m *model) complain(err error) {
	m.note = note{text: oneLine(err), bad: true, until: m.now.Add(noteStays)}
}

// mayChange reports whether keys may be changed from here.
func (m *model) mayChange() bool { return m.Actions != nil }

// show goes to a screen, from which esc leads back.
func (m *model) show(s screen) {
	m.back = append(m.back, m.screen)
	m.switchTo(s)
}

// switchTo goes to a screen. Texts begin at their first line.
func (m *model) switchTo(s screen) {
	m.screen = s
	m.detail.scroll, m.help.scroll = 0, 0
}

// goBack undoes the last thing that changed the view: the filter, the screen or the
// marks.
func (m *model) goBack() tea.Cmd {
	switch {
	case m.screen == &m.keys && m.filter.Text != "":
		m.filter.filter = filter{}
	case len(m.back) > 0:
		last := len(m.back) - 1
		m.switchTo(m.back[last])
		m.back = m.back[:last]
	case len(m.keys.marked) > 0:
		clear(m.keys.marked)
	}
	m.arrange()
	return nil
}

// arrange brings the lists up to date with the rows.
func (m *model) arrange() {
	m.keys.arrange(m)
	m.findLeast()
	m.keys.follow(m)
}

// selects reports whether the state of a row is one that was selected.
func (m *model) selects(r *row) bool { return m.Keep == nil || r.Found() && m.Keep(&r.Entry) }

// current returns the row that an action is about, or nil.
func (m *model) current() *row {
	if m.screen == &m.detail {
		return m.feed.rows[m.detail.key]
	}
	return m.keys.current()
}

// chosen returns the keys that an action is about: the marked ones that are listed, or else
// the current one. What is not seen is not changed. If only keys that are not listed are
// marked, there are none: the one under the cursor is not what was meant.
func (m *model) chosen() []ID {
	if len(m.keys.marked) > 0 && m.listsKeys() {
		var keys []ID
		for _, r := range m.keys.rows {
			if m.keys.marked[r.ID()] {
				keys = append(keys, r.ID())
			}
		}
		slices.SortFunc(keys, compareIDs)
		return keys
	}
	if r := m.current(); r != nil {
		return []ID{r.ID()}
	}
	return nil
}

// hiddenMarks returns how many keys are marked that an action is not about, since they are
// not listed.
func (m *model) hiddenMarks() int {
	if !m.listsKeys() {
		return 0
	}
	hidden := len(m.keys.marked)
	for _, r := range m.keys.rows {
		if m.keys.marked[r.ID()] {
			hidden--
		}
	}
	return hidden
}

// isOthers reports whether the keys are those of other limiters.
func (m *model) isOthers() bool { return m.Layouts != "" }

// onlyTheLimiterDecides is why nothing but a reset can be done to keys of other limiters.
const onlyTheLimiterDecides = "another limiter decides by these keys; from here they can only be reset"

// beyond are what a reset of these rows does not reach, each once.
func (m *model) beyond(ids []ID) (texts []string) {
	if m.Beyond == nil {
		return nil
	}
	for _, id := range ids {
		if r := m.feed.rows[id]; r != nil && r.Layout != "" {
			if text := m.Beyond(r.Layout); text != "" && !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// overrides are the overrides that are in force.
type overrides struct {
	reader   *overrideReader // nil if the store keeps none
	fetching bool
	looked   bool                // the first look is over
	list     *store.OverrideList // nil if there are none, or they are not known
	problem  error
}

// overridesDue: the overrides are to be looked at again.
type overridesDue struct{}

// overridesEvery is the least time between two looks. A service looks as often.
const overridesEvery = time.Second

// take takes in what a look brought, and reports whether the overrides are others than before.
func (o *overrides) take(look overridesLook) (changed bool) {
	o.fetching, o.looked, o.problem = false, true, look.Err
	if look.Err != nil {
		return false
	}
	changed = o.list != look.List
	o.list = look.List
	return changed
}
