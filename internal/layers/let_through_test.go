package layers_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A call is counted once for each override that applied when it took effect.
func TestWhatOverridesLetThroughIsCounted(t *testing.T) {
	a, b := &store.Override{ID: "a"}, &store.Override{ID: "b"}
	allowed := func(o *store.Override) store.Decision { return store.Decision{Allowed: true, Override: o} }
	with := func(d store.Decision, change func(d *store.Decision)) store.Decision { change(&d); return d }
	shadow := with(allowed(a), func(d *store.Decision) { d.Shadow = true })
	for name, test := range map[string]struct {
		op           store.Op // store.Take if it is the zero one
		decisions    []store.Decision
		withoutLocal bool
		want         map[string]int64
	}{
		"one limit":                {decisions: []store.Decision{allowed(a)}, want: map[string]int64{"a": 1}},
		"no override":              {decisions: []store.Decision{allowed(nil)}},
		"two limits of one":        {decisions: []store.Decision{allowed(a), allowed(nil), allowed(a)}, want: map[string]int64{"a": 1}},
		"two overrides":            {decisions: []store.Decision{allowed(b), allowed(a)}, want: map[string]int64{"a": 1, "b": 1}},
		"denied by another limit":  {decisions: []store.Decision{allowed(a), {}}},
		"denied under it":          {decisions: []store.Decision{{Override: a}}},
		"as much as fits":          {op: store.TakeUpTo, decisions: []store.Decision{allowed(a)}, want: map[string]int64{"a": 1}},
		"a peek":                   {op: store.Peek, decisions: []store.Decision{allowed(a)}},
		"a charge":                 {op: store.Charge, decisions: []store.Decision{allowed(a)}},
		"a refund":                 {op: store.Refund, decisions: []store.Decision{allowed(a)}},
		"a shadow limit":           {decisions: []store.Decision{shadow}},
		"a shadow limit and a one": {decisions: []store.Decision{shadow, allowed(a)}, want: map[string]int64{"a": 1}},
		"repeated":                 {decisions: []store.Decision{with(allowed(a), func(d *store.Decision) { d.Repeated = true })}},
		"by a failure policy":      {decisions: []store.Decision{with(allowed(a), func(d *store.Decision) { d.Unguarded = true })}},
		"by a local share": {decisions: []store.Decision{with(allowed(a), func(d *store.Decision) { d.DecidedBy = store.DecidedByLocal })},
			want: map[string]int64{"a": 1}},
		"by a local share of a process that does not wait": {withoutLocal: true,
			decisions: []store.Decision{with(allowed(a), func(d *store.Decision) { d.DecidedBy = store.DecidedByLocal })}},
		"by a lease": {decisions: []store.Decision{with(allowed(a), func(d *store.Decision) { d.DecidedBy = store.DecidedByLease })},
			want: map[string]int64{"a": 1}},
		"an ID that no store takes": {decisions: []store.Decision{allowed(&store.Override{ID: "a\x00b"}), allowed(b)},
			want: map[string]int64{"b": 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			table := &denyingStore{decisions: test.decisions}
			backend := layers.WithDenialLog(table, layers.DenialLog{WithoutLocal: test.withoutLocal})
			var reqs []store.Request
			for i := range test.decisions {
				reqs = append(reqs, store.Request{Key: store.Key{Subject: "u", Name: fmt.Sprint(i)},
					Limit: store.Limit{Count: 1, Period: time.Hour}, Cost: 3}) // units do not count
			}
			if err := backend.Decide(context.Background(), test.op, reqs, make([]store.Decision, len(reqs))); err != nil {
				t.Fatal(err)
			}
			backend.Close()
			if got := table.letThrough(); !maps.Equal(got, test.want) {
				t.Errorf("%s: let through %v, want %v", name, got, test.want)
			}
		})
	}
}

// Without a denial, a write a second has what was let through. What a write did not bring is in the next one, and what
// it may have brought is not.
func TestWhatIsLetThroughIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &denyingStore{decision: store.Decision{Allowed: true, Override: &store.Override{ID: "5y7qnswd"}}}
		backend := layers.WithDenialLog(table, layers.DenialLog{})
		check := func(when string, writes int, want int64) {
			t.Helper()
			if sum, did := table.letThrough()["5y7qnswd"], len(table.writes); did != writes || sum != want {
				t.Errorf("%s: %d writes of %d; want %d of %d", when, did, sum, writes, want)
			}
		}
		deny(t, backend, "u", 3) // which it allows
		pass(900 * time.Millisecond)
		check("at first", 0, 0)
		pass(200 * time.Millisecond)
		check("after a second", 1, 3)
		pass(time.Minute)
		check("after a rest", 1, 3)
		table.set(store.ErrUnavailable)
		deny(t, backend, "u", 4)
		pass(time.Second + time.Millisecond)
		deny(t, backend, "u", 5)
		table.set(nil)
		pass(time.Minute)
		check("after an outage", 1, 9)
		table.set(store.ErrOutcomeUnknown)
		deny(t, backend, "u", 6)
		pass(time.Second + time.Millisecond)
		table.set(nil)
		pass(time.Minute)
		check("after a lost write", 1, 0)
		if !table.writes[0].Lost {
			t.Errorf("%+v does not say that one was lost", table.writes[0])
		}
		table.set(nil)
		deny(t, backend, "u", 7)
		backend.Close()
		check("after Close", 1, 7)
	})
}

// A write has so many overrides as it may have, the others follow, and of more than can be in force none is counted
// before others have ended.
func TestWhatIsLetThroughIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &denyingStore{}
		backend := layers.WithDenialLog(table, layers.DenialLog{})
		allow := func(id string) {
			table.decision = store.Decision{Allowed: true, Override: &store.Override{ID: id}}
			deny(t, backend, "u", 1)
		}
		for i := range admin.LetThroughKept + 1 {
			allow(fmt.Sprint(i))
		}
		allow("0")
		pass(time.Minute)
		got := table.letThrough()
		if len(table.writes) != 5 || len(got) != admin.LetThroughKept || got["0"] != 2 || got[fmt.Sprint(admin.LetThroughKept)] != 0 {
			t.Errorf("%d writes of %d overrides, %v", len(table.writes), len(got), got)
		}
		table.set(nil)
		allow("new")
		pass(time.Minute)
		if got := table.letThrough(); !maps.Equal(got, map[string]int64{"new": 1}) {
			t.Errorf("when the others rest: %v", got)
		}
		backend.Close()
	})
}

// A call whose override loses its place meanwhile, among a thousand others, is counted all the same: what it adds to the
// count that is dropped says so.
func TestACountIsNotLostWithItsPlace(t *testing.T) {
	var counts layers.LetThroughCounts
	for i := range admin.LetThroughKept {
		counts.Add(fmt.Sprint(i))
	}
	for counts.Drain() > 0 { // so that all rest
	}
	late := counts.Counter("7")
	if !counts.Add("new") || counts.Counter("7") != nil {
		t.Fatal("there was no room for another one")
	}
	if late.Add(1) > 0 {
		t.Error("the late caller takes its call for counted")
	}
	if !counts.Add("7") || counts.Drain() != 2 {
		t.Error("it cannot be counted anew")
	}
}
