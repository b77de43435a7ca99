// Package alarm wakes goroutines more exactly than the runtime's timers do, which on Linux
// can be a millisecond late, and without a thread for each.
package alarm

import "time"

// Alarm lets one goroutine after the other sleep. Its methods but Interrupt are for one
// goroutine at a time.
type Alarm interface {
	// Wait sleeps for that long, or until the alarm is interrupted. It can return too early.
	Wait(d time.Duration)
	// Interrupt ends the sleep under way and all later ones. It is safe for concurrent use.
	Interrupt()
	// Close releases what the alarm holds. Nobody may be sleeping.
	Close()
}

// New returns the most exact Alarm that can be had here.
func New() Alarm {
	if a := newExact(); a != nil {
		return a
	}
	return &plain{interrupted: make(chan struct{}, 1)}
}

// plain is an Alarm of the runtime's timers.
type plain struct{ interrupted chan struct{} }

// Wait implements [Alarm].
func (p *plain) Wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.interrupted:
		p.Interrupt() // for the next sleep
	}
}

// Interrupt implements [Alarm].
func (p *plain) Interrupt() {
	select {
	case p.interrupted <- struct{}{}:
	default: // it is already
	}
}

// Close implements [Alarm].
func (p *plain) Close() {}
