package loadgen

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What each scenario shows for each algorithm, and for slices, if nothing is slow.
func TestScenarios(t *testing.T) {
	limits := []string{"sliding-counter:50/2s,slices=10"}
	for _, algorithm := range store.Algorithms() {
		limits = append(limits, algorithm.String()+":50/2s")
	}
	for _, scenario := range Scenarios() {
		for _, text := range limits {
			t.Run(scenario.Name+"/"+text, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					limit := parseLimit(t, text)
					algorithm := limit.Algorithm
					time.Sleep(777 * time.Millisecond) // into a window
					setting := Setting{Limit: limit, Subjects: scenario.Subjects, ToEdge: 1223 * time.Millisecond}
					setting.Duration = scenario.Length(setting)
					r := virtual(t, Config{
						Store: &slow{Store: memorystore.New(memorystore.WithClock(time.Now)),
							takes: always(time.Millisecond)},
						Population: population(t, scenario.Subjects, limit.String()), Load: scenario.Load(setting),
						Workers:  256,
						Duration: setting.Duration,
					})
					f := r.findings[0]
					if f.OverAdmitted != 0 || f.UnderAdmitted != 0 || r.Requests == 0 || r.Dropped != 0 ||
						int(f.Keys) != scenario.Subjects {
						t.Errorf("%d requests, %d dropped: %+v", r.Requests, r.Dropped, f)
					}
					// If requests come evenly, slices let hardly more through than a log.
					if scenario.Name == "steady" && limit.Slices > 1 && f.WorstRatio > 1.1 {
						t.Errorf("the slices let %v times the limit through", f.WorstRatio)
					}
					exact := algorithm.HasBurst() || algorithm == store.SlidingLog
					switch {
					case scenario.Name == "slow-drip":
						if r.Denied != 0 || f.WorstRatio > 1 {
							t.Errorf("%d of what is below the limit was denied, worst ratio %v", r.Denied, f.WorstRatio)
						}
					case exact && f.WorstRatio != 1:
						t.Errorf("the worst ratio is %v", f.WorstRatio)
					case scenario.Name == "boundary" && algorithm == store.FixedWindow && f.WorstRatio != 2:
						t.Errorf("the window's edge lets %v times the limit through", f.WorstRatio)
					case scenario.Name == "noisy-neighbour":
						noisy := r.Tally.Of(0)
						if r.Denied != noisy.Denied || noisy.Denied < 90*noisy.Allowed/10 {
							t.Errorf("%d denied, %d of them to the noisy one, who was allowed %d", r.Denied,
								noisy.Denied, noisy.Allowed)
						}
					}
				})
			})
		}
	}
}
