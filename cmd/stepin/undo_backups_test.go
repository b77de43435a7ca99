package stepin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/auditlog"
)

// Old backups are removed but for the newest of a store, and those whose run has not ended. The list is the newest
// first.
func TestWhatPruneRemoves(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	all := []auditlog.Kept{}
	for i, store := range []string{"a", "a", "b", "a", "b", "a"} { // 0 is the newest of a, 2 that of b
		made := now.Add(-time.Duration(i) * 24 * time.Hour)
		all = append(all, auditlog.Kept{Name: fmt.Sprint(i), Made: made, Store: store, Unended: i == 3})
	}
	for age, want := range map[time.Duration]string{5 * 24 * time.Hour: "", 5*24*time.Hour - 1: "5",
		4*24*time.Hour - 1: "4 5",
		24*time.Hour - 1:   "1 4 5 and 2 spared", -1: "1 4 5 and 3 spared"} {
		gone, spared := toPrune(all, age, now)
		var names []string
		for i := range gone {
			names = append(names, gone[i].Name)
		}
		got := strings.Join(names, " ")
		if spared > 0 {
			got += fmt.Sprintf(" and %d spared", spared)
		}
		if got != want {
			t.Errorf("older than %s: removes %q, want %q", age, got, want)
		}
	}
}

// The last change is that with the last backup in the store, unless it was undone as a whole.
func TestLastChange(t *testing.T) {
	run := func(command, selection, backup, store string, outcome auditlog.Outcome) *auditlog.Entry {
		return &auditlog.Entry{Command: command, Selection: selection, Backup: backup, Store: store, Outcome: outcome,
			Changed: 1}
	}
	reset := func(backup string) *auditlog.Entry { return run("reset", "x", backup, "here", auditlog.Done) }
	here := func(e *auditlog.Entry) bool { return e.Store == "here" }
	failed, unknown := run("reset", "x", "b", "here", auditlog.Failed), run("reset", "x", "b", "here", auditlog.Failed)
	failed.Changed, unknown.Changed, unknown.Unknown = 0, 0, 1
	killed := run("reset", "x", "k", "here", auditlog.Begun)
	for name, test := range map[string]struct {
		runs   []*auditlog.Entry
		backup string
		undone bool
	}{
		"none":               {},
		"none with a backup": {runs: []*auditlog.Entry{reset("")}},
		"the last of two":    {runs: []*auditlog.Entry{reset("a"), reset("b")}, backup: "b"},
		"one in another store": {
			runs: []*auditlog.Entry{reset("a"), run("reset", "x", "b", "there", auditlog.Done)}, backup: "a"},
		"one that changed nothing": {runs: []*auditlog.Entry{reset("a"), failed}, backup: "a"},
		"one that may have failed": {runs: []*auditlog.Entry{reset("a"), unknown}, backup: "b"},
		"one that was killed":      {runs: []*auditlog.Entry{reset("a"), killed}, backup: "k"},
		"undone": {runs: []*auditlog.Entry{reset("a"), reset("b"), run("undo", "b", "", "here", auditlog.Done)},
			backup: "b",
			undone: true},
		"restored by hand": {runs: []*auditlog.Entry{reset("b"), run("restore", "b", "", "here", auditlog.Done)},
			backup: "b",
			undone: true},
		"undone in part": {runs: []*auditlog.Entry{reset("b"), run("undo", "b", "", "here", auditlog.Partly)},
			backup: "b"},
		"another was restored": {runs: []*auditlog.Entry{
			reset("a"), reset("b"), run("restore", "a", "", "here", auditlog.Done)},
			backup: "b"},
	} {
		last, undoneBy := lastChange(test.runs, here)
		backup := ""
		if last != nil {
			backup = last.Backup
		}
		if backup != test.backup || undoneBy != nil != test.undone {
			t.Errorf("%s: it is %q, undone: %v", name, backup, undoneBy)
		}
	}
}
