package auditlog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// at is an entry of a run at a second.
func at(second int64, run string, outcome Outcome) *Entry {
	return &Entry{Time: time.Unix(second, 0).UTC(), Run: run, Outcome: outcome}
}

func textOf(t *testing.T, e *Entry) string {
	t.Helper()
	return must(e.Text(4096))
}

// told is a history in short.
func told(h *History) string {
	var all []string
	for _, e := range h.Runs {
		all = append(all, fmt.Sprintf("%s %s %s", e.Run, e.Outcome, e.Source))
	}
	return strings.Join(all, ", ")
}

// The two entries of a run are one row, in any order and with others in between.
func TestARunIsOneRow(t *testing.T) {
	var texts []string
	for _, e := range []*Entry{at(1, "a", Begun), at(2, "b", Begun), at(3, "", Done), at(4, "b", Partly),
		at(5, "c", Begun),
		at(4, "", Done),
		at(9, "d", Done), at(6, "d", Begun), at(8, "b", Failed)} {
		texts = append(texts, textOf(t, e))
	}
	h := read(t, "", texts, Query{})
	const want = "a begun store,  done store, b partly store,  done store, c begun store, d done store"
	if got := told(h); got != want {
		t.Errorf("the runs are %s; want %s", got, want)
	}
	if got := told(read(t, "", texts,
		Query{Most: 2, Keep: func(e *Entry) bool { return e.Run != "d" }})); got != " done store, c "+
		"begun store" {
		t.Errorf("the latest two without d are %s", got)
	}
}

// The entries of machine and store for a run are one row. An outcome counts more than none, and the machine's more
// than the store's, where others can write.
func TestMachineAndStoreAreMerged(t *testing.T) {
	var machine, store []string
	for _, e := range []*Entry{at(1, "killed", Begun), at(2, "mine", Done), at(7, "full", Begun)} {
		machine = append(machine, textOf(t, e))
	}
	for _, e := range []*Entry{at(1, "killed", Begun), at(3, "mine", Failed), at(4, "theirs", Done),
		at(8, "full", Done)} {
		store = append(store, textOf(t, e))
	}
	h := read(t, strings.Join(machine, "\n"), store, Query{})
	if got := told(h); got != "killed begun both, mine done both, theirs done store, full done both" {
		t.Errorf("it has %s", got)
	}
}

// An entry always fits the store. The backup is cut last.
func TestAnEntryFitsTheStore(t *testing.T) {
	const backup = "/home/night/.local/state/limitctl/backups/20261122T021228.782Z-17170.jsonl"
	for _, long := range []string{"x", "\x00", "😀", "\""} {
		e := &Entry{Time: time.Unix(1, 0), Run: "r", Backup: backup, Source: Both}
		for _, text := range []*string{&e.User, &e.Account, &e.Host, &e.Context, &e.Store, &e.Prefix, &e.Command,
			&e.Selection, &e.Reason, &e.Error} {
			*text = strings.Repeat(long, 5000)
		}
		text, err := e.Text(4096)
		var back Entry
		if err != nil || len(text) > 4096 || json.Unmarshal([]byte(text), &back) != nil || back.Backup != backup ||
			back.Run != "r" ||
			back.Source != "" || back.Reason == "" {
			t.Errorf("of %q: %d bytes, %v, %+v", long, len(text), err, back)
		}
		if len(e.Reason) < 5000 {
			t.Error("the entry itself was cut")
		}
	}
	for _, test := range []struct {
		overrides int
		kept      bool
	}{{1, true}, {2, true}, {100, false}} {
		e := &Entry{Time: time.Unix(1, 0), Selection: strings.Repeat("x", 5000), Reason: strings.Repeat("y", 5000)}
		for range test.overrides {
			e.Overrides = append(e.Overrides,
				Override{ID: "aaaaaaaa", Override: []byte(`{"subject":"` + strings.Repeat("z", 700) + `"}`)})
		}
		text, err := e.Text(4096)
		var back Entry
		if err != nil || len(text) > 4096 || json.Unmarshal([]byte(text), &back) != nil ||
			len(back.Overrides) == test.overrides != test.kept {
			t.Errorf("with %d overrides: %d bytes, %v, %d are there", test.overrides, len(text), err,
				len(back.Overrides))
		}
	}
}

// must returns what a call returned that cannot fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
