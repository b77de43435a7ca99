package explain

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A request that waits overlaps all that others send meanwhile, not only the next one.
func TestOverlaps(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(1_000_000 + int64(ms)) }
	for name, test := range map[string]struct {
		times [][2]int // sent and answered, in ms
		want  []bool
	}{
		"one after the other":       {[][2]int{{0, 1}, {1, 2}, {2, 3}}, []bool{false, false, false}},
		"two at once":               {[][2]int{{0, 2}, {1, 3}, {4, 5}}, []bool{true, true, false}},
		"one waits":                 {[][2]int{{0, 10}, {1, 2}, {3, 4}, {5, 6}, {10, 11}}, []bool{true, true, true, true, false}},
		"one waits, listed at last": {[][2]int{{1, 2}, {3, 4}, {0, 10}}, []bool{true, true, true}},
	} {
		events := make([]*Event, len(test.times))
		for i, t := range test.times {
			events[i] = &Event{Answer: endpoint.Answer{Sent: at(t[0]), Answered: at(t[1]), Outcome: endpoint.Allowed}}
			events[i].Cost = 1
		}
		expected := Expectation{Model: Model{Limit: store.Limit{Algorithm: store.TokenBucket, Count: 100, Period: time.Hour}}}
		var got []bool
		for _, v := range expected.Judge(events, true).Views {
			got = append(got, v.Overlaps)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// A subject that is asked across the end of a window is judged by what can have been used before and after it: which of its
// requests came before the end is not known.
func TestAWindowEndsWhileASubjectIsAsked(t *testing.T) {
	limit, err := store.Limit{Algorithm: store.FixedWindow, Count: 20, Period: 2 * time.Second}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	expected := Expectation{Model: Model{Limit: limit}, Resolution: Resolution}
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(3, seed))
		travel := func() time.Duration {
			return time.Duration(random.Float64() * random.Float64() * float64(2*time.Millisecond))
		}
		end := time.Unix(1_700_000_000, 0)
		now := end.Add(-time.Duration(random.Int64N(int64(20 * time.Millisecond))))
		var state store.State
		var events []*Event
		for denied := 0; denied < 3; {
			e := &Event{Cost: 1, Answer: endpoint.Answer{Sent: now, Outcome: endpoint.Allowed}}
			now = now.Add(travel())
			request, decision := store.Request{Limit: limit, Cost: 1}, store.Decision{}
			store.DecideOne(store.Take, &request, &state, &decision, store.InstantOf(now))
			if !decision.Allowed {
				e.Outcome = endpoint.Denied
				denied++
			}
			now = now.Add(travel())
			e.Answered = now
			events = append(events, e)
		}
		j := expected.Judge(events, true)
		if j.Over+j.Under > 0 {
			t.Errorf("seed %d: %d too many, %d too few", seed, j.Over, j.Under)
		}
		straddling := 0
		for _, e := range events {
			if e.Sent.Before(end.Add(Resolution)) && e.Answered.After(end.Add(-Resolution)) {
				straddling++
			}
		}
		more := expected
		more.Limit.Count += int64(straddling) + 1
		if j = more.Judge(events, true); j.Under == 0 {
			t.Errorf("seed %d: what a limit of %d denies too early is not seen", seed, more.Limit.Count)
		}
	}
}
