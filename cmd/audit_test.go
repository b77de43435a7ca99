package cmd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// However long an audit is, only what is shown is held, and it is the latest.
func TestTheLatestRunsAreShown(t *testing.T) {
	var file strings.Builder
	for i := range 3*mostRuns + 7 {
		fmt.Fprintf(&file, "{\"time\":\"2026-01-02T03:04:05Z\",\"matched\":%d}\n", i)
	}
	for _, test := range []struct{ limit, first, runs int }{
		{0, 2*mostRuns + 7, mostRuns},
		{1, 3*mostRuns + 6, 1},
		{3, 3*mostRuns + 4, 3},
		{4 * mostRuns, 0, 3*mostRuns + 7},
	} {
		w := newWorld(t)
		o := &auditOptions{globalOptions: &globalOptions{env: w.Env}, limit: test.limit}
		answer := &auditAnswer{}
		if err := o.readAudit(context.Background(), "audit.jsonl", strings.NewReader(file.String()), answer); err != nil {
			t.Fatal(err)
		}
		if len(answer.entries) != test.runs || answer.entries[0].Matched != int64(test.first) {
			t.Errorf("--limit-rows %d shows %d runs, want %d; the first is %d, want %d",
				test.limit, len(answer.entries), test.runs, answer.entries[0].Matched, test.first)
		}
		if told := strings.Contains(w.err.String(), "only the last 10000 of 30007 runs are shown"); told != (test.limit == 0) {
			t.Errorf("--limit-rows %d: %q", test.limit, &w.err)
		}
	}
}

func TestBoundedTexts(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", mostText)} {
		if got := bounded(text); got != text {
			t.Errorf("%d bytes become %d", len(text), len(got))
		}
	}
	for i := range 4 { // the cut is in any part of a character
		text := strings.Repeat("x", i) + strings.Repeat("😀", mostText)
		if got := bounded(text); !utf8.ValidString(got) || len(got) > mostText+len("…") || len(got) < mostText-3 ||
			!strings.HasPrefix(text, strings.TrimSuffix(got, "…")) {
			t.Errorf("behind %d letters: %d bytes that end in %q", i, len(got), got[len(got)-8:])
		}
	}
}
