package explain

import (
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
