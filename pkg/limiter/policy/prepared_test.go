package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A prepared policy has for each limit the key, the limit and what is left that the policy says by itself.
func TestPreparedMakesTheRequestsOfEachLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "c", "d", "e"}
	values := []string{"x", "a b", "a:b", "2001:db8::1", "::", "%{}", "\x00\xff", "é", "203.0.113.9", "2001:db8::/64"}
	pick := func(n int) []string {
		some := slices.Clone(names)
		r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		return some[:n]
	}
	for range 5_000 {
		p := &Policy{Name: "p", HashBy: pick(r.IntN(3))}
		for i := range 1 + r.IntN(4) {
			l := Limit{Limit: limiter.Per(fmt.Sprintf("l%d", i), int64(i+1), time.Second),
				By: slices.Concat(p.HashBy, pick(r.IntN(3)))}
			l.Classes = Classes{By: names[r.IntN(5)], Of: []Class{{"x", 0}, {"é", 200_000}, {"a b", 500_000}}}
			l.Exceptions = []Exception{{Attributes{names[r.IntN(5)]: "x"}, limiter.Per("", 9, time.Second)}}
			l.Shadow = r.IntN(2) == 0
			p.Limits = append(p.Limits, l)
		}
		attributes := Attributes{}
		all, _ := p.Attributes()
		for _, name := range all {
			attributes[name] = values[r.IntN(len(values))]
		}
		want, exceptions := []store.Request{{Cost: 7}}, []int{7}
		got, applied, err := p.Prepare().AppendRequests(want, exceptions, attributes, 3)
		for i := range p.Limits {
			l := &p.Limits[i]
			limit, exception := l.For(attributes)
			want = append(want, store.Request{
				Key: p.Key(l, attributes), Limit: limit, Cost: 3, Leave: l.Leave(limit, attributes), Shadow: l.Shadow})
			exceptions = append(exceptions, exception)
		}
		if err != nil || !slices.Equal(got, want) || !slices.Equal(applied, exceptions) {
			t.Fatalf("%+v for %v makes %+v %v, not %+v %v; %v", p, attributes, got, applied, want, exceptions, err)
		}
	}
}

// If the slices have capacity, only the texts of subjects are allocated, each once.
func TestPreparedAllocatesSubjectsOnly(t *testing.T) {
	p := (&Policy{Name: "login", Limits: []Limit{
		{Limit: limiter.Per("minute", 1, time.Minute), By: []string{"ip"}},
		{Limit: limiter.Per("hour", 1, time.Hour), By: []string{"ip"}},
		{Limit: limiter.Per("user", 1, time.Hour), By: []string{"ip", "user"}},
	}}).Prepare()
	attributes := Attributes{"ip": "203.0.113.9", "user": "a"}
	reqs, overrides := make([]store.Request, 0, 3), make([]int, 0, 3)
	if n := tier.Allocations(100, func() { p.AppendRequests(reqs, overrides, attributes, 1) }); n != 2 {
		t.Errorf("%v allocations, want 2", n)
	}
}
