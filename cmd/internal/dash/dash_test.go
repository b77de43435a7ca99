package dash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
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
}

// fakeActions delete and bring back, and fail if they are to.
type fakeActions struct {
	store *memorystore.Store
	reset []limiter.Key
	inUse int64
	err   error
	// nothing is found in use
	nothing bool
}

func (a *fakeActions) Reset(ctx context.Context, keys []limiter.Key) (Changed, error) {
	a.reset = keys
	if a.err != nil {
		return Changed{}, a.err
	}
	if a.nothing {
		return Changed{}, nil
	}
	n, _, err := a.store.Delete(ctx, limiter.Records(keys...)...)
	return Changed{Keys: int64(n), Backup: "/backups/1.jsonl"}, err
}

func (a *fakeActions) Undo(ctx context.Context, reset Changed, replace bool) (Changed, error) {
	if a.inUse > 0 && !replace {
		return Changed{InUse: a.inUse}, nil
	}
	return Changed{Keys: reset.Keys + a.inUse}, a.err
}

// begin starts a dashboard of what is in the store after fill. With nil it is empty.
func begin(t *testing.T, fill func(*driver), change func(*Options)) *driver {
	t.Helper()
	d := &driver{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	d.store = memorystore.New(memorystore.WithClock(func() time.Time { return d.now }))
	d.actions = &fakeActions{store: d.store}
	all, err := limiter.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Store: d.store, Query: limiter.Query{Subjects: all}, Actions: d.actions, Where: "redis://10.0.0.1:6379", Selection: `"*"`,
		Refresh: time.Second, MaxKeys: 5000, Now: func() time.Time { return d.now },
		Sleep:        func(context.Context, time.Duration) error { return context.Canceled }, // the test brings what is due
		LookYourself: func(storeKey string) string { return "redis-cli GETRANGE '" + storeKey + "' 0 63" },
		Servers: func(context.Context) []Server {
			return []Server{{Version: "Redis 7.0.15", Role: "master", OpsPerSecond: 12_345, UsedMemory: 1_920_000,
				RoundTrip: 400 * time.Microsecond}}
		},
	}
	if change != nil {
		change(&o)
	}
	if fill != nil {
		fill(d)
	}
	d.model = newModel(t.Context(), o)
	d.run(d.Init())
	return d
}

// run does what commands do, at once.
func (d *driver) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
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

// second lets one pass, with a look and a scan.
func (d *driver) second() {
	d.now = d.now.Add(time.Second)
	d.send(clockTick{})
	d.send(refreshDue{d.ticks})
	d.send(passDue{})
}

func (d *driver) take(key limiter.Key, limit string, cost int64) {
	d.t.Helper()
	l, err := limiter.ParseLimit(limit)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := limiter.New(d.store).Take(d.t.Context(), key, l, cost); err != nil {
		d.t.Fatal(err)
	}
}

