package redisserver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A scan keeps its pace from the first key on, also after a pause: it does not catch up in a burst.
func TestThePaceAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPacer(1000)
		for _, pause := range []time.Duration{0, time.Hour, 50 * time.Millisecond} {
			time.Sleep(pause)
			begun := time.Now()
			for range 10 {
				if err := p.Wait(t.Context(), 100); err != nil {
					t.Fatal(err)
				}
			}
			wanted := 900 * time.Millisecond // the first batch comes at once
			if pause == 50*time.Millisecond {
				wanted += 50 * time.Millisecond // half of what the batch before had to wait
			}
			if took := time.Since(begun); took != wanted {
				t.Errorf("after %s, 1000 keys took %s, not %s", pause, took, wanted)
			}
		}
	})
}

// A batch is what the pace allows in a tenth of a second, and at least one key.
func TestBatchesOfAPace(t *testing.T) {
	for _, test := range []struct{ rate, most, want int }{
		{0, 500, 500}, {1000, 500, 100}, {1000, 99, 99}, {5000, 500, 500}, {4990, 500, 499}, {10, 500, 1}, {1, 500, 1},
	} {
		if got := NewPacer(test.rate).batch(test.most); got != test.want {
			t.Errorf("at %d keys a second, %d of at most %d", test.rate, got, test.most)
		}
	}
}

// Without a rate nothing waits, but the end of the context is an error in any case.
func TestAPacerEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, rate := range []int{0, 1} {
			p := NewPacer(rate)
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			begun := time.Now()
			for range 2 {
				if err := p.Wait(ctx, 100); err != nil && (rate == 0 || !errors.Is(err, context.DeadlineExceeded)) {
					t.Error(err)
				}
			}
			stop()
			if err := p.Wait(ctx, 1); err == nil {
				t.Errorf("%d keys a second: no error after the end", rate)
			}
			if took := time.Since(begun); took > time.Second || rate == 0 && took > 0 {
				t.Errorf("%d keys a second: it took %s", rate, took)
			}
		}
	})
}
