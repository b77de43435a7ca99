package auditlog

import (
	"strings"
	"testing"
	"time"
)

// A run whose backup came back says by which run, also if that one is left out, or only the other half of the audit log has it.
// The latest that brought back all of it counts.
func TestWhatBroughtARunBack(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	run := func(name, command, selection, backup string, outcome Outcome, changed int64) *Entry {
		at = at.Add(time.Minute)
		return &Entry{Time: at, Run: name, User: "ana", Host: "h", Command: command, Selection: selection, Backup: backup, Outcome: outcome,
			Changed: changed}
	}
	reset := func() *Entry { return run("r", "reset", "'*'", "/b.jsonl", Begun, 0) }
	late := func(e *Entry) *Entry { e.Time = e.Time.Add(time.Hour); return e }
	staging := func(e *Entry) *Entry { e.Store = "redis://staging"; return e }
	other := func(e *Entry) *Entry { e.Host = "elsewhere"; return e }
	for name, test := range map[string]struct {
		runs []*Entry
		want string // the run, and what it did
	}{
		"nothing":       {[]*Entry{reset()}, ""},
		"undone":        {[]*Entry{reset(), run("u", "undo", "/b.jsonl", "", Done, 3)}, "u undone"},
		"compressed":    {[]*Entry{reset(), run("u", "restore", "/b.jsonl.gz", "", Done, 3)}, "u undone"},
		"another":       {[]*Entry{reset(), run("u", "restore", "/c.jsonl", "", Done, 3)}, ""},
		"which went on": {[]*Entry{late(reset()), run("u", "undo", "/b.jsonl", "", Done, 3)}, ""},
		"elsewhere":     {[]*Entry{reset(), other(run("u", "restore", "/b.jsonl", "", Done, 3))}, ""},
		"another store": {[]*Entry{reset(), staging(run("u", "restore", "/b.jsonl", "", Done, 3))}, ""},
		"in part":       {[]*Entry{reset(), run("u", "undo", "/b.jsonl", "", Partly, 3)}, "u undone in part"},
		"nothing of it": {[]*Entry{reset(), run("u", "undo", "/b.jsonl", "", Partly, 0)}, ""},
		"only begun":    {[]*Entry{reset(), run("u", "undo", "/b.jsonl", "", Begun, 0)}, ""},
		"twice": {[]*Entry{reset(), run("u", "undo", "/b.jsonl", "", Partly, 3), run("v", "restore", "/b.jsonl", "", Done, 1)},
			"v undone"},
		"and then again": {[]*Entry{reset(), run("u", "undo", "/b.jsonl", "", Done, 3), run("v", "restore", "/b.jsonl", "", Partly, 1)},
			"u undone"},
	} {
		t.Run(name, func(t *testing.T) {
			var texts []string
			for _, e := range test.runs {
				e.Undone = &Undone{Run: "made up"} // nobody writes it, and nobody believes it
				text, err := e.Text(1000)
				if err != nil || strings.Contains(text, "made up") {
					t.Fatalf("%s, %v", text, err)
				}
				texts = append(texts, text)
			}
			texts[0] = strings.Replace(texts[0], "{", `{"undone":{"run":"made up"},`, 1)
			resets := Query{Keep: func(e *Entry) bool { return e.Command == "reset" && e.Backup != "" }}
			empty := ReadTexts(nil, Query{})
			file := must(Read(t.Context(), strings.NewReader(strings.Join(texts, "\n")), resets))
			half, rest := ReadTexts(texts[:1], resets), ReadTexts(texts[1:], resets)
			for how, h := range map[string]*History{"file": file, "store": ReadTexts(texts, resets), "merged": Merge(half, rest, 0),
				"merged the other way": Merge(rest, half, 0), "with nothing": Merge(ReadTexts(texts, resets), empty, 0),
				"without a machine": Merge(&History{}, ReadTexts(texts, resets), 0)} {
				got := ""
				if u := h.Runs[0].Undone; u != nil {
					got = u.Run + " " + u.Text()
				}
				if len(h.Runs) != 1 || got != test.want {
					t.Errorf("%s: %d runs, the first %q, want %q", how, len(h.Runs), got, test.want)
				}
			}
		})
	}
}
