package override

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Denials count for the override that applies, and not from before it was set.
func TestWhatOverridesDenyNow(t *testing.T) {
	now := hour.Add(30 * time.Second)
	over := 90 * time.Second // the last minute, and the part of the one before
	instant := func(at time.Time) store.Instant { return store.Instant(at.UnixMicro()) }
	set := func(id, subjects string, effect store.OverrideEffect, ago time.Duration) store.Override {
		o := made(t, id, subjects, effect)
		o.CreatedAt = now.Add(-ago)
		return o
	}
	overrides := []store.Override{
		set("block", "ip:*", store.OverrideBlock, over),
		set("times", "*", store.OverrideTimes, time.Hour),
		set("fresh", "user:*", store.OverrideBlock, over-time.Millisecond),
		set("idle", "nobody:*", store.OverrideBlock, time.Hour),
		set("before", "was:*", store.OverrideBlock, time.Second),
	}
	row := func(subject string, count int64, ago time.Duration) admin.Denied {
		return admin.Denied{Key: store.Key{Subject: subject, Name: "n"}, Count: count, LastAt: instant(now.Add(-ago))}
	}
	denials := &admin.Denials{Now: instant(now), Rows: []admin.Denied{row("ip:1", 3600, 0), row("ip:2", 900, time.Second),
		row("tenant:a", 90, 0),
		row("user:1", 90, 0), row("was:1", 90, time.Second+time.Microsecond)}}
	for _, test := range []struct {
		others   int64
		id, cell string
		rate     float64
		known    bool
		text     string
	}{
		{id: "block", cell: "50", rate: 50, known: true, text: "50 denied a second"},
		{id: "times", cell: "1.0", rate: 1, known: true, text: "1.0 denied a second"},
		{id: "fresh", cell: ">0", text: ">0 denied a second"},
		{id: "idle", cell: "-", known: true},
		{id: "before", cell: "-", known: true},
		{id: "block", others: 1, cell: "≥50", rate: 50, known: true, text: "≥50 denied a second"},
	} {
		denials.Others = test.others
		tr := trafficOf(denials, overrides)
		rate, known := tr.rate(test.id)
		if rate != test.rate || known != test.known || tr.cell(test.id) != test.cell || tr.text(test.id) != test.text {
			t.Errorf("%s: %g, %v, %q, %q; want %+v", test.id, rate, known, tr.cell(test.id), tr.text(test.id), test)
		}
	}
	few := trafficOf(&admin.Denials{Now: instant(now), Rows: []admin.Denied{row("ip:1", 8, 0)}}, overrides)
	some := trafficOf(&admin.Denials{Now: instant(now), Rows: []admin.Denied{row("ip:1", 9, 0)}}, overrides)
	if few.cell("block") != "<0.1" || some.cell("block") != "0.1" {
		t.Errorf("few are %q and %q", few.cell("block"), some.cell("block"))
	}
	var none traffic
	if none.cell("block") != "?" || none.text("block") != "" {
		t.Errorf("unread it is %q, %q", none.cell("block"), none.text("block"))
	}
}
