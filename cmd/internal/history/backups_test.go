package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/cmd/internal/backup"
)

// Which backups a rule removes, of a list that is the newest first.
func TestPruneRule(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	all := []keptBackup{}
	for i, store := range []string{"a", "a", "b", "a", "b", "a"} { // 0 is the newest of a, 2 that of b
		all = append(all, keptBackup{File: backup.File{Name: fmt.Sprint(i), Size: 10}, made: now.Add(-time.Duration(i) * 24 * time.Hour),
			store: store, unended: i == 3})
	}
	day := func(n int) *time.Duration { d := time.Duration(n)*24*time.Hour - time.Minute; return &d }
	number := func(n int) *int { return &n }
	size := func(n int64) *int64 { return &n }
	for _, test := range []struct {
		rule   pruneRule
		want   string
		spared int
	}{
		{pruneRule{olderThan: day(9)}, "", 0},
		{pruneRule{olderThan: day(4)}, "4 5", 0},
		{pruneRule{olderThan: day(1)}, "1 4 5", 2},
		{pruneRule{keep: number(5)}, "5", 0},
		{pruneRule{keep: number(1)}, "1 4 5", 2},
		{pruneRule{maxSize: size(60)}, "", 0},
		{pruneRule{maxSize: size(59)}, "5", 0},
		{pruneRule{maxSize: size(40)}, "4 5", 0},
		{pruneRule{maxSize: size(30)}, "1 4 5", 2}, // 2 and 3 were to go before 1
		{pruneRule{maxSize: size(0)}, "1 4 5", 3},
		{pruneRule{keep: number(4), olderThan: day(5), maxSize: size(30)}, "1 4 5", 2},
	} {
		gone, spared := test.rule.choose(all, now)
		var names []string
		for i := range gone {
			names = append(names, gone[i].Name)
		}
		if got := strings.Join(names, " "); got != test.want || spared != test.spared {
			t.Errorf("%+v removes %q and spares %d, want %q and %d", test.rule, got, spared, test.want, test.spared)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "17": 17, "17B": 17, "1kB": 1000, "1.5GB": 1_500_000_000, "500 MB": 500_000_000,
		"1GiB": 1 << 30, "2T": 2_000_000_000_000, "": -1, "GB": -1, "-1GB": -1, "1 XB": -1, "1GBB": -1, "NaN": -1, "Inf": -1, "1e300": -1,
		"99999999999999999999": -1, "9e9T": -1} {
		got, err := parseSize(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %d bytes (%v), want %d", text, got, err, want)
		}
	}
}

// The last change is that with the last backup in the store, unless it was undone as a whole.
func TestLastChange(t *testing.T) {
	run := func(command, selection, backup, store string, outcome auditlog.Outcome) *auditlog.Entry {
		return &auditlog.Entry{Command: command, Selection: selection, Backup: backup, Store: store, Outcome: outcome, Changed: 1}
	}
	reset := func(backup string) *auditlog.Entry { return run("reset", "x", backup, "here", auditlog.Done) }
	here := func(e *auditlog.Entry) bool { return e.Store == "here" }
	killed := run("reset", "x", "k", "here", auditlog.Begun)
	for name, test := range map[string]struct {
		runs                  []*auditlog.Entry
		backup, before, after string
		undone                bool
	}{
		"none":                 {},
		"none in this store":   {runs: []*auditlog.Entry{run("reset", "x", "a", "there", auditlog.Done)}},
		"none with a backup":   {runs: []*auditlog.Entry{reset("")}},
		"the last of two":      {runs: []*auditlog.Entry{reset("a"), reset("b")}, backup: "b", before: "a"},
		"one in another store": {runs: []*auditlog.Entry{reset("a"), run("reset", "x", "b", "there", auditlog.Done)}, backup: "a"},
		"one that was killed":  {runs: []*auditlog.Entry{reset("a"), killed}, backup: "k", before: "a"},
		"undone": {runs: []*auditlog.Entry{reset("a"), reset("b"), run("undo", "b", "", "here", auditlog.Done)}, backup: "b", before: "a",
			undone: true},
		"restored by hand": {runs: []*auditlog.Entry{reset("b"), run("restore", "b", "", "here", auditlog.Done)}, backup: "b",
			undone: true},
		"undone in part":     {runs: []*auditlog.Entry{reset("b"), run("undo", "b", "", "here", auditlog.Partly)}, backup: "b"},
		"restored elsewhere": {runs: []*auditlog.Entry{reset("b"), run("restore", "b", "", "there", auditlog.Done)}, backup: "b"},
		"another was restored": {runs: []*auditlog.Entry{reset("a"), reset("b"), run("restore", "a", "", "here", auditlog.Done)},
			backup: "b",
			before: "a"},
		"compressed and undone": {runs: []*auditlog.Entry{reset("b"), run("undo", "b.gz", "", "here", auditlog.Done)}, backup: "b",
			undone: true},
		"an override came later": {runs: []*auditlog.Entry{reset("b"), run("override set", "o", "", "here", auditlog.Done)}, backup: "b",
			after: "override set"},
	} {
		last := lastChange(test.runs, here)
		var backup, before, after string
		if last.run != nil {
			backup = last.run.Backup
		}
		if last.before != nil {
			before = last.before.Backup
		}
		for _, e := range last.after {
			after += e.Command
		}
		if backup != test.backup || before != test.before || after != test.after || last.undoneBy != nil != test.undone {
			t.Errorf("%s: it is %q, before it %q, after it %q, undone: %v", name, backup, before, after, last.undoneBy)
		}
	}
}
