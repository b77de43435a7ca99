package experiment

import (
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// However the attributes of the limits overlap, each limit has keys that ask for more than it
// allows, though every other limit keeps what it admits.
func TestEachLimitOfAPolicyIsExercised(t *testing.T) {
	perMinute := func(count int64) store.Limit {
		return store.Limit{Algorithm: store.FixedWindow, Count: count, Period: time.Minute, Burst: count}
	}
	for _, test := range []struct {
		name   string
		limits []policy.Limit
		keys   int
	}{
		{"two attributes", []policy.Limit{{Limit: limiter.LimitOf("", perMinute(10)), By: []string{"ip"}},
			{Limit: limiter.LimitOf("", perMinute(5)), By: []string{"email"}}}, 10},
		{"the other one is tighter", []policy.Limit{{Limit: limiter.LimitOf("", perMinute(5)), By: []string{"ip"}},
			{Limit: limiter.LimitOf("", perMinute(20)), By: []string{"email"}}}, 20},
		{"one within the other", []policy.Limit{{Limit: limiter.LimitOf("", perMinute(100)), By: []string{"tenant"}},
			{Limit: limiter.LimitOf("", perMinute(10)), By: []string{"tenant", "user"}}}, 50},
		{"two by the same", []policy.Limit{
			{Limit: limiter.LimitOf("", perMinute(30)), By: []string{"ip"}},
			{Limit: limiter.LimitOf("", perMinute(10)), By: []string{"ip"}},
			{Limit: limiter.LimitOf("", perMinute(5)), By: []string{"email"}}}, 40},
	} {
		c := &Candidate{Policy: &policy.Policy{Name: "p"}}
		for i, l := range test.limits {
			l.Name = fmt.Sprint("l", i)
			c.Policy.Limits = append(c.Policy.Limits, l)
		}
		all, err := c.madeUp(test.keys)
		if err != nil {
			t.Fatal(err)
		}
		// Everybody asks for as much as any limit allows, a unit at a time and in turns.
		used := make([]map[store.Key]int64, len(test.limits))
		reached := make([]bool, len(test.limits))
		for i := range used {
			used[i] = map[store.Key]int64{}
		}
		for range 200 {
			for subject := range uint32(test.keys) {
				fits := true
				requests := all.Requests(subject)
				for i := range requests {
					if used[i][requests[i].Key] >= test.limits[i].Limit.Count {
						fits, reached[i] = false, true
					}
				}
				for i := range requests {
					if fits {
						used[i][requests[i].Key]++
					}
				}
			}
		}
		for i, is := range reached {
			// The greater of two limits by the same attributes is never reached in one period.
			if !is && test.name != "two by the same" {
				t.Errorf("%s: limit %d of %v is not reached", test.name, i, test.limits[i].By)
			}
		}
		if !reached[len(reached)-1] {
			t.Errorf("%s: the last limit is not reached", test.name)
		}
	}
}
