package dash

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/dash/figures"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What was recorded is shown again as it was.
func TestRecordingIsPlayed(t *testing.T) {
	var recording bytes.Buffer
	d := begin(t, three, func(o *Options) { o.Record = &recording })
	d.second()
	d.take(store.Key{Subject: "calm"}, "fixed-window:100/1h", 95)
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
	for i := range figures.HistoryLength + 10 {
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

// A recorder that was killed leaves a line without an end. What is before it is shown.
func TestARecordingThatIsCutOff(t *testing.T) {
	whole := frame(1, map[string]any{"store": "after"})
	for cut := 1; cut < len(whole)-1; cut += 7 {
		d, _ := play(t, frame(0, map[string]any{"store": "before"})+whole[:cut])
		if text := d.View(); d.failed != nil || d.Where != "before" ||
			!strings.Contains(text, "end of the recording; its last line is cut off") {
			t.Fatalf("cut off after %d bytes it ends with %v:\n%s", cut, d.failed, text)
		}
	}
	d, _ := play(t, frame(0, nil)+strings.TrimSuffix(whole, "\n"))
	if text := d.View(); d.failed != nil || d.Where != "after" || strings.Contains(text, "cut off") {
		t.Errorf("without the end of a line that is whole it ends with %v:\n%s", d.failed, text)
	}
	if d, _ := play(t, whole[:50]); d.failed == nil || !strings.Contains(d.failed.Error(), "cut off in its first line") {
		t.Errorf("without any frame it ends with %v", d.failed)
	}
}
