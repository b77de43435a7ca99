package loadgen

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
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
		{[]policy.Cost{plain, plain}, "[5 5]"}, {[]policy.Cost{three, plain}, "[3 5]"},
		{[]policy.Cost{three, tokens}, "[3 5]"},
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
	population, err := NewPopulation(
		1, func(int) ([]store.Request, error) { return PolicyRequests(p, policy.Attributes{"team": "red"}) })
	if err != nil || population.MostAtOnce() != 99 {
		t.Errorf("%d at once, %v", population.MostAtOnce(), err)
	}
}
