package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// llm is a usual policy of a language model: calls and tokens.
func llm() *Policy {
	of := func(name string, count int64, cost Cost) Limit {
		return Limit{Limit: limiter.Per(name, count, time.Minute), By: []string{"team"}, Cost: cost}
	}
	return &Policy{Name: "llm", Limits: []Limit{
		of("requests", 60, Cost{Units: 1}), of("tokens", 100_000, Cost{Field: "tokens"}), of("calls", 10, Cost{}),
		of("again", 200_000, Cost{Field: "tokens"}), of("bytes", 1_000_000, Cost{Field: "bytes"}),
	}}
}

// Each limit has its cost, and an error about a cost names it, with a prepared policy and with one that is not.
func TestCosts(t *testing.T) {
	tokens, bytes := FieldCost{"tokens", 1}, FieldCost{"bytes", 1}
	for _, test := range []struct {
		costs []FieldCost
		want  string // the error, or the costs of the limits
	}{
		{[]FieldCost{{"bytes", 512}, {"tokens", 4000}}, "[1 4000 7 4000 512]"},
		{[]FieldCost{tokens, bytes, tokens}, `cost "tokens" is given twice; keep one`},
		{[]FieldCost{tokens, bytes, {"token", 1}},
			`unknown cost "token"; policy "llm" has tokens, bytes; did you mean tokens?`},
		{[]FieldCost{{"tokens", -1}, bytes}, `cost tokens is -1; it must be a whole number from 0 to 1000000000`},
	} {
		reqs, err := llm().Requests(Attributes{"team": "red"}, 7, test.costs...)
		got := textOf(err)
		if err == nil {
			var costs []int64
			for _, r := range reqs {
				costs = append(costs, r.Cost())
			}
			got = fmt.Sprint(costs)
		}
		if got != test.want || err != nil && !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%v: %q, not %q", test.costs, got, test.want)
		}
	}
	plain := &Policy{Name: "login", Limits: []Limit{{Limit: limiter.Per("ip", 1, time.Second), By: []string{"ip"}}}}
	if _, err := plain.Requests(Attributes{"ip": "a"}, 1, tokens); textOf(err) !=
		`unknown cost "tokens"; no limit of policy "login" has a field as its cost` {
		t.Error(err)
	}
	if _, err := llm().Requests(Attributes{"team": "red", "tokens": "1"}, 1, tokens, bytes); textOf(err) !=
		`"tokens" is a cost of policy "llm" and no attribute; give it among the costs` {
		t.Error(err)
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestParseCost(t *testing.T) {
	for text, want := range map[string]Cost{
		"1": {Units: 1}, "1000000000": {Units: store.MaxCount}, "tokens": {Field: "tokens"}, "output-tokens_2": {
			Field: "output-tokens_2"},
	} {
		got, err := ParseCost(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q is %+v (%q), %v", text, got, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "+1", "1.5", ".5", "1e3", "1000000001", "99999999999999999999",
		"3 tokens", "to kens",
		"tokens=3", "é"} {
		if got, err := ParseCost(text); !errors.Is(err, store.ErrInvalid) ||
			!strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
}

func TestParseFieldCost(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "3k": 3000, "1_000": 1000, "1000000000": store.MaxCount} {
		if got, err := ParseFieldCost("tokens", text); err != nil || got != (FieldCost{"tokens", want}) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.5", "1e3", "0x10", "1_00", "1000000001", "99999999999999999999",
		" 1", "many"} {
		if got, err := ParseFieldCost("tokens", text); !errors.Is(err, store.ErrInvalid) || textOf(err) !=
			fmt.Sprintf(`cost tokens is %q; it must be a whole number from 0 to 1000000000`, text) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	if _, err := ParseFieldCost("", "1"); !errors.Is(err, store.ErrInvalid) {
		t.Error(err)
	}
}

// CostsIn finds costs among the attributes.
func TestCostsInAttributes(t *testing.T) {
	attributes := Attributes{"team": "red", "tokens": "4000"}
	costs, err := llm().CostsIn(attributes, []FieldCost{{"bytes", 1}})
	if err != nil || fmt.Sprint(costs) != "[{bytes 1} {tokens 4000}]" || len(attributes) != 1 {
		t.Errorf("%v of %v, %v", costs, attributes, err)
	}
	if _, err := llm().CostsIn(Attributes{"tokens": "many"}, nil); !errors.Is(err, store.ErrInvalid) {
		t.Error(err)
	}
}

// A cost for all limits needs a limit that uses it. For TakeUpTo and Settle the costs have to be clear.
func TestCheckCost(t *testing.T) {
	limits := llm().Limits
	own := &Policy{Name: "own", Limits: limits[:2]}
	fixed := &Policy{Name: "fixed", Limits: limits[:1]}
	plain := &Policy{Name: "plain", Limits: limits[2:3]}
	mixed := &Policy{Name: "mixed", Limits: limits[1:3]}
	const (
		noLimit = `cost 5 is for no limit of policy "own", as each has a cost of its own; say what it is of, such as tokens=5`
		noFixed = `cost 5 is for no limit of policy "fixed", as each has a fixed cost; leave it out`
		upTo    = `what fits is one number for all limits, and limit "tokens" of policy "mixed" ` +
			`has cost: tokens; ask for exact costs instead`
		settles = `limit "calls" of policy "mixed" has no cost of its own; say its real cost, too`
		nothing = `there is nothing to settle, as each limit of policy "fixed" has a fixed cost`
	)
	for _, test := range []struct {
		p    *Policy
		op   store.Op
		said bool
		want string
	}{
		{own, store.Take, false, ""}, {own, store.Take, true, noLimit}, {own, store.Settle, false, ""},
		{own, store.Settle, true, noLimit},
		{fixed, store.Take, false, ""}, {fixed, store.Take, true, noFixed}, {fixed, store.Settle, false, nothing},
		{plain, store.Take, true, ""}, {plain, store.TakeUpTo, false, ""}, {plain, store.Settle, true, ""},
		{mixed, store.Take, true, ""}, {mixed, store.Take, false, ""}, {mixed, store.TakeUpTo, false, upTo},
		{mixed, store.Settle, false, settles}, {mixed, store.Settle, true, ""},
	} {
		if err := test.p.CheckCost(test.op, 5, test.said); textOf(err) != test.want || err != nil &&
			!errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s of %s, said %t: %v", test.op, test.p.Name, test.said, err)
		}
	}
}
