package override

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Denials count for the override that applies, and not from before it was set. What it let through is its own.
func TestWhatOverridesDoNow(t *testing.T) {
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
		row("user:1", 90, 0), row("was:1", 90, time.Second+time.Microsecond)},
		LetThrough: []admin.LetThrough{{Override: "times", Count: 3600}, {Override: "before", Count: 90},
			{Override: "fresh", Count: 8}, {Override: "revoked", Count: 5}}}
	for _, test := range []struct {
		others   int64
		lost     bool
		id, cell string
		rate     float64
		known    bool
		text     string
	}{
		{id: "block", cell: "denies 50/s", rate: 50, known: true},
		{id: "times", cell: "lets through 40/s, denies 1.0/s", rate: 1, known: true},
		{id: "fresh", cell: "lets through >0/s, denies >0/s"},
		{id: "idle", cell: "-", known: true},
		{id: "before", cell: "lets through ≥1.0/s", known: true}, // since it was set
		{id: "block", others: 1, cell: "denies ≥50/s", rate: 50, known: true},
		{id: "times", others: 1, cell: "lets through 40/s, denies ≥1.0/s", rate: 1, known: true},
		{id: "times", lost: true, cell: "lets through ≥40/s, denies ≥1.0/s", rate: 1, known: true},
	} {
		denials.Others, denials.Lost = test.others, test.lost
		tr := trafficOf(denials, overrides)
		if test.text = test.cell; test.text == "-" {
			test.text = ""
		}
		rate, known := tr.rate(test.id)
		if rate != test.rate || known != test.known || tr.cell(test.id) != test.cell || tr.text(test.id) != test.text {
			t.Errorf("%s: %g, %v, %q, %q; want %+v", test.id, rate, known, tr.cell(test.id), tr.text(test.id), test)
		}
	}
	few := trafficOf(&admin.Denials{Now: instant(now), Rows: []admin.Denied{row("ip:1", 8, 0)}}, overrides)
	some := trafficOf(&admin.Denials{Now: instant(now), Rows: []admin.Denied{row("ip:1", 9, 0)}}, overrides)
	if few.cell("block") != "denies <0.1/s" || some.cell("block") != "denies 0.1/s" {
		t.Errorf("few are %q and %q", few.cell("block"), some.cell("block"))
	}
	// What a block has denied that was ended since is of no override that applies now.
	blocked := row("ip:1", 90, time.Second)
	blocked.Blocked, blocked.Override = 90, "ended"
	mixed := row("tenant:a", 180, time.Second)
	mixed.Blocked, mixed.Override = 90, "ended"
	own := row("user:1", 90, time.Second)
	own.Blocked, own.Override = 90, "fresh"
	ended := trafficOf(&admin.Denials{Now: instant(now), Rows: []admin.Denied{blocked, mixed, own}}, overrides)
	if ended.cell("block") != "-" || ended.cell("times") != "denies 1.0/s" || ended.cell("fresh") != "denies >0/s" {
		t.Errorf("after a block: %q, %q, %q", ended.cell("block"), ended.cell("times"), ended.cell("fresh"))
	}
	fresh := trafficOf(&admin.Denials{Now: instant(now), Rows: []admin.Denied{blocked}},
		[]store.Override{set("fresh", "ip:*", store.OverrideTimes, time.Minute)})
	if fresh.cell("fresh") != "-" {
		t.Errorf("an override set before an unblock: %q", fresh.cell("fresh"))
	}
	var none traffic
	if none.cell("block") != "?" || none.text("block") != "" {
		t.Errorf("unread it is %q, %q", none.cell("block"), none.text("block"))
	}
}
