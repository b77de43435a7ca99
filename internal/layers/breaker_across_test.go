package layers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A call over several shards, between two failures of one of them. Two in a row open its breaker.
func TestWhatACallOverSeveralShardsSays(t *testing.T) {
	gaveUp := fmt.Errorf("%w: context deadline exceeded", store.ErrGaveUp)
	refused := fmt.Errorf("%w: no rights", store.ErrRefused)
	for name, test := range map[string]struct {
		sick    error // of the shard
		took    time.Duration
		unnamed bool
		opens   int // the call that opens the breaker; 0 for none
	}{
		"an answer in time":                        {took: time.Second, opens: 0},
		"an answer that is slow":                   {took: time.Second + time.Nanosecond, opens: 3},
		"a refusal in time":                        {sick: refused, took: time.Second, opens: 0},
		"a refusal that is slow":                   {sick: refused, took: time.Second + time.Nanosecond, opens: 2},
		"a refusal without a shard":                {sick: refused, unnamed: true, opens: 3},
		"a caller that gave up in time":            {sick: gaveUp, took: time.Second, opens: 3},
		"a caller that gave up later":              {sick: gaveUp, took: time.Second + time.Nanosecond, opens: 2},
		"a caller that gave up, without a shard":   {sick: gaveUp, took: time.Minute, unnamed: true, opens: 3},
		"a failure":                                {sick: errAway, opens: 2},
		"a failure without a shard":                {sick: errAway, unnamed: true, opens: 3},
		"a failure without a shard, after minutes": {sick: errAway, took: time.Hour, unnamed: true, opens: 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFusedShards(layers.Breaker{Failures: 2, Slow: time.Second})
			f.change(func() { f.sick["a"] = errAway })
			f.take("a1")
			f.change(func() {
				f.sick["a"], f.took["a"], f.unnamed = test.sick, test.took, test.unnamed
				if test.sick == nil {
					delete(f.sick, "a")
				}
			})
			f.take("b1", "a1")
			opened := 0
			if len(f.changes) > 0 {
				opened = 2
			}
			f.change(func() { f.sick["a"], f.took["a"], f.unnamed = errAway, 0, false })
			f.take("a1")
			if opened == 0 && len(f.changes) > 0 {
				opened = 3
			}
			if opened != test.opens {
				t.Errorf("it opened with call %d, want %d", opened, test.opens)
			}
		})
	}
}

// The result of a call over several shards counts for the epoch in which it began.
func TestACallOverSeveralShardsIsOfItsTime(t *testing.T) {
	for name, ends := range map[string]func(f *fusedShards){
		"with a failure":           func(f *fusedShards) { f.sick["a"] = errAway },
		"with an answer that lags": func(f *fusedShards) { f.sick["a"] = errAway; f.skips = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFusedShards(layers.Breaker{Failures: 2, Pause: time.Second, Slow: time.Hour})
				hold := make(chan struct{})
				f.change(func() { ends(f); f.hold["a"] = hold })
				go f.take("b1", "a1")
				synctest.Wait()
				f.change(func() { delete(f.hold, "a"); f.sick["a"], f.skips = errAway, false })
				f.take("a1")
				f.take("a1")
				f.want(t, "a", layers.BreakerClosed, layers.BreakerOpen)
				f.change(func() { delete(f.sick, "a"); f.now = f.now.Add(time.Second) })
				f.take("a1")
				f.want(t, "a", layers.BreakerOpen, layers.BreakerHalfOpen)
				f.want(t, "a", layers.BreakerHalfOpen, layers.BreakerClosed)
				f.change(func() { f.skips = name != "with a failure" })
				close(hold)
				synctest.Wait()
				f.quiet(t) // one failure in the new epoch would open it again
				f.change(func() { f.sick["a"], f.skips = errAway, false })
				f.take("a1")
				f.want(t, "a", layers.BreakerClosed, layers.BreakerOpen)
			})
		})
	}
}

// The error is about the first shard of the call that is away. An invalid call, and a caller whose own time is over,
// get their own errors.
func TestTheFirstShardThatIsAwayIsTold(t *testing.T) {
	f := newFusedShards(layers.Breaker{Failures: 1})
	f.change(func() { f.sick["a"], f.sick["c"] = errAway, errUnknown })
	f.take("a1")
	f.take("c1")
	for _, order := range [][]string{{"b1", "a1", "c1"}, {"a1", "b1", "c1"}, {"c1", "a1"}} {
		want := "no route"
		if order[0] == "c1" {
			want = "cut off"
		}
		if err := f.take(order...); !isOpen(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", order, err, want)
		}
	}
	limit := store.Limit{Count: 1, Period: time.Hour}
	reqs := []store.Request{
		{Key: store.Key{Subject: "a1"}, Limit: limit, Cost: 1},
		{Key: store.Key{Subject: "c1"}, Limit: limit, Cost: -1},
	}
	if err := f.Store.Decide(t.Context(), store.Take, reqs, make([]store.Decision, 2)); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a mistake is told as %v", err)
	}
	reqs[1].Cost = 1
	left, leave := context.WithCancel(t.Context())
	leave()
	if err := f.Store.Decide(left, store.Take, reqs, make([]store.Decision, 2)); !errors.Is(err, store.ErrGaveUp) {
		t.Errorf("a caller that left is told %v", err)
	}
}
