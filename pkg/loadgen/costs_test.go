package loadgen

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// costly is a policy with limits of these costs, each of count units.
func costly(count int64, costs ...policy.Cost) *policy.Policy {
	p := &policy.Policy{Name: "llm"}
	for i, cost := range costs {
		p.Limits = append(p.Limits, policy.Limit{
			Limit: limiter.Limit{Name: string(rune('a' + i)), Algorithm: limiter.FixedWindow, Count: count,
				Period: 366 * 24 * time.Hour},
			By:   []string{"team"},
			Cost: cost,
		})
	}
	return p
}

var (
	plain  = policy.Cost{}
	three  = policy.Cost{Units: 3}
	tokens = policy.Cost{Field: "tokens"}
)

// The cost of a load's requests is for the limit with a field, or else for the limits without their own cost.
func TestTheCostOfALoad(t *testing.T) {
	for _, test := range []struct {
		costs []policy.Cost
		want  string
	}{
		{[]policy.Cost{plain, plain}, "[5 5]"}, {[]policy.Cost{three, plain}, "[3 5]"}, {[]policy.Cost{three, tokens}, "[3 5]"},
		{[]policy.Cost{plain, tokens, tokens}, "[1 5 5]"}, {[]policy.Cost{three}, "[3]"},
	} {
		p := costly(10, test.costs...)
		population, err := NewPopulation(1, func(int) ([]store.Request,
			error) {
			return PolicyRequests(p, policy.Attributes{"team": "red"})
		})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]int64, len(test.costs))
		for i := range got {
			got[i] = costOf(population.own, i, 5)
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%v: %v, not %s", test.costs, got, test.want)
		}
	}
	_, err := PolicyRequests(costly(10, tokens, policy.Cost{Field: "bytes"}), policy.Attributes{"team": "red"})
	if !errors.Is(err, store.ErrInvalid) ||
		!strings.HasPrefix(err.Error(), `policy "llm" has the costs tokens and bytes, and the requests of a load`) {
		t.Error(err)
	}
}

// A fixed cost does not bound the cost of a load's requests.
func TestMostAtOnceIsOfTheLoadsCost(t *testing.T) {
	p := costly(10, three, tokens)
	p.Limits[1].Limit.Count = 99
	population, err := NewPopulation(1, func(int) ([]store.Request, error) { return PolicyRequests(p, policy.Attributes{"team": "red"}) })
	if err != nil || population.MostAtOnce() != 99 {
		t.Errorf("%d at once, %v", population.MostAtOnce(), err)
	}
}

// A simulation, a load test and their audits use the cost of each limit.
func TestTrialsCountEachLimitByItsCost(t *testing.T) {
	p := costly(7, policy.Cost{Units: 1}, tokens)
	p.Limits[1].Limit.Count = 100
	log := "time,team,tokens\n"
	for i := range 12 {
		log += fmt.Sprintf("%d,red,%d\n", 1_700_000_000+i, []int{30, 5}[min(i, 1)]) // 30, 5, 5, ...: the seventh is the last request
	}
	read, err := trace.Read(t.Context(), strings.NewReader(log), trace.Options{Cost: "tokens", Key: []string{"team"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, backend := range map[string]store.Store{"Go": nil, "a store": memorystore.New()} {
		var clock Clock
		options := SimulateOptions{}
		if backend != nil {
			backend = memorystore.New(memorystore.WithClock(clock.Now))
			options = SimulateOptions{Store: backend, Clock: &clock}
		}
		s, err := Simulate(t.Context(), read, UnderPolicy([]int{0}, []string{"team"}, p, &httplimit.Settings{}), options)
		if err != nil {
			t.Fatal(err)
		}
		if denied := s.Denied; denied != 5 ||
			s.Limits[0].Denied != 5 || s.Limits[1].Denied != 0 || s.AllowedBesides+s.DeniedBesides != 0 {
			t.Errorf("%s: %d denied, %+v, %d differently", name, denied, s.Limits, s.AllowedBesides+s.DeniedBesides)
		}
		for i := range s.Limits {
			if a := s.Limits[i].Audit; a.OverAdmitted != 0 || a.UnderAdmitted != 0 {
				t.Errorf("%s: the audit of limit %d says %+v", name, i, a)
			}
		}
	}
	population, err := NewPopulation(1, func(int) ([]store.Request, error) { return PolicyRequests(p, policy.Attributes{"team": "red"}) })
	if err != nil {
		t.Fatal(err)
	}
	backend := memorystore.New()
	result := Run(context.Background(), Config{Store: backend, Population: population, Mix: Mix{Evenly(1), Costs{20, 20}},
		Workers: 1, Duration: time.Hour, Requests: 10, LateAfter: time.Hour})
	if result.Allowed != 5 { // of 20 tokens, with at most 7 requests
		t.Errorf("%d allowed", result.Allowed)
	}
	decisions := make([]store.Decision, 2)
	if err := backend.Decide(t.Context(), store.Peek, population.Requests(0), decisions); err != nil || decisions[0].Used != 5 ||
		decisions[1].Used != 100 {
		t.Errorf("%+v, %v", decisions, err)
	}
	for i := range result.findings {
		if a := &result.findings[i]; a.OverAdmitted != 0 || a.UnderAdmitted != 0 {
			t.Errorf("the audit of limit %d says %+v", i, a)
		}
	}
}
