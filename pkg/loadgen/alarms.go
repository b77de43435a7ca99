package loadgen

import (
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/alarm"
)

// alarms are the alarms with which workers sleep.
type alarms struct {
	nap         func(time.Duration) // if set, sleeps instead of them
	all, free   []alarm.Alarm
	interrupted bool
}

// take returns an alarm that is not in use.
func (a *alarms) take() alarm.Alarm {
	if last := len(a.free) - 1; last >= 0 {
		taken := a.free[last]
		a.free = a.free[:last]
		return taken
	}
	var opened alarm.Alarm
	if opened = nap(a.nap); a.nap == nil {
		opened = alarm.New()
	}
	if a.interrupted {
		opened.Interrupt()
	}
	a.all = append(a.all, opened)
	return opened
}

// give returns an alarm to the free ones.
func (a *alarms) give(taken alarm.Alarm) { a.free = append(a.free, taken) }

// interrupt ends all sleeps, now and later.
func (a *alarms) interrupt() {
	a.interrupted = true
	for _, each := range a.all {
		each.Interrupt()
	}
}

// close releases all alarms. None may be in use.
func (a *alarms) close() {
	for _, each := range a.all {
		each.Close()
	}
}

// nap is an alarm that sleeps with a function, for tests.
type nap func(time.Duration)

// longestNap is the longest time until a nap notices an interrupt.
const longestNap = 50 * time.Millisecond

// Wait implements [alarm.Alarm].
func (n nap) Wait(d time.Duration) { n(min(d, longestNap)) }

// Interrupt implements [alarm.Alarm].
func (n nap) Interrupt() {}

// Close implements [alarm.Alarm].
func (n nap) Close() {}

// pulse measures how late this machine is at present: how late a goroutine wakes that has nothing else to do.
type pulse struct {
	lag   atomic.Int64 // nanoseconds
	ended atomic.Bool
	alarm alarm.Alarm
}

// pulseEvery is the time between two measurements.
const pulseEvery = 10 * time.Millisecond

// feel measures until end is called.
func (p *pulse) feel() {
	for begin := time.Now(); !p.ended.Load(); begin = time.Now() {
		p.alarm.Wait(pulseEvery)
		p.lag.Store(max(0, int64(time.Since(begin)-pulseEvery)))
	}
}

func (p *pulse) end() {
	p.ended.Store(true)
	p.alarm.Interrupt()
}
