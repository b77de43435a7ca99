// Package alarm wakes goroutines more exactly than the runtime's timers, which on Linux can be a millisecond late,
// and without a thread for each.
package alarm

import "time"

// Alarm lets goroutines sleep, one at a time. Only Interrupt may be called by another goroutine meanwhile.
type Alarm interface {
	// Wait sleeps for that long, or until the alarm is interrupted. It can return early.
	Wait(d time.Duration)
	// Interrupt ends the sleep under way and all later ones. It is safe for concurrent use.
	Interrupt()
	// Close releases the alarm. Nobody may be sleeping.
	Close()
}

// New returns the most exact Alarm on this system.
func New() Alarm {
	if a := newExact(); a != nil {
		return a
	}
	return &plain{interrupted: make(chan struct{}, 1)}
}

// plain is an Alarm with the runtime's timers.
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
	default: // already interrupted
	}
}

// Close implements [Alarm].
func (p *plain) Close() {}
