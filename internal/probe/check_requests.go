package probe

import (
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sendRequests sends the requests that the checks need.
func (v *verification) sendRequests() error {
	capacity := v.limit.Capacity()
	if capacity+1 > int64(v.requestsLeft()) {
		v.notes = append(v.notes, fmt.Sprintf(
			"A limit of %d is not reached by %d requests, so none was sent; give --requests %d or more.",
			capacity, v.requestsLeft(), 7*capacity+150))
		return nil
	}
	if !v.canChoose() {
		wait := v.drain() + v.limit.Period
		v.step(wait, "waiting until nothing can be in use, as all requests are of one subject")
		if err := v.wait(wait); err != nil {
			return err
		}
	}
	var subject string
	reached := false
	for _, v.alone = range []int{sequential, 0} { // a slow endpoint is never asked fast enough one by one
		var err error
		if subject == "" || v.canChoose() {
			subject, err = v.subject()
		}
		if err == nil {
			reached, err = v.fill(subject)
		}
		if err != nil {
			return err
		}
		if reached {
			break
		}
	}
	for _, step := range []func(subject string) error{
		v.other, v.askOtherwise, v.awaitRecovery, v.useUp, v.quiet, v.again, v.idle, v.edge,
	} {
		if !reached || v.staysOut {
			break
		}
		if err := step(subject); err != nil {
			return err
		}
	}
	return nil
}

// useUp uses up what came back at once.
func (v *verification) useUp(subject string) error {
	_, err := v.fill(subject)
	const tries = 3 // for a denial that was certainly decided after that
	for n, more := 0, v.limit.Algorithm == store.FixedWindow; err == nil && more && n < tries; n++ {
		more, err = v.askAt(subject, time.Now().Add(3*resolution))
	}
	return err
}

// edge uses up a window right before its end, and asks for all of the next one right after. Windows that begin with
// a request let through twice as much then; a sliding limit must not.
func (v *verification) edge(string) error {
	l := &v.limit
	if l.Algorithm.HasBurst() || v.isTurned() || !v.canChoose() || l.Count < 2 {
		return nil
	}
	subject, err := v.subject()
	if err != nil {
		return err
	}
	first, err := v.send(subject)
	for _, at := range []time.Duration{l.Period - l.Period/8, l.Period + v.justAfter(), l.Period + l.Period/16} {
		if err == nil {
			err = v.fillAt(subject, first.Answered.Add(at), "asking before and after the end of a window")
		}
	}
	return err
}

// again uses up all in the middle of further windows, and waits for what comes back, if windows begin at instants that
// are not known: that tells whether they are as long as they should be. Those of a sliding counter show less exactly.
func (v *verification) again(subject string) (err error) {
	more := 0
	switch {
	case v.isCounter():
		more = 2
	case v.isTurned():
		more = 1
	}
	for ; more > 0 && err == nil && !v.staysOut; more-- {
		err = v.fillAt(subject, time.Now().Add(v.limit.Period*3/2), "using up another window")
		if err == nil {
			err = v.awaitRecovery(subject)
		}
	}
	return err
}

// drain returns the longest time that a full key takes until it is unused.
func (v *verification) drain() time.Duration {
	var full store.State
	full.Charge(v.limit, v.limit.Capacity(), 0)
	return time.Duration(full.UnusedAt(0)) * time.Microsecond
}

// fill sends requests until one is denied, or until twice the limit was admitted.
func (v *verification) fill(subject string) (reached bool, err error) {
	events, err := v.exhaust(subject, int(min(2*v.limit.Capacity()+2, int64(v.requestsLeft()))))
	reached = slices.ContainsFunc(events, isDenied)
	if err == nil && !reached && v.requestsLeft() == 0 {
		err = errRequests
	}
	return reached, err
}

// other sends the first request of another subject between two denials of this one.
func (v *verification) other(subject string) error {
	if !v.canChoose() {
		return nil
	}
	for range mostTries {
		if isDenied, err := v.refill(subject); err != nil || !isDenied {
			return err
		}
		other, err := v.subject()
		if err != nil {
			return err
		}
		first, err := v.send(other)
		if err != nil {
			return err
		}
		after, err := v.send(subject)
		if err != nil || after.Outcome == endpoint.Denied && first.Outcome != endpoint.Failed {
			v.apart = map[endpoint.Outcome]Verdict{endpoint.Allowed: Pass, endpoint.Denied: Fail}[first.Outcome]
			return err
		}
	}
	return nil
}

// mostRefills bounds the requests for a limit that gives back too fast.
const mostRefills = 6

// refill uses up what came back to a subject, if its period ended, so that its last request was denied.
func (v *verification) refill(subject string) (isDenied bool, err error) {
	for ; v.refills < mostRefills && v.last(subject).Outcome != endpoint.Denied; v.refills++ {
		if _, err := v.fill(subject); err != nil {
			return false, err
		}
	}
	return v.last(subject).Outcome == endpoint.Denied, nil
}

// awaitRecovery sends requests until a denied subject is admitted again: right before and after the instants that
// the limit and Retry-After name, and at a few others. If it stays out, it is left alone, as denied requests may keep
// it out, and asked once more.
func (v *verification) awaitRecovery(subject string) error {
	if v.last(subject).Outcome != endpoint.Denied { // it was one of several at once
		if reached, err := v.fill(subject); err != nil || !reached {
			v.staysOut = true
			return err
		}
	}
	from, due := v.last(subject).Answered, v.back(subject).Late.Time()
	giveUp := from.Add(max(5*due.Sub(from)/2, 2*v.limit.Period+time.Second))
	v.step(due.Sub(from), "waiting until the subject is admitted again")
	for {
		at := v.nextPoll(subject, from, due, giveUp)
		if at.IsZero() {
			break
		}
		if back, err := v.askAt(subject, at); back || err != nil {
			return err
		}
	}
	wait := v.drain() + v.limit.Period
	v.step(wait, "pausing, since denied requests may keep the subject out")
	back, err := v.askAt(subject, time.Now().Add(wait))
	if v.staysOut = !back; back {
		v.notes = append(v.notes, fmt.Sprintf("Requests now and then for %s were denied, and the first after a pause "+
			"of %s was admitted: denied requests may begin the wait anew.", span(giveUp.Sub(from)), span(wait)))
	}
	return err
}

// askAt sends a request at an instant, and reports whether it was admitted.
func (v *verification) askAt(subject string, at time.Time) (admitted bool, err error) {
	if err := v.waitUntil(at); err != nil {
		return false, err
	}
	event, err := v.send(subject)
	return err == nil && event.Outcome == endpoint.Allowed, err
}

// nextPoll returns the instant of the next request; zero if it is no use to wait longer. It uses the last denial,
// since a denied request may have moved the instant.
func (v *verification) nextPoll(subject string, begin, due, giveUp time.Time) (next time.Time) {
	last := v.last(subject)
	now := time.Now()
	offer := func(t time.Time) {
		if t.After(now) && !t.After(giveUp) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	back := v.back(subject)
	offer(back.Early.Time().Add(-v.justBefore(subject)))
	offer(back.Early.Time().Add(-v.limit.Period / 25))                       // that one may be sent too late
	if late := back.Late.Time(); late.After(last.Answered.Add(resolution)) { // else it would fit at any time
		offer(late.Add(v.justAfter()))
	}
	if r := v.read(last); r.RetryAfter != headers.NotTold {
		offer(last.Sent.Add(r.RetryAfter - mostLate - justBefore))
		offer(last.Answered.Add(r.RetryAfter + justAfter))
	}
	polls := time.Duration(polls)
	if v.isTurned() || v.isCounter() {
		polls = turnPolls
	}
	spacing := max(due.Sub(begin)/(polls+1), 20*time.Millisecond)
	for n := time.Duration(1); n <= polls; n++ {
		offer(begin.Add(n * spacing))
	}
	for n := time.Duration(1); n <= 2*polls; n++ { // the subject is late
		offer(due.Add(n * max(spacing, v.limit.Period/8)))
	}
	return next
}

// quiet asks for all at the instant from which all must be back, and for nothing before. So it is no denied request
// that keeps the subject out of a period that is a little too long.
func (v *verification) quiet(subject string) error {
	if v.isCounter() { // that instant is not known
		return nil
	}
	const why = "waiting until all must be back"
	// first until all but one are nearly back, to see whether they come back too fast
	if l := &v.limit; l.Algorithm.HasBurst() {
		back := v.drain() - l.Period/time.Duration(l.Count)
		if err := v.fillAt(subject, v.last(subject).Sent.Add(back-v.justBefore(subject)), why); err != nil {
			return err
		}
	} else if v.isTurned() {
		if _, err := v.askAt(subject, v.back(subject).Early.Time().Add(-v.justBefore(subject))); err != nil {
			return err
		}
	}
	return v.fillAt(subject, v.back(subject).Unused.Time().Add(v.justAfter()), why)
}

// justAfter is how long after an instant a request is asked that must be admitted from then on, however the clocks of
// both sides run and however coarse they are, and justBefore how long before one that must be denied, if it takes as
// long as the last.
func (v *verification) justAfter() time.Duration {
	return justAfter + 2*resolution + v.limit.Period/1000
}

func (v *verification) justBefore(subject string) time.Duration {
	last := v.last(subject)
	return justBefore + v.limit.Period/1000 + last.Answered.Sub(last.Sent)
}

// isTurned reports whether windows begin at instants that are not known but by the answers.
func (v *verification) isTurned() bool {
	return v.limit.Algorithm == store.FixedWindow && !v.limit.FromFirst
}

// isCounter reports whether the limit is a sliding counter, whose windows begin at instants that show only as they
// fade.
func (v *verification) isCounter() bool { return v.limit.Algorithm == store.SlidingCounter }

// idle waits until a subject is unused, and for longer than a period, and then asks for all of it.
func (v *verification) idle(subject string) error {
	at := time.Now().Add(v.limit.Period + v.limit.Period/2)
	if unused := v.back(subject).Unused.Time(); unused.After(at) {
		at = unused
	}
	return v.fillAt(subject, at.Add(justAfter), "waiting until all is unused")
}

// fillAt waits until an instant, and then asks for all.
func (v *verification) fillAt(subject string, at time.Time, why string) error {
	wait := time.Until(at)
	if v.timeLeft() < wait {
		return errTime
	}
	if int64(v.requestsLeft()) <= v.limit.Capacity() {
		return errRequests
	}
	v.step(wait, why)
	if err := v.waitUntil(at); err != nil {
		return err
	}
	_, err := v.fill(subject)
	return err
}
