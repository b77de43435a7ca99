package cmd

import (
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// A table marks the keys with defects, and says each defect once.
func TestInspectMarksDefects(t *testing.T) {
	forEver := limiter.Defect{Kind: limiter.NeverExpires, Text: "no expiry, so it denies for ever", Stuck: true}
	early := limiter.Defect{Kind: limiter.ShortTTL, Text: "expires before its units have come back"}
	print := func(defects ...[]limiter.Defect) string {
		facts := &keyFacts{}
		kept := newKeptRows(orders()["key"], 0, "rl", facts)
		for i, list := range defects {
			subject := string(rune('a' + i))
			e := limiter.Entry{Key: limiter.Key{Subject: subject, Name: "kong/minute"}, StoreKey: "ratelimit:" + subject, Layout: "kong",
				Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 10, Period: time.Minute}, TTL: time.Minute, Defects: list}
			e.Used, e.ResetAfter = 3, time.Minute
			kept.add(&inspectRow{entry: e})
		}
		kept.sort()
		var out strings.Builder
		(&inspectAnswer{kept: kept, facts: facts}).Print(&output.Printer{Out: &out, Width: 120})
		return out.String()
	}
	for _, test := range []struct {
		defects [][]limiter.Defect
		want    string
	}{
		{[][]limiter.Defect{nil, {forEver}, {early, forEver}},
			`SUBJECT  NAME         LIMIT                           USED  REMAINING     RESETS IN
a        kong/minute  fixed-window:10/1m  ███░░░░░░░  3/10          0            1m
b        kong/minute  fixed-window:10/1m  ███░░░░░░░  3/10          0  !         1m
c        kong/minute  fixed-window:10/1m  ███░░░░░░░  3/10          0  !         1m
! 2 keys: no expiry, so it denies for ever
! 1 key: expires before its units have come back
! 2 keys stay so until somebody deletes them: reset --stuck does that; look first with --dry-run
`},
		{[][]limiter.Defect{{early}},
			`SUBJECT  NAME         LIMIT                           USED  REMAINING     RESETS IN
a        kong/minute  fixed-window:10/1m  ███░░░░░░░  3/10          0  !         1m
! 1 key: expires before its units have come back
`},
		{[][]limiter.Defect{nil},
			`SUBJECT  NAME         LIMIT                           USED  REMAINING  RESETS IN
a        kong/minute  fixed-window:10/1m  ███░░░░░░░  3/10          0         1m
`},
	} {
		if got := print(test.defects...); got != test.want {
			t.Errorf("got\n%s\nwant\n%s", got, test.want)
		}
	}
}

func TestStuckNeedsALayout(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{{"inspect", "*", "--stuck"}, {"reset", "*", "--stuck", "--yes"}} {
		w.run(t, exitUsage, args...)
		if text := w.err.String(); !strings.Contains(text, "--stuck finds defects of other limiters' keys; add --layout NAME, or --layout auto") {
			t.Errorf("%q says %q", args, text)
		}
	}
}
