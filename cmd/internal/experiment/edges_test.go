package experiment

import (
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// The edges of windows are whole periods since 1970 by the clock that decides, or those of a calendar.
func TestEdges(t *testing.T) {
	limit := func(text string) []namedLimit {
		parsed, err := store.ParseLimit(text)
		if err == nil {
			parsed, err = parsed.Normalize()
		}
		if err != nil {
			t.Fatal(err)
		}
		return []namedLimit{{limit: parsed}}
	}
	boundary, err := loadgen.ParseScenario(boundaryScenario)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Unix(1_700_000_000, 0).Add(300 * time.Millisecond)
	for _, test := range []struct {
		limit    string
		scenario *loadgen.Scenario
		length   time.Duration
		want     []int64
	}{
		{"fixed-window:10/1s", nil, 2500 * time.Millisecond, []int64{700, 1700}},
		{"sliding-counter:10/1s", nil, time.Second, []int64{700}},
		{"token-bucket:10/1s", nil, 2500 * time.Millisecond, nil},
		{"token-bucket:10/1s", &boundary, 2500 * time.Millisecond, []int64{700, 1700}},
		{"fixed-window:10/1s,from=first", nil, 2500 * time.Millisecond, nil},
		{"fixed-window:10/1s", nil, time.Hour, nil},
		{"fixed-window:10/1d,tz=Asia/Kathmandu", nil, 48 * time.Hour, []int64{72_099_700, 158_499_700}}, // begins at 03:58:20.3 there
	} {
		if got := edges(limit(test.limit), test.scenario, begin, test.length); !slices.Equal(got, test.want) {
			t.Errorf("%s for %s: %v, want %v", test.limit, test.length, got, test.want)
		}
	}
}
