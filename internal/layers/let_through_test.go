package layers_test

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A denial counts by its limit, and a call that was let through once for each override that had an effect.
func TestWhatIsCounted(t *testing.T) {
	a, b := &store.Override{ID: "a"}, &store.Override{ID: "b"}
	let := func(o *store.Override) store.Decision { return store.Decision{Allowed: true, Override: o} }
	by := func(decider store.Decider, o *store.Override) store.Decision {
		unguarded := decider == store.DecidedByFailurePolicy
		return store.Decision{Allowed: o != nil && o.Effect != store.OverrideBlock, Override: o, DecidedBy: decider, Unguarded: unguarded}
	}
	shadow := store.Decision{Allowed: true, Override: a, Shadow: true}
	block := &store.Override{ID: "c", Effect: store.OverrideBlock}
	blockedShadow := store.Decision{Shadow: true, Override: block, DecidedBy: store.DecidedByOverride}
	once := map[string]int64{"a": 1}
	for name, test := range map[string]struct {
		op           store.Op // store.Take if it is the zero one
		decisions    []store.Decision
		withoutLocal bool
		denied       string // the limit of the denial
		let          map[string]int64
	}{
		"a denial":                              {decisions: []store.Decision{{}}, denied: "0"},
		"two denials":                           {decisions: []store.Decision{{}, {}}, denied: "0"},
		"a block behind a denial":               {decisions: []store.Decision{{}, by(store.DecidedByOverride, block)}, denied: "(block)*"},
		"a block's shadow":                      {decisions: []store.Decision{blockedShadow}},
		"a denial of what fits":                 {op: store.TakeUpTo, decisions: []store.Decision{{}}, denied: "0"},
		"a denied charge":                       {op: store.Charge, decisions: []store.Decision{{}}},
		"a denied peek":                         {op: store.Peek, decisions: []store.Decision{{}}},
		"a denied refund":                       {op: store.Refund, decisions: []store.Decision{{}}},
		"a remembered denial":                   {decisions: []store.Decision{by(store.DecidedByDenialMemory, nil)}, denied: "0"},
		"a denial by a lease":                   {decisions: []store.Decision{by(store.DecidedByLease, nil)}, denied: "0"},
		"a denial by a local share":             {decisions: []store.Decision{by(store.DecidedByLocal, nil)}, denied: "0"},
		"a failure policy's denial":             {decisions: []store.Decision{by(store.DecidedByFailurePolicy, nil)}},
		"a shadow's denial":                     {decisions: []store.Decision{{Shadow: true}}, denied: "(shadow)0"},
		"a shadow, repeated":                    {decisions: []store.Decision{{Shadow: true, Repeated: true}}},
		"a shadow's peek":                       {op: store.Peek, decisions: []store.Decision{{Shadow: true}}},
		"allowed":                               {decisions: []store.Decision{let(nil)}},
		"under an override":                     {decisions: []store.Decision{let(a)}, let: once},
		"two limits of one":                     {decisions: []store.Decision{let(a), let(nil), let(a)}, let: once},
		"two overrides":                         {decisions: []store.Decision{let(b), let(a)}, let: map[string]int64{"a": 1, "b": 1}},
		"denied by another limit":               {decisions: []store.Decision{let(a), {}}, denied: "1"},
		"denied under it":                       {decisions: []store.Decision{{Override: a}}, denied: "0"},
		"as much as fits":                       {op: store.TakeUpTo, decisions: []store.Decision{let(a)}, let: once},
		"a peek":                                {op: store.Peek, decisions: []store.Decision{let(a)}},
		"a charge":                              {op: store.Charge, decisions: []store.Decision{let(a)}},
		"a refund":                              {op: store.Refund, decisions: []store.Decision{let(a)}},
		"a shadow limit":                        {decisions: []store.Decision{shadow}},
		"a shadow limit and a one":              {decisions: []store.Decision{shadow, let(a)}, let: once},
		"repeated":                              {decisions: []store.Decision{{Allowed: true, Override: a, Repeated: true}}},
		"by a failure policy":                   {decisions: []store.Decision{by(store.DecidedByFailurePolicy, a)}},
		"by a lease":                            {decisions: []store.Decision{by(store.DecidedByLease, a)}, let: once},
		"by a local share":                      {decisions: []store.Decision{by(store.DecidedByLocal, a)}, let: once},
		"by a local share, with nobody waiting": {decisions: []store.Decision{by(store.DecidedByLocal, a)}, withoutLocal: true},
		"an ID of no store":                     {decisions: []store.Decision{let(&store.Override{ID: "a\x00b"}), let(a)}, let: once},
	} {
		synctest.Test(t, func(t *testing.T) {
			table := denying(&denyingStore{decisions: test.decisions})
			log := layers.CollectDenials(table, store.DenialLog{}, nil)
			log.WithoutLocal = test.withoutLocal
			backend := layers.Stack(table, layers.Layers{DenialLog: log})
			var reqs []store.Request
			for i, d := range test.decisions {
				reqs = append(reqs, store.Request{Key: store.Key{Subject: "u", Name: fmt.Sprint(i)}, Shadow: d.Shadow,
					Limit: store.Limit{Count: 1, Period: time.Hour}, Cost: 3}) // units do not count
			}
			decide(t, backend, test.op, reqs...)
			backend.Close()
			denied := ""
			for _, write := range table.written() {
				for _, row := range write.Rows {
					denied += row.Key.Name
				}
			}
			if got := table.letThrough(); !maps.Equal(got, test.let) || denied != test.denied || table.closed != 1 {
				t.Errorf("%s: let through %v, want %v; denied by %q, want %q", name, got, test.let, denied, test.denied)
			}
		})
	}
}

// A write has so many overrides as it may have, the others follow, and of more than can be in force none is counted
// before others have ended.
func TestWhatIsLetThroughIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := denying(&denyingStore{})
		backend := withDenialLog(table)
		allow := func(id string) {
			table.decision = store.Decision{Allowed: true, Override: &store.Override{ID: id}}
			deny(t, backend, "u", 1)
		}
		for i := range admin.MaxOverrides + 1 {
			allow(fmt.Sprint(i))
		}
		allow("0")
		pass(time.Minute)
		got := table.letThrough()
		if len(table.written()) != 5 || len(got) != admin.MaxOverrides || got["0"] != 2 || got[fmt.Sprint(admin.MaxOverrides)] != 0 {
			t.Errorf("%d writes of %d overrides, %v", len(table.written()), len(got), got)
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

// What a write did not bring is in the next one, and what it brought or may have brought is not.
func TestWhatIsLetThroughIsWrittenOnce(t *testing.T) {
	for err, want := range map[error]int64{nil: 0, store.ErrUnavailable: 3, store.ErrOutcomeUnknown: 0} {
		synctest.Test(t, func(t *testing.T) {
			table := denying(&denyingStore{decision: store.Decision{Allowed: true, Override: &store.Override{ID: "a"}}})
			backend := withDenialLog(table)
			table.set(err)
			deny(t, backend, "u", 3) // which it allows
			pass(time.Second + time.Millisecond)
			if got := table.letThrough()["a"]; got != 3 {
				t.Errorf("%v: the first write has %d", err, got)
			}
			table.set(nil)
			pass(time.Minute)
			backend.Close()
			if got := table.letThrough()["a"]; got != want {
				t.Errorf("%v: written later: %d, want %d", err, got, want)
			}
			if lost := len(table.written()) > 0 && table.written()[0].Lost; lost != (err == store.ErrOutcomeUnknown) {
				t.Errorf("%v: it says that a write was lost: %t", err, lost)
			}
		})
	}
}
