package auditlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// From an audit log of any length only the requested runs are held, and they are the latest.
func TestTheLatestRunsAreRead(t *testing.T) {
	var file strings.Builder
	for i := range 3*maxRuns + 7 {
		fmt.Fprintf(&file, "{\"time\":\"2026-01-02T03:04:05Z\",\"matched\":%d}\n", i)
	}
	for _, test := range []struct{ most, first, runs int }{
		{0, 2*maxRuns + 7, maxRuns},
		{1, 3*maxRuns + 6, 1},
		{3, 3*maxRuns + 4, 3},
		{4 * maxRuns, 0, 3*maxRuns + 7},
	} {
		h := read(t, file.String(), nil, Query{Most: test.most})
		if len(h.Runs) != test.runs || h.Runs[0].Matched != int64(test.first) {
			t.Errorf("at most %d: %d runs, want %d; the first is %d, want %d", test.most, len(h.Runs), test.runs,
				h.Runs[0].Matched, test.first)
		}
	}
}

// read reads a file of this machine and the texts of a store.
func read(t *testing.T, file string, texts []string, q Query) *History {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if file != "" {
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tables, _ := admin.AuditOf(memorystore.New())
	for _, text := range texts {
		if err := tables.AppendJournal(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	journal := &Journal{Path: path, Store: tables, Timeout: time.Minute}
	h := must(journal.Read(t.Context(), q))
	if h.StoreError != nil {
		t.Fatal(h.StoreError)
	}
	return h
}

func TestBadLinesAreCountedAndTheFirstAreNamed(t *testing.T) {
	const run = "{\"time\":\"2026-01-02T03:04:05Z\"}\n"
	h := read(t, run+strings.Repeat("[]\n", 7)+run, []string{"{}"}, Query{})
	if len(h.Runs) != 2 || len(h.Bad) != keptBad+2 || !strings.Contains(h.Bad[0].Error(), "audit.jsonl:2 is not") ||
		!strings.HasPrefix(h.Bad[keptBad].Error(), "7 lines in all") ||
		!strings.HasPrefix(h.Bad[keptBad+1].Error(), "1 text in") {
		t.Errorf("it holds %+v", h)
	}
}

// Half a line at the end of the file does not destroy the next entry.
func TestAnEntryAfterHalfALineIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(`{"time":"2026`), 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		file := must(files.Append(path))
		w := NewFile(file)
		if err := w.Write(&Entry{Time: time.Unix(1, 0), Command: "reset", Matched: int64(n),
			Outcome: Done}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	h := read(t, string(must(os.ReadFile(path))), nil, Query{})
	if len(h.Runs) != 2 || len(h.Bad) != 1 || h.Runs[1].Matched != 1 {
		t.Errorf("it holds %+v", h)
	}
}

// A run whose backup came back says by which run, also if that one is left out, or only the other half of the audit log
// has it. The latest that brought back all of it counts.
func TestWhatBroughtARunBack(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	run := func(name, command, selection, backup string, outcome Outcome, changed int64) *Entry {
		at = at.Add(time.Minute)
		return &Entry{Time: at, Run: name, User: "ana", Host: "h", Command: command, Selection: selection,
			Backup: backup, Outcome: outcome,
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
		"another":       {[]*Entry{reset(), run("u", "restore", "/c.jsonl", "", Done, 3)}, ""},
		"which went on": {[]*Entry{late(reset()), run("u", "undo", "/b.jsonl", "", Done, 3)}, ""},
		"elsewhere":     {[]*Entry{reset(), other(run("u", "restore", "/b.jsonl", "", Done, 3))}, ""},
		"another store": {[]*Entry{reset(), staging(run("u", "restore", "/b.jsonl", "", Done, 3))}, ""},
		"in part":       {[]*Entry{reset(), run("u", "undo", "/b.jsonl", "", Partly, 3)}, "u undone in part"},
		"nothing of it": {[]*Entry{reset(), run("u", "undo", "/b.jsonl", "", Partly, 0)}, ""},
		"only begun":    {[]*Entry{reset(), run("u", "undo", "/b.jsonl", "", Begun, 0)}, ""},
		"twice": {[]*Entry{reset(), run("u", "undo", "/b.jsonl", "", Partly, 3),
			run("v", "restore", "/b.jsonl", "", Done, 1)},
			"v undone"},
		"and then again": {[]*Entry{reset(), run("u", "undo", "/b.jsonl", "", Done, 3),
			run("v", "restore", "/b.jsonl", "", Partly, 1)},
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
			file := strings.Join(texts, "\n")
			for how, h := range map[string]*History{
				"file": read(t, file, nil, resets), "store": read(t, "", texts, resets),
				"merged":               read(t, texts[0], texts[1:], resets),
				"merged the other way": read(t, strings.Join(texts[1:], "\n"), texts[:1], resets),
				"both":                 read(t, file, texts, resets)} {
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
