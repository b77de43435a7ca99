package dash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/dash/followed"
	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ourStyles are the only sequences that a frame has.
var ourStyles = regexp.MustCompile("\x1b\\[(7;)?(1;)?([0127]|3[1236])m")

// checkFrame makes sure that the frame fills the terminal, and that nothing in it is
// obeyed but our styles.
func (d *driver) checkFrame(name string) {
	d.t.Helper()
	frame := d.View()
	d.checkSize(name, frame)
	for i, r := range ourStyles.ReplaceAllString(frame, "") {
		if r != '\n' && output.Escape(string(r)) != string(r) || unicode.Is(unicode.Bidi_Control, r) {
			d.t.Fatalf("%s: at %d is %q in\n%q", name, i, r, frame)
		}
	}
}

// hostile fills a store with the keys of strangers, as subjects, limits and attributes.
func hostile(d *driver) {
	for i, text := range hostiletext.Subjects() {
		d.take(store.Key{Subject: text}, "10/1h", int64(1+i%10))
		if i%4 == 0 {
			d.take(store.Key{Subject: "user:" + text, Name: "api/user"}, "10/1h", int64(1+i%10))
		}
	}
}

func TestFramesOfHostileNames(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	texts := hostiletext.Texts()
	d := begin(t, hostile, func(o *Options) {
		o.Color, o.Context, o.Where, o.Selection = true, texts[0], texts[1]+strings.Join(texts, ""), strings.Join(texts, "")
		o.Servers = func(context.Context) []Server {
			var all []Server
			for _, text := range texts[:8] {
				all = append(all, Server{Name: text, Version: text, Role: text}, Server{Name: text, Problem: text})
			}
			return all
		}
	})
	for _, size := range []tea.WindowSizeMsg{{Width: 200, Height: 300}, {Width: 33, Height: 12}, {Width: 80, Height: 24}} {
		d.send(size)
		for _, keys := range []string{"", "g", "<enter>", "<down><down>", "g<down>", "<enter><enter>", "<esc><esc><esc>", "?", "<esc>"} {
			d.press(keys)
			d.checkFrame(keys)
		}
	}
	for i := range d.keys.rows {
		d.keys.moveTo(d.model, i, true)
		d.press("<enter>")
		d.checkFrame("detail")
		d.press("<esc>mmr")
		d.checkFrame("question")
		d.press("<esc>mm")
	}
	for _, text := range texts {
		d.Color = !d.Color
		d.press("/")
		d.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(text), Paste: true})
		d.checkFrame("pasted " + text)
		d.press("<enter>")
		d.checkFrame("filtered by " + text)
		d.press("<esc>")
		for _, msg := range []tea.Msg{actionFailed{errors.New(text)}, resetDone{Changed{Keys: 1, Backup: text}, d.chosen(), nil},
			undoDone{Changed{}, errors.New(text)}, source.Scanned{Pass: d.feed.pass, Done: true, Err: errors.New(text)}} {
			d.Update(msg)
			d.checkFrame(fmt.Sprintf("%T of %q", msg, text))
		}
		d.press("u")
		d.checkFrame("undo of " + text)
		d.press("<esc>")
		d.Update(source.Fetched{Snapshot: source.Snapshot{Time: d.now}, Err: errors.New(text)})
		d.checkFrame("problem " + text)
		d.feed.scanError, d.feed.problem, d.changes.lastReset = nil, nil, nil
	}
}

// What is marked and confirmed is reset, whatever it looks like.
func TestResetOfHostileNames(t *testing.T) {
	d := begin(t, hostile, nil)
	d.send(tea.WindowSizeMsg{Width: 120, Height: 40})
	for _, text := range hostiletext.Subjects() {
		key := store.Key{Subject: text, Name: "token-bucket/1h"}
		i := slices.IndexFunc(d.keys.rows, func(r *followed.Row) bool { return r.Key == key })
		if i < 0 {
			t.Fatalf("%q is not shown", text)
		}
		d.keys.moveTo(d.model, i, true)
		d.press("r")
		if shown := d.View(); !strings.Contains(shown, "Delete 1 key?") {
			t.Errorf("asked of %q:\n%s", text, shown)
		}
		d.press("y")
		if !slices.Equal(d.actions.reset, []ID{source.OwnID(key)}) {
			t.Errorf("for %q it reset %q", text, d.actions.reset)
		}
		d.keys.moveTo(d.model, slices.IndexFunc(d.keys.rows, func(r *followed.Row) bool { return r.Key == key }), true)
		d.press("m")
		if !d.keys.marked[source.OwnID(key)] || len(d.keys.marked) != 1 {
			t.Errorf("for %q it marked %v", text, d.keys.marked)
		}
		d.press("ryu")
		if !slices.Equal(d.changes.lastKeys, []ID{source.OwnID(key)}) {
			t.Errorf("of %q it would undo %q", text, d.changes.lastKeys)
		}
		d.press("y")
		clear(d.keys.marked)
	}
}

// frame is a line of a recording with the fields that it is given.
func frame(second int, fields map[string]any) string {
	document := map[string]any{"time": time.Date(2026, 3, 1, 12, 0, second, 0, time.UTC), "store": "s", "coverage": map[string]any{},
		"keys": []any{map[string]any{"key": "a", "name": "n", "store_key": "a", "limit": "10/1h", "used": 1, "remaining": 9}}}
	for name, value := range fields {
		document[name] = value
	}
	text, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

// play plays a recording to its end, and returns how long it waited between frames.
func play(t *testing.T, recording string) (d *driver, slept []time.Duration) {
	t.Helper()
	d = begin(t, nil, func(o *Options) {
		o.Play, o.Store, o.Actions = strings.NewReader(recording), nil, nil
		o.Now = func() time.Time { return time.Time{} }
		o.Sleep = func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil }
	})
	d.send(tea.WindowSizeMsg{Width: 120, Height: 40})
	for _, keys := range []string{"", "<enter>", "<esc>g", "<enter><esc>?"} {
		d.press(keys)
		d.checkFrame(keys)
	}
	d.press("<esc>")
	return d, slept
}

