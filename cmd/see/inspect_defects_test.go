package see

import (
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A table marks the keys with defects, and says each defect once.
func TestInspectMarksDefects(t *testing.T) {
	forEver := admin.Defect{Kind: admin.NeverExpires, Text: "no expiry, so it denies for ever", Stuck: true}
	late := admin.Defect{Kind: admin.AbsurdTTL, Text: "an expiry much later than the limit can last"}
	answer := &inspectAnswer{order: orders()["key"]}
	for i, list := range [][]admin.Defect{nil, {forEver}, {late, forEver}} {
		e := admin.Entry{Key: store.Key{Subject: string(rune('a' + i)), Name: "kong/minute"}, Layout: "kong",
			Defects: list,
			Limit:   store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute}, TTL: time.Minute}
		e.Used, e.ResetAfter = 3, time.Minute
		answer.add(&inspectRow{entry: e})
	}
	var out strings.Builder
	answer.Print(&output.Printer{Out: &out, Width: 120})
	const want = `SUBJECT  NAME         LIMIT                           USED  REMAINING     RESETS IN
a        kong/minute  fixed-window:10/1m  ███░░░░░░░  3/10          0            1m
b        kong/minute  fixed-window:10/1m  ███░░░░░░░  3/10          0  !         1m
c        kong/minute  fixed-window:10/1m  ███░░░░░░░  3/10          0  !         1m
! 2 keys: no expiry, so it denies for ever; reset --no-ttl deletes it
! 1 key: an expiry much later than the limit can last
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A key that its limiter keeps for ever on purpose resets when its units are back; one that lost its
// expiry does not say so.
func TestResetOfAKeyWithoutExpiry(t *testing.T) {
	bucket := admin.Entry{Key: store.Key{Subject: "a", Name: "bucket4j"}, Layout: "bucket4j", TTL: -1,
		Limit: store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Minute, Burst: 10}}
	bucket.Used, bucket.ResetAfter = 3, 18*time.Second
	lost := bucket
	lost.Defects = []admin.Defect{{Kind: admin.NeverExpires}}
	own := bucket
	own.Layout = ""
	for _, test := range []struct {
		name  string
		entry admin.Entry
		want  string
	}{{"on purpose", bucket, "18s"}, {"lost", lost, "no TTL"}, {"limitctl's own", own, "no TTL"}} {
		if got := resetText(&test.entry).Text; got != test.want {
			t.Errorf("%s: resets in %q, want %q", test.name, got, test.want)
		}
	}
}
