package cmd

import (
	"strings"
	"testing"
	"time"
)

// The audit shows the runs about a subject, also those that selected more than it, and what brought its keys back; and
// those since a time.
func TestTheAuditOfASubjectAndATime(t *testing.T) {
	w := newWorld(t)
	w.now = time.Date(2026, 11, 25, 1, 0, 0, 0, time.UTC)
	do := func(args ...string) {
		for _, subject := range []string{"tenant:acme:user:1", "tenant:other:user:1"} {
			w.run(t, exitYes, "consume", subject, "--limit", "9/100h")
		}
		w.run(t, exitYes, append(args, "--yes")...)
		w.now = w.now.Add(time.Hour)
	}
	do("reset", "tenant:acme:*")  // at 01:00
	do("undo", "--replace")       // at 02:00
	do("reset", "tenant:other:*") // at 03:00
	do("reset", "*")              // at 04:00
	const acme, undo, other, all = "reset 'tenant:acme:*'", "undo ", "reset 'tenant:other:*'", "reset '*'"
	for _, test := range []struct {
		args string
		want []string
	}{
		{"", []string{acme, undo, other, all}},
		{"tenant:acme:user:1", []string{acme, undo, all}},
		{"tenant:acme:*", []string{acme, undo, all}},
		{"tenant:*", []string{acme, undo, other, all}},
		{"tenant:acm", []string{all}},
		{"tenant:other:user:1", []string{other, all}},
		{"--since 03:00", []string{other, all}},
		{"--since 1h", []string{all}},
		{"tenant:acme:* --since 02:00 --limit-rows 1", []string{all}},
		{"x", []string{all}},
	} {
		stdout, _ := w.run(t, exitYes, append([]string{"audit", "-o", "csv"}, strings.Fields(test.args)...)...)
		rows := strings.Split(strings.TrimSpace(stdout), "\n")[1:]
		if len(rows) != len(test.want) {
			t.Errorf("%s: %d runs, not %d:\n%s", test.args, len(rows), len(test.want), stdout)
			continue
		}
		for i, want := range test.want {
			if words := strings.SplitN(want, " ", 2); !strings.Contains(rows[i], ","+words[0]+","+words[1]) {
				t.Errorf("%s: run %d is not %q: %s", test.args, i+1, want, rows[i])
			}
		}
	}
}