// press types keys, by their names where they have one: "<enter>".
func (d *driver) press(keys string) {
	d.t.Helper()
	names := map[string]tea.KeyType{"enter": tea.KeyEnter, "esc": tea.KeyEsc, "up": tea.KeyUp, "down": tea.KeyDown, "end": tea.KeyEnd,
		"home": tea.KeyHome, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "ctrl+c": tea.KeyCtrlC}
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

// subjects are those that are shown, the one under the cursor in brackets and marked
// ones with a star.
func (d *driver) subjects() string {
	var all []string
	for i, r := range d.keys.rows {
		name := r.Key.Subject
		if d.keys.marked[r.Key] {
			name += "*"
		}
		if i == d.keys.cursor {
			name = "[" + name + "]"
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

// three are a key at its limit, one near it and one far from it, and one of a policy.
func three(d *driver) {
	d.take(limiter.Key{Subject: "full"}, "10/1m", 10)
	d.take(limiter.Key{Subject: "near"}, "10/1m", 9)
	d.take(limiter.Key{Subject: "calm"}, "fixed-window:100/1h", 5)
	d.take(limiter.Key{Subject: "tenant:acme:user:7", Name: "api/user"}, "100/1m", 50)
}

func TestKeysDo(t *testing.T) {
	for _, test := range []struct{ keys, want string }{
		{"", "[full] near tenant:acme:user:7 calm"},
		{"j", "full [near] tenant:acme:user:7 calm"},
		{"jjk", "full [near] tenant:acme:user:7 calm"},
		{"k", "[full] near tenant:acme:user:7 calm"},
		{"jjjjjj", "full near tenant:acme:user:7 [calm]"},
		{"<end>", "full near tenant:acme:user:7 [calm]"},
		{"G<home>", "[full] near tenant:acme:user:7 calm"},
		{"<pgdown>", "full near tenant:acme:user:7 [calm]"},
		{"<pgdown><pgup>", "[full] near tenant:acme:user:7 calm"},
		{"<down><down><up>", "full [near] tenant:acme:user:7 calm"},
		{"S", "[calm] tenant:acme:user:7 near full"},
		{"jS", "calm tenant:acme:user:7 [near] full"}, // the cursor stays with its key
		{"sssss", "[calm] full near tenant:acme:user:7"},
		{"ss", "[tenant:acme:user:7] full near calm"},
		{"/a<enter>", "[near] tenant:acme:user:7 calm"},
		{"/a", "[near] tenant:acme:user:7 calm"},
		{"/a<esc>", "[full] near tenant:acme:user:7 calm"},
		{"/a<enter><esc>", "[full] near tenant:acme:user:7 calm"},
		{"/!a<enter>", "[full]"},
		{"/>80%<enter>", "[full] near"},
		{"/>80% !full<enter>", "[near]"},
		{"/<20%<enter>", "[calm]"},
		{"/tenant:*:user:7<enter>", "[tenant:acme:user:7]"},
		{"/api/*<enter>", "[tenant:acme:user:7]"},
		{"/nobody<enter>", ""},
		{"/full<down><enter>", "[full]"},
		{"mm", "full* near* [tenant:acme:user:7] calm"},
		{"mkm", "full [near] tenant:acme:user:7 calm"},
		{"m<esc>", "full [near] tenant:acme:user:7 calm"},
		{"g<enter>", "[full] near"},
		{"g<enter><esc><esc>", "[full] near tenant:acme:user:7 calm"},
		{"gg<down><enter>", "[tenant:acme:user:7]"},
		{"gggg", "[full] near tenant:acme:user:7 calm"},
	} {
		d := begin(t, three, nil)
		d.press(test.keys)
		if got := d.subjects(); got != test.want {
			t.Errorf("after %q it shows %q, want %q", test.keys, got, test.want)
		}
	}
}

func TestKeysGoToScreensAndBack(t *testing.T) {
	for _, test := range []struct {
		keys string
		want string
	}{
		{"?", "help"}, {"??", "keys"}, {"?<esc>", "keys"}, {"<enter>", "detail"}, {"<enter><esc>", "keys"},
		{"g", "groups"}, {"g<esc>", "keys"}, {"g<enter>", "keys"}, {"g<enter><enter>", "detail"},
		{"g<enter><enter><esc><esc>", "groups"}, {"<enter>?<esc>", "detail"}, {"<enter>?<esc><esc>", "keys"}, {"?jjj<esc>", "keys"},
	} {
		d := begin(t, three, nil)
		d.press(test.keys)
		names := map[screen]string{&d.keys: "keys", &d.groups: "groups", &d.detail: "detail", &d.help: "help"}
		if got := names[d.screen]; got != test.want {
			t.Errorf("after %q it is on screen %q, want %q", test.keys, got, test.want)
		}
	}
}

func TestLeaving(t *testing.T) {
	for keys, interrupted := range map[string]bool{"q": false, "<ctrl+c>": true, "<enter>q": false, "/<ctrl+c>": true, "r<ctrl+c>": true} {
		d := begin(t, three, nil)
		d.press(keys)
		if !d.left || d.interrupted != interrupted {
			t.Errorf("after %q: left %t, interrupted %t", keys, d.left, d.interrupted)
		}
	}
	d := begin(t, three, nil)
	if d.press("/q"); d.left {
		t.Error("a q in a filter leaves")
	}
}

func TestAPauseHoldsWhatIsShown(t *testing.T) {
	d := begin(t, three, nil)
	d.press(" ")
	d.take(limiter.Key{Subject: "calm"}, "fixed-window:100/1h", 95)
	d.second()
	if d.subjects() != "[full] near tenant:acme:user:7 calm" {
		t.Errorf("paused, it shows %s", d.subjects())
	}
	d.press(" ")
	if d.subjects() != "[calm] full near tenant:acme:user:7" {
		t.Errorf("going on, it shows %s", d.subjects())
	}
}

func TestTheRefreshGoesByTheKeys(t *testing.T) {
	for keys, want := range map[string]time.Duration{"+": 500 * time.Millisecond, "++++": 100 * time.Millisecond, "-": 2 * time.Second,
		"-+": time.Second, "---------": time.Minute, "=": 500 * time.Millisecond} {
		d := begin(t, three, nil)
		d.press(keys)
		if d.Refresh != want {
			t.Errorf("after %q it is %s, want %s", keys, d.Refresh, want)
		}
	}
}

func TestReset(t *testing.T) {
	for _, test := range []struct {
		keys, want string // what was reset
	}{
		{"ry", "full"}, {"r", ""}, {"rn", ""}, {"r<enter>", ""}, {"r<esc>", ""}, {"jry", "near"}, {"mmry",
			"full near"}, {"<enter>ry", "full"}, {"g", ""}, {"gr", ""},
		{"/nobody<enter>ry", ""},
	} {
		d := begin(t, three, nil)
		d.press(test.keys)
		var got []string
		for _, key := range d.actions.reset {
			got = append(got, key.Subject)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q resets %q, want %q", test.keys, got, test.want)
		}
	}
}

func TestAProtectedContextWantsItsNameTyped(t *testing.T) {
	for keys, want := range map[string]bool{"ry<enter>": false, "rprod<enter>": true, "rprod": false, "rpro<enter>": false,
		"rprod<esc>": false} {
		d := begin(t, three, func(o *Options) { o.Context, o.Protected = "prod", true })
		d.press(keys)
		if got := d.actions.reset != nil; got != want {
			t.Errorf("%q resets: %t, want %t", keys, got, want)
		}
	}
	d := begin(t, three, func(o *Options) { o.Context, o.Protected = "prod", true })
	d.press("<end>c")
	if d.changes.question == nil {
		t.Error("it consumes without asking")
	}
}

func TestAReadOnlyContextHasNoActions(t *testing.T) {
	d := begin(t, three, func(o *Options) { o.Actions = nil })
	d.press("mrcu")
	if d.changes.question != nil || len(d.keys.marked) > 0 || d.changes.acting {
		t.Error("something was done")
	}
	d.press("?")
	if strings.Contains(d.View(), "reset the marked") {
		t.Error("the help offers a reset")
	}
}

// What is reset is seen to be empty, and what was brought back to be there again.
func TestResetIsSeenAndUndone(t *testing.T) {
	d := begin(t, three, nil)
	d.press("jry")
	if r := d.current(); r == nil || r.Key.Subject != "near" || r.inUse || !strings.Contains(d.View(), "deleted 1 key") {
		t.Errorf("after the reset:\n%s", d.View())
	}
	if want := "full [near] tenant:acme:user:7 calm"; d.subjects() != want {
		t.Errorf("after the reset it shows %s, want %s", d.subjects(), want)
	}
	d.press("u")
	if d.changes.question == nil || !strings.Contains(d.View(), "Bring back 1 key?") {
		t.Errorf("asked to undo:\n%s", d.View())
	}
	d.press("y")
	if !strings.Contains(d.View(), "brought back 1 key") || d.changes.lastReset != nil {
		t.Errorf("undone:\n%s", d.View())
	}
	d.press("u")
	if !strings.Contains(d.View(), "nothing was reset from here yet") {
		t.Errorf("undone twice:\n%s", d.View())
	}
}

// A key that was used since is brought back only if that is said once more.
func TestUndoOfWhatWasUsedSince(t *testing.T) {
	d := begin(t, three, nil)
	d.actions.inUse = 1
	d.press("ryuy")
	if !strings.Contains(d.View(), "1 used since and left") {
		t.Errorf("undone:\n%s", d.View())
	}
	d.press("u")
	if !strings.Contains(d.View(), "What was used since the reset is lost.") {
		t.Errorf("asked again:\n%s", d.View())
	}
	d.press("y")
	if d.changes.lastReset != nil {
		t.Errorf("undone again:\n%s", d.View())
	}
}

func TestAnActionThatFails(t *testing.T) {
	d := begin(t, three, nil)
	d.actions.err = errors.New("the disk\nis full")
	d.press("mry")
	if !strings.Contains(d.View(), "the disk; is full") || len(d.keys.marked) != 1 {
		t.Errorf("after a failure:\n%s", d.View())
	}
}

// A bug in what goes on beside the loop does not end the program in the middle of a
// screen.
func TestPanicsBesideTheLoop(t *testing.T) {
	d := begin(t, three, nil)
	d.actions.store = nil
	d.press("ry")
	if text := d.View(); !strings.Contains(text, "internal error: ") || d.changes.acting {
		t.Errorf("after a panic of an action:\n%s", text)
	}
	d = begin(t, three, func(o *Options) { o.Keep = func(*limiter.Entry) bool { panic("oops") } })
	if text := d.View(); !strings.Contains(text, "internal error: oops") {
		t.Errorf("after a panic of a scan:\n%s", text)
	}
}

func TestConsume(t *testing.T) {
	d := begin(t, three, nil)
	d.press("c")
	if !strings.Contains(d.View(), "denied: full token-bucket/1m has nothing left, retry in 6s") {
		t.Errorf("of a full one:\n%s", d.View())
	}
	d.press("jc")
	if !strings.Contains(d.View(), "allowed: took 1 of near token-bucket/1m, 0 remaining") || !d.current().atLimit() {
		t.Errorf("of one with room:\n%s", d.View())
	}
}

// awayStore is one that does not answer while it is away.
type awayStore struct {
	Store
	away bool
}

func (s *awayStore) Scan(ctx context.Context, q limiter.Query) iter.Seq2[limiter.Entry, error] {
	if s.away {
		return func(yield func(limiter.Entry, error) bool) {
			yield(limiter.Entry{}, fmt.Errorf("%w: 10.0.0.1 is silent", limiter.ErrUnavailable))
		}
	}
	return s.Store.Scan(ctx, q)
}

func TestALostStoreLeavesTheLastFrameAndComesBack(t *testing.T) {
	store := &awayStore{}
	d := begin(t, three, func(o *Options) {
		store.Store = o.Store
		o.Store, o.Color = store, true
	})
	store.away = true
	for range 7 {
		d.second()
	}
	if text := d.View(); !strings.Contains(text, "no answer for 7s, retrying") || !strings.Contains(text, "\x1b[2mfull") {
		t.Errorf("away:\n%s", text)
	}
	if r := d.feed.rows[limiter.Key{Subject: "full", Name: "token-bucket/1m"}]; !r.inUse {
		t.Error("a key is taken for unused")
	}
	store.away = false
	d.second()
	if text := d.View(); strings.Contains(text, "no answer") || strings.Contains(text, "\x1b[2mfull") {
		t.Errorf("back:\n%s", text)
	}
}

func TestUnitsASecond(t *testing.T) {
	key := limiter.Key{Subject: "a"}
	for _, limit := range []string{"1000/1h", "leaky-bucket:1000/1h", "fixed-window:1000/1m", "sliding-log:1000/1m",
		"sliding-counter:1000/1m", "sliding-log:30/1m"} {
		d := begin(t, func(d *driver) { d.take(key, limit, 1) }, nil)
		for range 10 {
			d.take(key, limit, 2)
			d.second()
		}
		if got := d.keys.rows[0].rate(); got < 1.9 || got > 2.1 {
			t.Errorf("%s: %.2f units a second, want 2", limit, got)
		}
	}
}

// Those at the limit stay in view, however many others there are.
func TestNoMoreThanMaxKeysAreFollowed(t *testing.T) {
	d := begin(t, func(d *driver) {
		for i := range 50 {
			d.take(limiter.Key{Subject: fmt.Sprintf("user:%02d", i)}, "100/1h", 1+int64(i))
		}
		d.take(limiter.Key{Subject: "full"}, "10/1h", 10)
	}, func(o *Options) { o.MaxKeys = 5 })
	if want := "[full] user:49 user:48 user:47 user:46"; d.subjects() != want {
		t.Errorf("it follows %s, want %s", d.subjects(), want)
	}
	if text := d.View(); !strings.Contains(text, "5 of about 51 followed") ||
		!strings.Contains(text, "about 51 keys, about 1 at the limit") {
		t.Errorf("it says:\n%s", text)
	}
	d.take(limiter.Key{Subject: "user:00"}, "100/1h", 99)
	d.second()
	if want := "[full] user:00 user:49 user:48 user:47"; d.subjects() != want {
		t.Errorf("then it follows %s, want %s", d.subjects(), want)
	}
}

func TestUnusedKeysAreForgotten(t *testing.T) {
	d := begin(t, func(d *driver) { d.take(limiter.Key{Subject: "a"}, "10/1s", 1) }, nil)
	d.second()
	if d.subjects() != "[a]" || d.keys.rows[0].inUse {
		t.Errorf("it shows %s", d.subjects())
	}
	for range 62 {
		d.second()
	}
	if d.subjects() != "" || len(d.feed.rows) > 0 {
		t.Errorf("it still shows %s", d.subjects())
	}
}

func TestTheMouse(t *testing.T) {
	d := begin(t, three, nil)
	click := func(x, y int) {
		d.send(tea.MouseMsg{X: x, Y: y, Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
	}
	head := len(d.headLines())
	if click(10, head+3); d.subjects() != "full near [tenant:acme:user:7] calm" {
		t.Errorf("after a click on a row: %s", d.subjects())
	}
	if click(10, head+3); d.screen != &d.detail {
		t.Error("a second click shows no detail")
	}
	d.press("<esc>")
	if click(3, head); d.keys.order != bySubject {
		t.Errorf("after a click on a header it is sorted by %s", d.keys.order)
	}
	if click(3, head); !d.keys.reversed {
		t.Error("a second click does not reverse the order")
	}
	d.send(tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonWheelDown})
	click(200, 200)
	click(0, 0)
}

// What was recorded is shown again as it was.
func TestRecordingIsPlayed(t *testing.T) {
	var recording bytes.Buffer
	d := begin(t, three, func(o *Options) { o.Record = &recording })
	d.second()
	d.take(limiter.Key{Subject: "calm"}, "fixed-window:100/1h", 95)
	d.second()
	want := d.View()
	var slept []time.Duration
	played := begin(t, nil, func(o *Options) {
		o.Play, o.Store, o.Where, o.Actions = &recording, nil, "incident.jsonl", nil
		o.Sleep = func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil }
		o.Now = func() time.Time { return time.Time{} }
	})
	if played.failed != nil {
		t.Fatal(played.failed)
	}
	played.note = note{}
	rows := func(frame string) string { return strings.Join(strings.Split(frame, "\n")[2:10], "\n") }
	if got := played.View(); rows(got) != rows(want) {
		t.Errorf("played:\n%s\nrecorded:\n%s", got, want)
	}
	if !slices.Contains(slept, time.Second) {
		t.Errorf("it waited %s, want a second between frames", slept)
	}
}

func TestARecordingThatIsNone(t *testing.T) {
	for text, want := range map[string]string{
		"hello\n": "line 1", "{\"time\":\"2026-03-01T12:00:00Z\",\"keys\":[{\"key\":\"a\",\"limit\":\"x\"}]}\n": "line 1", "": "",
	} {
		d := begin(t, nil, func(o *Options) { o.Play, o.Actions = strings.NewReader(text), nil })
		if got := fmt.Sprint(d.failed); want == "" && d.failed != nil || !strings.Contains(got, want) {
			t.Errorf("%q fails with %v, want %q", text, d.failed, want)
		}
	}
}

func TestOnce(t *testing.T) {
	d := begin(t, three, nil)
	var out bytes.Buffer
	o := d.Options
	slept := time.Duration(0)
	o.Sleep = func(_ context.Context, pause time.Duration) error {
		slept = pause
		d.now = d.now.Add(pause)
		return nil
	}
	if err := Once(t.Context(), &out, o, 80, 24); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "▸") || !strings.Contains(text, "full") || strings.Contains(text, "\x1b") ||
		slept != time.Second {
		t.Errorf("it wrote:\n%s", text)
	}
	store := &awayStore{Store: d.store, away: true}
	o.Store = store
	if err := Once(t.Context(), &out, o, 80, 24); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("of a store that is away: %v", err)
	}
}

func TestFiltersThatAreNone(t *testing.T) {
	for _, text := range []string{"[a", ">x", "<-1", "a*b[", "!>1%%"} {
		if _, err := parseFilter(text); err == nil {
			t.Errorf("%q is a filter", text)
		}
		d := begin(t, three, nil)
		d.press("/" + text)
		if !d.note.bad {
			t.Errorf("nothing is said of %q", text)
		}
	}
}

func BenchmarkKeyPress(b *testing.B) {
	all, err := limiter.ParsePattern("*")
	if err != nil {
		b.Fatal(err)
	}
	m := newModel(b.Context(), Options{Query: limiter.Query{Subjects: all}, MaxKeys: 5000, Now: time.Now, Refresh: time.Second,
		Color: true})
	m.width, m.height = 200, 50
	limit, err := limiter.ParseLimit("100/1m")
	if err != nil {
		b.Fatal(err)
	}
	s := fetched{Snapshot: Snapshot{Time: time.Now()}}
	for i := range 5000 {
		s.Keys = append(s.Keys, Reading{Key: limiter.Key{Subject: fmt.Sprint("user:", i), Name: "token-bucket/1m"},
			Limit: limit, Used: int64(i % 101), Remaining: int64(100 - i%101)})
	}
	m.absorbScan(scanned{readings: s.Keys, done: true})
	for b.Loop() { // a refresh of all keys comes before each key that is pressed
		s.Time = s.Time.Add(time.Second)
		m.absorb(s)
		m.Update(tea.KeyMsg{Type: tea.KeyDown})
		_ = m.View()
	}
}

// What is asked of a key while another's answer is under way is not answered by that.
func TestTheDetailIsOfItsKey(t *testing.T) {
	d := begin(t, three, nil)
	d.detail.key, d.feed.fetching = d.keys.rows[0].Key, false
	d.screen = &d.detail
	look := d.look()
	d.detail.key, d.detail.read = d.keys.rows[1].Key, nil
	d.run(look)
	if got := d.detail.read; got != nil {
		t.Errorf("the detail of %v is %+v, which is of another key", d.detail.key, got)
	}
}

// A scan reads its options while keys change them.
func TestAScanRunsBesideTheKeys(t *testing.T) {
	d := begin(t, three, nil)
	for range 50 {
		begin := d.scan()
		d.press("+-")
		d.run(begin)
	}
}

// That nothing was in use does not make an undo that of an older reset.
func TestUndoAfterAResetOfNothing(t *testing.T) {
	d := begin(t, three, nil)
	first := d.keys.rows[0].Key
	d.press("ry")
	d.actions.nothing = true
	d.press("jry")
	if text := d.View(); strings.Contains(text, "u brings back") {
		t.Errorf("after a reset of nothing:\n%s", text)
	}
	if d.press("u"); !strings.Contains(d.View(), first.String()) {
		t.Errorf("it does not say that it is %v:\n%s", first, d.View())
	}
}

// A recording may be anybody's, and does nothing to the terminal.
func TestARecordingSendsNothingToTheTerminal(t *testing.T) {
	recording := `{"time":"2026-03-01T12:00:00Z","store":"a\u001b[2Jb\nc","servers":[` +
		`{"name":"\u001b[2Jx","version":"\u001b]0;x\u0007","role":"\u001b[2J","problem":""},` +
		`{"name":"z","problem":"\u001b[2J"}],"coverage":{},"keys":[]}` + "\n"
	d := begin(t, nil, func(o *Options) { o.Play = strings.NewReader(recording) })
	d.send(tea.WindowSizeMsg{Width: 120, Height: 40})
	if text := d.View(); strings.ContainsAny(text, "\x1b\a") || strings.Count(text, "\n") != 39 {
		t.Errorf("it writes %q", text)
	}
}

// Nor does one whose times were tampered with end the program.
func TestARecordingOfAnyTime(t *testing.T) {
	var recording strings.Builder
	for i := range historyLength + 10 {
		at := time.Date(1960, 1, 1, 0, 0, i, 0, time.UTC).Format(time.RFC3339)
		fmt.Fprintf(&recording, `{"time":%q,"store":"s","coverage":{},"servers":[{}],"keys":[`+
			`{"key":"a","name":"n","store_key":"a","limit":"10/1h","used":1,"remaining":9}]}`+"\n", at)
	}
	d := begin(t, nil, func(o *Options) {
		o.Play, o.Sleep = strings.NewReader(recording.String()), func(context.Context, time.Duration) error { return nil }
	})
	d.press("<enter>")
	if text := d.View(); !d.played {
		t.Errorf("shown at the end:\n%s", text)
	}
}

// What was deleted before a failure is said first: the error may be longer than the line.
func TestAResetThatFailsInTheMiddle(t *testing.T) {
	d := begin(t, three, nil)
	d.send(resetDone{Changed{Keys: 2, Backup: "/backups/1.jsonl"}, d.chosen(), errors.New(strings.Repeat("gone ", 40))})
	if text := d.View(); !strings.Contains(text, "only 2 keys deleted for sure, u brings back: gone") {
		t.Errorf("after a failure in the middle:\n%s", text)
	}
}
