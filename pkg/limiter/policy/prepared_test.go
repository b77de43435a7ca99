package policy

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A prepared policy makes the same requests and errors as the policy, for any attributes.
func TestPreparedMakesTheSameRequests(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "c", "d", "e"}
	values := []string{"", "x", "a b", "a:b", "2001:db8::1", "::", "%{}", "\x00\xff", "é", "203.0.113.9", "2001:db8::/64"}
	pick := func(n int) []string {
		some := append([]string{}, names...)
		r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		return some[:n]
	}
	accepted := 0
	for range 20_000 {
		p := &Policy{Name: "p"}
		if r.IntN(2) == 0 {
			p.HashBy = pick(1 + r.IntN(2))
		}
		for i := range 1 + r.IntN(4) {
			by := append(append([]string{}, p.HashBy...), pick(1+r.IntN(2))...)
			if len(p.HashBy) > 0 && r.IntN(2) == 0 {
				by = p.HashBy
			}
			l := Limit{
				Limit: limiter.Limit{Name: fmt.Sprintf("l%d", i), Count: int64(i + 1), Period: time.Second,
					Shadow: r.IntN(2) == 0},
				By: by,
			}
			if r.IntN(2) == 0 {
				l.Classes = Classes{By: names[r.IntN(5)], Of: []Class{{"x", 0}, {"é", 200_000}, {"a b", 500_000}}}
			}
			if r.IntN(2) == 0 {
				when := Attributes{names[r.IntN(5)]: "x"}
				l.Exceptions = []Exception{{When: when, Limit: limiter.Per("", 9, time.Second)}}
			}
			p.Limits = append(p.Limits, l)
		}
		attributes := Attributes{}
		some := pick(r.IntN(6))
		if r.IntN(2) == 0 {
			some, _ = p.Attributes()
		}
		for _, name := range some {
			attributes[name] = values[r.IntN(len(values))]
		}
		want, wantExceptions, wantErr := p.RequestsWithExceptions(attributes, 3)
		before, beforeOverrides := []store.Request{{Cost: 7}}, []int{7}
		got, overrides, err := p.Prepare().AppendRequests(before, beforeOverrides, attributes, 3)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%+v for %v: the error is %v, not %v", p, attributes, err, wantErr)
		}
		if err == nil {
			accepted++
		}
		if !reflect.DeepEqual(got, append(before, want...)) || !reflect.DeepEqual(overrides, append(beforeOverrides, wantExceptions...)) {
			t.Fatalf("%+v for %v makes %+v %v, not %+v %v", p, attributes, got, overrides, want, wantExceptions)
		}
	}
	if accepted < 1000 {
		t.Errorf("%d made requests", accepted)
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
	if n := testing.AllocsPerRun(100, func() { p.AppendRequests(reqs, overrides, attributes, 1) }); n != 2 {
		t.Errorf("%v allocations, want 2", n)
	}
}