func TestHostileRecordings(t *testing.T) {
	key := func(field string, value any) map[string]any {
		reading := map[string]any{"key": "b", "name": "n", "store_key": "a", "limit": "10/1h", "used": 1, "remaining": 9}
		reading[field] = value
		return map[string]any{"keys": []any{reading}}
	}
	bad := map[string]string{
		"no JSON":             "hello\n",
		"a torn line":         frame(1, nil)[:40] + "\n",
		"an empty line":       "\n",
		"a NUL":               "\x00\n",
		"another document":    "[]\n",
		"a text":              frame(1, map[string]any{"keys": "x"}),
		"a time that is none": frame(1, map[string]any{"time": "yesterday"}),
		"a time of 1e308":     frame(1, map[string]any{"time": 1e308}),
		"negative use":        frame(1, key("used", -1)),
		"huge use":            frame(1, key("used", int64(1)<<62)),
		"use of 1e308":        frame(1, key("used", 1e308)),
		"use of half":         frame(1, key("used", 0.5)),
		"negative remaining":  frame(1, key("remaining", -5)),
		"negative taken":      frame(1, key("taken", -5)),
		"a TTL of 300 years":  frame(1, key("ttl_ms", int64(9_000_000_000_000))),
		"no limit":            frame(1, key("limit", "0/0s")),
		"a control character": frame(1, key("key", "a\x1b[2J")),
		"a huge RTT":          frame(1, map[string]any{"servers": []any{map[string]any{"round_trip_ns": 1e30}}}),
		"deep nesting":        `{"time":` + strings.Repeat("[", 100_000) + "\n",
	}
	for name, text := range bad {
		d, _ := play(t, frame(0, nil)+text+frame(2, map[string]any{"store": "after"}))
		if d.failed != nil || d.Where != "after" {
			t.Errorf("%s ends the playing at %q with %v", name, d.Where, d.failed)
		}
		if shown := d.View(); !strings.Contains(shown, "left out") {
			t.Errorf("%s is passed over in silence:\n%s", name, shown)
		}
		if d, _ := play(t, text); d.failed == nil || !strings.Contains(d.failed.Error(), "line 1 of the recording is not a frame") {
			t.Errorf("a recording of nothing but %s ends with %v", name, d.failed)
		}
	}
	for name, fields := range map[string]map[string]any{
		"negative servers": {"servers": []any{map[string]any{"round_trip_ns": -5e9, "ops_per_second": -1,
			"used_memory": int64(math.MinInt64), "max_memory": -1}}},
		"huge servers": {"servers": []any{map[string]any{"round_trip_ns": int64(1) << 62, "ops_per_second": int64(1) << 62,
			"used_memory": int64(math.MaxInt64)}}},
		"huge coverage": {"coverage": map[string]any{"looked": int64(1) << 62, "total": -5, "passes": -1,
			"took_ns": int64(math.MaxInt64), "matched": int64(-1) << 62,
			"at_limit": int64(1) << 62, "full": true}},
		"a problem":  {"problem": "\x1b]0;x\x07\nforged"},
		"no keys":    {"keys": nil},
		"the year 1": {"time": "0001-01-01T00:00:00Z"},
		"year 9999":  {"time": "9999-12-31T23:59:59Z"},
	} {
		d, slept := play(t, frame(0, nil)+frame(1, fields)+frame(2, map[string]any{"store": "after"}))
		if d.failed != nil || d.Where != "after" {
			t.Errorf("%s ends the playing at %q with %v", name, d.Where, d.failed)
		}
		if longest := slices.Max(slept); longest > time.Minute {
			t.Errorf("after %s it waits %s", name, longest)
		}
	}
}

func TestRecordingsOfHostileTexts(t *testing.T) {
	for _, text := range hostiletext.Texts() {
		play(t, frame(0, map[string]any{"store": text, "problem": text, "servers": []any{map[string]any{"name": text, "version": text,
			"role": text},
			map[string]any{"name": text, "problem": text}}})+frame(1, map[string]any{"store": text}))
	}
	var keys []any
	for _, text := range hostiletext.Subjects() {
		keys = append(keys, map[string]any{"key": text, "name": "n", "store_key": text + "\x1b[2J", "limit": "10/1h", "used": 1,
			"remaining": 9})
	}
	d, _ := play(t, frame(0, map[string]any{"keys": keys}))
	if len(d.keys.rows) != len(keys) {
		t.Errorf("%d of %d keys are shown", len(d.keys.rows), len(keys))
	}
}

// Whatever a recording holds, it is played, or there is a reason why not.
func FuzzPlay(f *testing.F) {
	for _, text := range hostiletext.Texts() {
		f.Add(frame(0, nil) + text + "\n" + frame(1, map[string]any{"problem": text}))
	}
	f.Add(frame(0, map[string]any{"servers": []any{map[string]any{"round_trip_ns": -5, "version": "x"}},
		"coverage": map[string]any{"full": true}}))
	f.Fuzz(func(t *testing.T, recording string) {
		d, slept := play(t, recording)
		if len(slept) > 0 && slices.Max(slept) > time.Minute {
			t.Errorf("it waits %s", slices.Max(slept))
		}
		if d.failed != nil && strings.Contains(source.OneLine(d.failed), "\n") {
			t.Errorf("%q", d.failed)
		}
	})
}
