package layers_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A denied call counts once, by its limit or its block.
func TestWhatIsCounted(t *testing.T) {
	by := func(decider store.Decider) store.Decision {
		return store.Decision{DecidedBy: decider, Unguarded: decider == store.DecidedByFailurePolicy}
	}
	allowed, block := store.Decision{Allowed: true}, by(store.DecidedByOverride)
	block.Override = &store.Override{ID: "c", Effect: store.OverrideBlock}
	blockedShadow := block
	blockedShadow.Shadow = true
	for name, test := range map[string]struct {
		op           store.Op // store.Take if it is the zero one
		decisions    []store.Decision
		withoutLocal bool
		denied       string // the limit of the denial
	}{
		"a denial":                   {decisions: []store.Decision{{}}, denied: "0"},
		"two denials":                {decisions: []store.Decision{{}, {}}, denied: "0"},
		"by the second limit":        {decisions: []store.Decision{allowed, {}}, denied: "1"},
		"a block behind a denial":    {decisions: []store.Decision{{}, block}, denied: "(block)*"},
		"a block's shadow":           {decisions: []store.Decision{blockedShadow}},
		"under an override":          {decisions: []store.Decision{{Override: &store.Override{ID: "a"}}}, denied: "0"},
		"a denial of what fits":      {op: store.TakeUpTo, decisions: []store.Decision{{}}, denied: "0"},
		"a denied charge":            {op: store.Charge, decisions: []store.Decision{{}}},
		"a denied peek":              {op: store.Peek, decisions: []store.Decision{{}}},
		"a denied refund":            {op: store.Refund, decisions: []store.Decision{{}}},
		"a remembered denial":        {decisions: []store.Decision{by(store.DecidedByDenialMemory)}, denied: "0"},
		"a denial by a lease":        {decisions: []store.Decision{by(store.DecidedByLease)}, denied: "0"},
		"a denial by a local share":  {decisions: []store.Decision{by(store.DecidedByLocal)}, denied: "0"},
		"the same, nobody waiting":   {decisions: []store.Decision{by(store.DecidedByLocal)}, withoutLocal: true},
		"a failure policy's denial":  {decisions: []store.Decision{by(store.DecidedByFailurePolicy)}},
		"a shadow's denial":          {decisions: []store.Decision{{Shadow: true}}, denied: "(shadow)0"},
		"a shadow, repeated":         {decisions: []store.Decision{{Shadow: true, Repeated: true}}},
		"a shadow's peek":            {op: store.Peek, decisions: []store.Decision{{Shadow: true}}},
		"allowed":                    {decisions: []store.Decision{allowed}},
		"allowed and a shadow's one": {decisions: []store.Decision{allowed, {Shadow: true}}, denied: "(shadow)1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			table := denying(&denyingStore{decisions: test.decisions})
			log := layers.CollectDenials(table, nil)
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
					denied += fmt.Sprint(row.Key.Name, row.Count-1)
				}
			}
			if test.denied != "" {
				test.denied += "0"
			}
			if denied != test.denied || table.closed != 1 {
				t.Errorf("%s: denied by %q, want %q", name, denied, test.denied)
			}
		})
	}
}
