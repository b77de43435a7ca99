package dash

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// driver is a terminal and a clock for a dashboard of a store in memory. Nothing in it
// takes time unless the test says so.
type driver struct {
	*model
	t       *testing.T
	store   *memorystore.Store
	now     time.Time
	actions *fakeActions
	left    bool
	// awake: what waits goes on. Else it is pending, and asleep says that the last command is.
	awake, asleep bool
	pending       []tea.Cmd
}

// fakeActions delete and bring back, and fail if they are to.
type fakeActions struct {
	store *memorystore.Store
	reset store.Key
	inUse int64
	err   error
	// partly is what a reset did before it failed.
	partly live.Changed
	// nothing is found in use
	nothing bool
}

func (a *fakeActions) Reset(ctx context.Context, key store.Key) (live.Changed, error) {
	a.reset = key
	if a.err != nil {
		return a.partly, a.err
	}
	if a.nothing {
		return live.Changed{}, nil
	}
	n, _, err := a.store.Delete(ctx, admin.Record{Key: key})
	return live.Changed{Keys: int64(n), Backup: "/backups/1.jsonl"}, err
}

func (a *fakeActions) Undo(_ context.Context, reset live.Changed) (live.Changed, error) {
	return live.Changed{Keys: reset.Keys - a.inUse, InUse: a.inUse}, a.err
}

func (a *fakeActions) ParseOverride(form live.OverrideForm) (o store.Override, lasts time.Duration, err error) {
	o.Effect, o.Reason = form.Effect, form.Reason
	if lasts, err = store.ParsePeriod(form.For); err != nil {
		return o, lasts, err
	}
	switch form.Effect {
	case store.OverrideTimes:
		n, err := strconv.Atoi(form.Value)
		o.Thousandths = int64(n) * 1000
		return o, lasts, err
	case store.OverrideLimit:
		o.Limit, err = store.ParseLimit(form.Value)
	default:
	}
	return o, lasts, err
}

func (a *fakeActions) ParseSubjects(pattern string) (store.Pattern, error) {
	return store.ParsePattern(pattern)
}

func (a *fakeActions) SetOverride(ctx context.Context, o store.Override, lasts time.Duration) (store.Override, error) {
	if a.err != nil {
		return o, a.err
	}
	o.By = "ann"
	return a.store.SetOverride(ctx, o, lasts)
}

func (a *fakeActions) RevokeOverride(ctx context.Context, id string) error {
	_, _, err := a.store.RevokeOverride(ctx, id)
	return err
}

// begin starts a dashboard of what is in the store after fill, without colours. With nil it is empty.
func begin(t *testing.T, fill func(*driver), change func(*live.Options)) *driver {
	t.Helper()
	return beginIn(t, ui.NoColors(), fill, change)
}

func beginIn(t *testing.T, theme *ui.Theme, fill func(*driver), change func(*live.Options)) *driver {
	t.Helper()
	d := &driver{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	d.store = memorystore.New(memorystore.WithClock(func() time.Time { return d.now }))
	d.actions = &fakeActions{store: d.store}
	all, err := store.ParsePattern("*")
	must(t, err)
	o := live.Options{
		Store: d.store, Denials: &d.store.Tables, Overrides: &d.store.Tables, Query: admin.Query{Subjects: all},
		Actions: d.actions, Where: "redis://10.0.0.1:6379", Selection: `"*"`,
		Refresh: time.Second, MaxKeys: 5000, Now: func() time.Time { return d.now },
		Sleep: func(context.Context, time.Duration) error {
			if d.awake {
				return nil
			}
			d.asleep = true
			return context.Canceled
		},
		Servers: func(context.Context) []live.Server {
			return []live.Server{{Version: "Redis 7.0.15", Role: "master", UsedMemory: 1_920_000,
				RoundTrip: 400 * time.Microsecond}}
		},
	}
	if change != nil {
		change(&o)
	}
	if fill != nil {
		fill(d)
	}
	d.model = newModel(t.Context(), o, theme)
	d.run(d.Init())
	return d
}

// run does what commands do, at once.
func (d *driver) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	d.asleep = false
	msg := cmd()
	if d.asleep {
		d.pending = append(d.pending, cmd)
		return
	}
	switch msg := msg.(type) {
	case nil:
	case tea.BatchMsg:
		for _, cmd := range msg {
			d.run(cmd)
		}
	case tea.QuitMsg:
		d.left = true
	default:
		d.send(msg)
	}
}

func (d *driver) send(msg tea.Msg) {
	_, cmd := d.Update(msg)
	d.run(cmd)
}

// second lets one pass, after which all that waits goes on.
func (d *driver) second() {
	d.now = d.now.Add(time.Second)
	due := d.pending
	d.pending = nil
	for _, cmd := range due {
		d.awake = true
		msg := cmd()
		d.awake = false
		d.send(msg)
	}
}

func (d *driver) take(key store.Key, limit string, cost int64) {
	d.t.Helper()
	l, err := store.ParseLimit(limit)
	must(d.t, err)
	_, err = storecall.New(d.store).Take(d.t.Context(), key, l, cost)
	must(d.t, err)
}

// deny adds denials to the store's table, a moment from now: a minute of the table does not
// have what was denied in the microsecond in which it begins.
func (d *driver) deny(denials admin.Denials) {
	d.t.Helper()
	d.now = d.now.Add(time.Millisecond)
	denials.Now = store.InstantOf(d.now)
	for i := range denials.Rows {
		denials.Rows[i].LastAt = denials.Now
	}
	must(d.t, d.store.AddDenials(d.t.Context(), denials))
}

// press types keys, by their names where they have one: "<enter>".
func (d *driver) press(keys string) {
	d.t.Helper()
	names := map[string]tea.KeyType{"enter": tea.KeyEnter, "esc": tea.KeyEsc, "up": tea.KeyUp, "down": tea.KeyDown,
		"end":  tea.KeyEnd,
		"home": tea.KeyHome, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "ctrl+c": tea.KeyCtrlC,
		"left": tea.KeyLeft, "bs": tea.KeyBackspace, "right": tea.KeyRight, "tab": tea.KeyTab}
	for keys != "" {
		if name, rest, found := strings.Cut(keys[1:], ">"); keys[0] == '<' && found && names[name] != 0 {
			d.send(tea.KeyMsg{Type: names[name]})
			keys = rest
			continue
		}
		typed := []rune(keys)[0]
		keys = keys[len(string(typed)):]
		msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{typed}}
		if typed == ' ' {
			msg.Type = tea.KeySpace
		}
		d.send(msg)
	}
}

// subjects are those that are shown, the one under the cursor in brackets.
func (d *driver) subjects() string {
	var all []string
	for _, r := range d.feed.Listed {
		name := r.Key.Subject
		if r == d.list.Current() {
			name = "[" + name + "]"
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

// box is what is asked, empty if nothing is.
func (d *driver) box() string { return ui.Join(d.change.View(d.width, d.height)) }

// three are a key at its limit, one near it and one far from it, and one of a policy.
func three(d *driver) {
	d.take(store.Key{Subject: "full"}, "10/1m", 10)
	d.take(store.Key{Subject: "near"}, "10/1m", 9)
	d.take(store.Key{Subject: "calm"}, "fixed-window:100/1h", 5)
	d.take(store.Key{Subject: "tenant:acme:user:7", Name: "api/user"}, "100/1m", 50)
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
