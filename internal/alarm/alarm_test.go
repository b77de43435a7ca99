package alarm

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
)

func all() map[string]Alarm {
	return map[string]Alarm{"the best": New(), "the runtime's": &plain{interrupted: make(chan struct{}, 1)}}
}

func TestWaitSleepsForAsLong(t *testing.T) {
	for name, a := range all() {
		for _, d := range []time.Duration{0, time.Nanosecond, 300 * time.Microsecond, 5 * time.Millisecond} {
			begin := time.Now()
			for left := d; left > 0; left = d - time.Since(begin) {
				a.Wait(left)
			}
			a.Wait(0) // returns, too
			if took := time.Since(begin); took < d {
				t.Errorf("%s: slept for %s instead of %s", name, took, d)
			}
		}
		begin := time.Now()
		a.Wait(20 * time.Millisecond)
		if took := time.Since(begin); took < 20*time.Millisecond {
			t.Errorf("%s: one sleep of 20ms took %s", name, took)
		}
		a.Close()
	}
}

func TestInterruptEndsAllSleeps(t *testing.T) {
	for name, a := range all() {
		begin := time.Now()
		var sleeping panics.Group
		sleeping.Go(func() {
			for range 3 {
				a.Wait(time.Hour)
			}
		})
		a.Interrupt()
		a.Interrupt()
		if err := sleeping.Wait(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("%s: three sleeps took %s", name, took)
		}
		a.Close()
	}
}
