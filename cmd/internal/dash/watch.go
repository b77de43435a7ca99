package dash

import (
	"context"
	"errors"
	"io"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/dash/guard"
	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Look is what a dashboard knows at an instant, for those that show it elsewhere than on its screen.
type Look struct {
	At, Answered time.Time // now, and when the store answered last
	Where        string
	Problem      error // why the store did not answer; nil if it did
	Coverage     source.Coverage
	Followed     []store.Key
	AtLimit      int64 // keys at their limit; at least so many unless AtLimitExact
	AtLimitExact bool
	// Rows are those that matter most, in the order of the screen, at most mostLookRows.
	Rows []LookRow
	// DenialsKnown says whether the store told who is denied. The rates are denials a second, by limits and by
	// blocks, and lower bounds if AtLeast.
	DenialsKnown, AtLeast bool
	Denied, Blocked       float64
	// Overrides are those in force; nil if there are none.
	Overrides *store.OverrideList
	// OverridesProblem is why the overrides could not be read.
	OverridesProblem error
}

// LookRow is a followed key.
type LookRow struct {
	source.Reading
	LimitName     string
	AtLimit       bool
	Denied, Share float64 // denials a second, and the share denied of what was asked for
	IsBlocked     bool    // by a block that is in force
	Stale         bool    // its node did not answer the last look
	// Override is the one that applies to the key; nil if there is none.
	Override *store.Override
}

// mostLookRows is how many rows a look has at most.
const mostLookRows = 200

// Watch follows the keys as Run does, without a screen, and gives a look to publish once a second and after each answer.
// While wanted returns false, nothing is read. It ends with ctx, or with the error of a bug.
func Watch(ctx context.Context, o Options, wanted func() bool, publish func(*Look)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a scan that is going on
	o.Actions = nil
	m := newModel(ctx, o)
	watch := guard.Model{Model: watching{m, wanted, publish}, Failed: &m.failed}
	program := tea.NewProgram(watch, tea.WithContext(ctx), tea.WithInput(nil), tea.WithOutput(io.Discard), tea.WithoutRenderer(),
		tea.WithoutSignalHandler())
	_, err := program.Run()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case m.failed != nil:
		return m.failed
	case err == nil:
		return errors.New("the dashboard has ended by itself")
	}
	return err
}

// watching is a model that nobody sees.
type watching struct {
	*model
	wanted  func() bool
	publish func(*Look)
}

// Update implements tea.Model.
func (w watching) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	_, cmd := w.model.Update(msg)
	switch msg.(type) {
	case clockTick:
		rested := w.paused
		if w.paused = !w.wanted(); rested && !w.paused {
			cmd = tea.Batch(cmd, w.look())
		}
	case source.Fetched:
	default:
		return w, cmd
	}
	if !w.paused {
		w.publish(w.model.asLook())
	}
	return w, cmd
}

// View implements tea.Model.
func (watching) View() string { return "" }

// asLook copies what is known, since the model goes on.
func (m *model) asLook() *Look {
	f := &m.feed
	l := &Look{At: m.now, Answered: f.answered, Where: m.Where, Problem: f.problem, Coverage: f.coverage,
		DenialsKnown: f.denials.Known && f.denials.Problem == nil, AtLeast: f.denials.Lost || f.denials.Others > 0,
		Overrides: f.overrides.list, OverridesProblem: f.overrides.problem}
	if l.Problem == nil {
		l.Problem = f.scanError
	}
	l.AtLimit, l.AtLimitExact = m.atLimit()
	l.Blocked, _ = f.denials.ByBlocks()
	l.Denied = max(0, f.denials.Total-l.Blocked)
	for id := range f.rows {
		l.Followed = append(l.Followed, id.Key)
	}
	rules := m.rules()
	for _, r := range m.keys.rows[:min(len(m.keys.rows), mostLookRows)] {
		l.Rows = append(l.Rows, LookRow{Reading: r.Reading, LimitName: r.LimitName(), AtLimit: r.IsAtLimit(),
			Denied: r.DeniedRate(), Share: r.DeniedShare(), IsBlocked: r.IsBlocked(), Stale: r.Stale, Override: rules.Override(r.Key)})
	}
	return l
}

// ReadKeys reads keys at once, as the limits and the overrides in force leave them. Keys that are unused are left out, and
// so are values that limitctl did not write.
func ReadKeys(ctx context.Context, o *Options, overrides *store.OverrideList, keys []store.Key) ([]source.Reading, error) {
	return source.Rules{Options: o, List: overrides}.Read(ctx, keys)
}
