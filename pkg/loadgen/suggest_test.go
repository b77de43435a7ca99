package loadgen

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

func TestPromises(t *testing.T) {
	var tally Tally
	for subject := range uint32(200) {
		tally.Add(subject, subject >= 3)
		tally.Add(subject, true)
	}
	for text, want := range map[string]struct {
		kept   bool
		actual string
	}{
		"denied_keys<1%": {false, "1.5%"}, "denied_keys<1.5%": {false, "1.5%"}, "denied_keys<=1.5%": {true, "1.5%"}, "denied_keys < 1.6 %": {true, "1.5%"},
		"denied<1%": {true, "0.75%"}, "denied<0.75%": {false, "0.75%"}, "denied<3": {false, "3"}, "denied<=3": {true, "3"}, "denied_keys<4": {true, "3"},
		"denied<=0": {false, "3"},
	} {
		p, err := ParsePromise(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if p.Kept(&tally) != want.kept || p.Actual(&tally) != want.actual || p.String() != text {
			t.Errorf("%s: kept %v at %s", p, p.Kept(&tally), p.Actual(&tally))
		}
	}
	for _, text := range []string{"", "denied", "denied<", "denied>1%", "keys<1%", "denied<one", "denied<-1", "denied<NaN", "denied<Inf", "denied<0", "denied<0%", "denied<1%%"} {
		if _, err := ParsePromise(text); !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A suggestion is what trying every count from 1 on finds.
func TestSuggestionIsTheLeastCount(t *testing.T) {
	log := logOf(2000)
	recorded := readLog(t, []byte(log), trace.Options{})
	for _, promised := range []string{"denied_keys<10%", "denied<1%", "denied<=0", "denied<99%"} {
		promise, err := ParsePromise(promised)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"token-bucket:1/1m", "token-bucket:1/1m,burst=60", "leaky-bucket:1/1m", "fixed-window:1/1m", "sliding-log:1/1m", "sliding-counter:1/1m"} {
			limit := parseLimit(t, text)
			got, err := Suggest(context.Background(), recorded, limit, promise, 0)
			if err != nil {
				t.Fatal(err)
			}
			count := int64(1)
			for ; ; count++ {
				s := simulate(t, recorded, UnderLimit(withCount(limit, count), 0), SimulateOptions{})
				if promise.Kept(&s.Tally) {
					break
				}
			}
			if !got.Kept || got.Limit != withCount(limit, count) || !promise.Kept(got.Tally) {
				t.Errorf("%s of %s: %+v, want a count of %d", promise, text, got, count)
			}
			if (count > 1) != (got.Below != nil) || got.Below != nil && promise.Kept(got.Below) {
				t.Errorf("%s of %s: one less than %d does not break it", promise, text, count)
			}
		}
	}
}

func TestAPromiseNoCountKeeps(t *testing.T) {
	recorded := readLog(t, []byte("time,key,cost\n1,a,1000000000\n1,a,1000000000\n2,b,1\n"), trace.Options{})
	promise, err := ParsePromise("denied<1%")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int64{"1/1m": limiter.MaxCount, "sliding-log:1/1m": limiter.MaxSlidingLogCount, "1/1m,burst=5": limiter.MaxCount} {
		got, err := Suggest(context.Background(), recorded, parseLimit(t, text), promise, 0)
		if err != nil || got.Kept || got.Limit.Count != want || promise.Kept(got.Tally) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	// A burst that takes a century to drain at small counts has no such limits.
	got, err := Suggest(context.Background(), recorded, limiter.Limit{Algorithm: limiter.TokenBucket, Count: 1, Period: limiter.MaxPeriod, Burst: limiter.MaxCount}, promise, 0)
	if err != nil || got.Kept {
		t.Errorf("%+v, %v", got, err)
	}
}
