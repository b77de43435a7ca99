package loadgen

import (
	"context"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// fewer is the condition that fewer than a share of the requests are denied, or none.
func fewer(share float64) func(*Tally) bool {
	return func(t *Tally) bool {
		return float64(t.Denied) < share*float64((t.Allowed+t.Denied)) || t.Denied == 0
	}
}

// fewerKeys is the same for the keys that are denied.
func fewerKeys(share float64) func(*Tally) bool {
	return func(t *Tally) bool { return float64(t.KeysDenied) < share*float64(t.Keys) }
}

// A suggestion is the count that trying every count from 1 finds.
func TestSuggestionIsTheLeastCount(t *testing.T) {
	log := logOf(2000)
	recorded := readLog(t, []byte(log), trace.Options{})
	for i, promise := range []func(*Tally) bool{fewerKeys(0.1), fewer(0.01), fewer(0), fewer(0.99)} {
		for _, text := range []string{"token-bucket:1/1m", "token-bucket:1/1m,burst=60", "leaky-bucket:1/1m",
			"fixed-window:1/1m",
			"sliding-log:1/1m", "sliding-counter:1/1m"} {
			limit := parseLimit(t, text)
			got, err := Suggest(context.Background(), recorded, limit, promise, 0)
			if err != nil {
				t.Fatal(err)
			}
			count := int64(1)
			for ; ; count++ {
				s := simulate(t, recorded, UnderLimits([]int{0}, withCount(limit, count)), SimulateOptions{})
				if promise(s.Tally) {
					break
				}
			}
			if !got.Kept || got.Limit != withCount(limit, count) || !promise(got.Tally) {
				t.Errorf("promise %d of %s: %+v, want a count of %d", i, text, got, count)
			}
			if (count > 1) != (got.Below != nil) || got.Below != nil && promise(got.Below) {
				t.Errorf("promise %d of %s: one less than %d does not break it", i, text, count)
			}
		}
	}
}

func TestAPromiseNoCountKeeps(t *testing.T) {
	recorded := readLog(t, []byte("time,key,cost\n1,a,1000000000\n1,a,1000000000\n2,b,1\n"), trace.Options{})
	promise := fewer(0.01)
	for text, want := range map[string]int64{"1/1m": store.MaxCount, "sliding-log:1/1m": store.MaxSlidingLogCount,
		"1/1m,burst=5": store.MaxCount} {
		got, err := Suggest(context.Background(), recorded, parseLimit(t, text), promise, 0)
		if err != nil || got.Kept || got.Limit.Count != want || promise(got.Tally) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	// With a burst that takes a century to drain at low counts there are no such limits.
	got, err := Suggest(context.Background(), recorded, store.Limit{
		Algorithm: store.TokenBucket, Count: 1, Period: store.MaxPeriod,
		Burst: store.MaxCount}, promise, 0)
	if err != nil || got.Kept {
		t.Errorf("%+v, %v", got, err)
	}
}
