package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/cmd/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sendRequests sends the requests that the checks still need.
func (v *verification) sendRequests() error {
	capacity := v.model.Limit.Capacity()
	if len(v.events) == 0 && v.config.Observer != nil {
		v.config.Observer.Plan(Plan(v.config))
	}
	if needed := capacity + 1; needed > int64(v.requestsLeft()) {
		if len(v.events) == 0 {
			v.notes = append(v.notes, fmt.Sprintf("A limit of %d is not reached by %d requests, so none was sent; "+
				"give --requests %d or more.",
				capacity, v.requestsLeft(), enoughFor(capacity)))
		}
		return nil
	}
	subject := ""
	if v.canChoose() {
		subject = v.subject()
	} else if err := v.quiet(); err != nil {
		return err
	}
	reached, err := v.fill(subject)
	if err == nil && !reached && v.config.Limit != nil {
		if v.canChoose() {
			subject = v.subject()
		}
		reached, err = v.rush(subject)
	}
	if err != nil || !reached {
		return err
	}
	err = v.exercise(subject)
	if err == nil || errors.Is(err, errSpent) {
		err = cmp.Or(err, v.climb())
	}
	if err != nil && !errors.Is(err, errSpent) {
		return err
	}
	return cmp.Or(v.sendTrials(), err)
}

// exercise sends what shows how a denied subject is admitted again.
func (v *verification) exercise(subject string) error {
	if err := v.other(subject); err != nil {
		return err
	}
	back, err := v.awaitRecovery(subject)
	if err != nil || !back {
		return err
	}
	if _, err := v.fill(subject); err != nil { // what came back at once
		return err
	}
	if err := v.idle(subject); err != nil {
		return err
	}
	return v.edge()
}

// edge uses up a window right before its end, and asks for all of the next one right after. Windows that begin with
// a request let through twice as much then; a sliding limit must not.
func (v *verification) edge() error {
	l := &v.model.Limit
	if l.Algorithm.HasBurst() || !v.canChoose() || l.Count < 2 || v.config.Limit == nil {
		return nil
	}
	if int64(v.requestsLeft()) < 2*l.Count+4 {
		return errRequests
	}
	if v.timeLeft() < l.Period+l.Period/4 {
		return errTime
	}
	subject := v.subject()
	first, err := v.send(subject)
	if err != nil {
		return err
	}
	v.step(l.Period+l.Period/16, "asking before and after the end of a window")
	for _, at := range []time.Duration{l.Period - l.Period/8, l.Period + l.Period/16} {
		if err := v.waitUntil(first.Answered.Add(at)); err != nil {
			return err
		}
		if _, err := v.fill(subject); err != nil {
			return err
		}
	}
	return nil
}

// Plan describes what a probe does, and the most that it costs.
func Plan(config *Config) (steps []string) {
	if config.Limit == nil {
		x := &explorer{session: newSession(context.Background(), config, nil), d: &Discovery{}}
		return x.plan()
	}
	limit, err := config.Limit.Normalize()
	if err != nil {
		return nil
	}
	longest := "as long as it takes"
	if config.MaxTime > 0 {
		longest = "at most " + span(config.MaxTime)
	}
	capacity, wait := limit.Capacity(), span(drain(&limit))
	steps = []string{
		fmt.Sprintf("at most %d requests in all, %s", config.Quota, longest),
		fmt.Sprintf("requests of one subject until one is denied: about %d", capacity+1),
		"a request of another subject",
		fmt.Sprintf("a request now and then until the first subject is admitted again, for %s or longer", wait),
		fmt.Sprintf("a pause until all is unused, and requests until one is denied: about %d", capacity+1),
		fmt.Sprintf("for limits with windows, requests of another subject right before and after a window's end: about %d", 2*capacity+1),
		fmt.Sprintf("other subjects over new connections, with requests at once, with HEAD and OPTIONS, with similar names: "+
			"about %d each, as far as requests and time are left", capacity+1),
	}
	if len(config.Beside) > 0 {
		steps = slices.Insert(steps, len(steps)-1, climbPlan(config.Beside))
	}
	return steps
}

// drain returns the longest time that a full key takes until it is unused.
func drain(l *store.Limit) time.Duration {
	var full store.State
	full.Charge(*l, l.Capacity(), 0)
	return time.Duration(full.UnusedAt(0)) * time.Microsecond
}

// step reports that something begins that takes a while.
func (v *verification) step(atMost time.Duration, what string) {
	if v.config.Observer != nil {
		v.config.Observer.Step(what, atMost)
	}
}

// quiet waits until everything that others may have used of the only key has come back.
func (v *verification) quiet() error {
	wait := v.drain()
	if len(v.events) > 0 {
		return nil // the requests so far show it
	}
	v.step(wait, "waiting until nothing can be in use, as all requests are of one subject")
	return v.wait(wait)
}

// fill sends requests until one is denied, or until twice the limit was admitted.
func (v *verification) fill(subject string) (reached bool, err error) {
	most := 2*v.model.Limit.Capacity() + 2
	v.step(0, "asking until a request is denied")
	burst, err := v.exhaust(subject, int(min(most, int64(v.requestsLeft()))))
	if err == nil && burst.denied == 0 && v.requestsLeft() == 0 {
		err = errRequests
	}
	return burst.denied > 0, err
}

// rush sends requests of a subject, as many at once as there are workers, until one is denied or twice the limit was
// admitted: a slow endpoint is never asked fast enough one by one.
func (v *verification) rush(subject string) (reached bool, err error) {
	most := int(min(2*v.model.Limit.Capacity()+2, int64(v.requestsLeft())))
	atOnce := max(1, v.config.Workers)
	if v.model.Limit.Even { // what fits waits, so only more than that at once is denied
		atOnce = min(max(atOnce, most), mostAtOnce)
	}
	v.step(0, "asking with several requests at once, as one after the other was too slow to reach the limit")
	for sent := 0; sent < most && !reached; {
		events, err := v.sendAtOnce(subject, min(atOnce, most-sent))
		if err != nil {
			return false, err
		}
		sent += len(events)
		reached = slices.ContainsFunc(events, func(e explain.Event) bool { return e.Outcome == endpoint.Denied })
	}
	return reached, nil
}

// mostAtOnce bounds the requests at once that show the end of a queue.
const mostAtOnce = 1000

// enoughFor is the number of requests that a check of a limit with this capacity takes at most.
func enoughFor(capacity int64) int64 { return 6*capacity + 50 }

// other sends a request of another subject while this one is denied, and then requests of this one until it is
// denied again.
func (v *verification) other(subject string) error {
	if !v.canChoose() {
		return nil
	}
	if _, err := v.sendMany(v.subject(), 1+v.meanwhile(), 0); err != nil {
		return err
	}
	_, err := v.exhaust(subject, int(min(v.model.Limit.Capacity()+1, int64(v.requestsLeft()))))
	return err
}

// meanwhile is how many units a bucket may get back between two requests of one subject, so that one more request would
// prove nothing.
func (v *verification) meanwhile() int {
	const soon = 50 * time.Millisecond
	l := &v.model.Limit
	if !l.Algorithm.HasBurst() {
		return 0
	}
	return int(min(float64(l.Capacity())/2, 2*soon.Seconds()*float64(l.Count)/l.Period.Seconds()))
}

// awaitRecovery sends requests until a denied subject is admitted again: right before and after the instants that
// the limit and Retry-After name, and at a few others.
func (v *verification) awaitRecovery(subject string) (back bool, err error) {
	begin := v.last(subject)
	if begin == nil || begin.Outcome != endpoint.Denied {
		return false, nil
	}
	if err := v.askAgain(subject); err != nil {
		return false, err
	}
	due := v.view(subject).Fits[1]
	giveUp := begin.Answered.Add(max(time.Duration(overdue*float64(due.Sub(begin.Answered))), 2*v.model.Limit.Period+time.Second))
	v.step(due.Sub(begin.Answered), "waiting until the subject is admitted again")
	told := false
	for {
		at := v.nextPoll(subject, begin.Answered, due, giveUp)
		if at.IsZero() {
			return v.leaveAlone(subject)
		}
		if !told && at.After(due.Add(v.model.Limit.Period/8)) {
			told = true
			v.step(giveUp.Sub(at), "waiting on, although the subject should be admitted by now")
		}
		if err := v.waitUntil(at); err != nil {
			return false, err
		}
		event, err := v.send(subject)
		if err != nil {
			return false, err
		}
		if event.Outcome == endpoint.Allowed {
			return true, nil
		}
	}
}

// askAgain sends some more requests of a denied subject at once, if the wait that it was told is too long: it may be another one each
// time.
func (v *verification) askAgain(subject string) error {
	const more = 6
	last := v.last(subject)
	r := headers.Read(last.Header, last.Answered, 0)
	if r.RetryAfter == headers.NotTold || !last.Answered.Add(r.RetryAfter-mostLate-r.Coarse()).After(v.view(subject).Fits[1]) {
		return nil
	}
	for range min(more, v.requestsLeft()) {
		if _, err := v.send(subject); err != nil {
			return err
		}
	}
	return nil
}

// leaveAlone sends one more request of a subject that was never admitted, after a pause as long as denied requests
// could keep it out.
func (v *verification) leaveAlone(subject string) (back bool, err error) {
	e := v.proof()
	if !e.model.Charges || e.least() > 0 {
		return false, nil
	}
	at := e.viewOf(subject).Fits[1].Add(justAfter)
	v.step(at.Sub(v.clock.Now()), "pausing, since denied requests seem to keep the subject out")
	if err := v.waitUntil(at); err != nil {
		return false, err
	}
	event, err := v.send(subject)
	return event.Outcome == endpoint.Allowed, err
}

// nextPoll returns the instant of the next request; zero if it is no use to wait longer. It uses the last denial,
// since a denied request may have moved the instant.
func (v *verification) nextPoll(subject string, begin, due, giveUp time.Time) (next time.Time) {
	last := v.last(subject)
	now := v.clock.Now()
	offer := func(t time.Time) {
		if t.After(now) && !t.After(giveUp) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	fits := v.view(subject).Fits
	offer(fits[0].Add(-justBefore))
	if fits[1].After(last.Answered.Add(v.model.Resolution)) { // else it is late, and would fit at any time
		offer(fits[1].Add(justAfter))
	}
	if r := headers.Read(last.Header, last.Answered, 0); r.RetryAfter != headers.NotTold {
		offer(last.Sent.Add(r.RetryAfter - mostLate - justBefore))
		offer(last.Answered.Add(r.RetryAfter + justAfter))
	}
	spacing := max(due.Sub(begin)/(polls+1), 20*time.Millisecond)
	for n := time.Duration(1); n <= polls; n++ {
		offer(begin.Add(n * spacing))
	}
	for n := time.Duration(1); n <= 2*polls; n++ { // the subject is late
		offer(due.Add(n * max(spacing, v.model.Limit.Period/8)))
	}
	return next
}

// idle waits until a subject is unused, and for longer than a period, and then asks for all of it.
func (v *verification) idle(subject string) error {
	e := v.proof()
	unused := e.viewOf(subject).Unused
	if first := e.firstView(subject); first != nil { // the other limits have longer periods
		unused = explain.Latest(first.Unused, e.viewOf(subject).Fits[1])
	}
	at := explain.Latest(unused, v.clock.Now().Add(v.model.Limit.Period+v.model.Limit.Period/2)).Add(justAfter)
	wait := at.Sub(v.clock.Now())
	if left := v.timeLeft(); left < wait {
		return errTime
	}
	if int64(v.requestsLeft()) <= v.model.Limit.Capacity() {
		return errRequests
	}
	v.step(wait, "waiting until all is unused")
	if err := v.waitUntil(at); err != nil {
		return err
	}
	_, err := v.fill(subject)
	return err
}

// last returns the last event of a subject; nil if there is none.
func (v *verification) last(subject string) *explain.Event {
	for i := len(v.events) - 1; i >= 0; i-- {
		if v.events[i].Subject == subject {
			return &v.events[i]
		}
	}
	return nil
}

// view returns what must be true after the last event of a subject.
func (v *verification) view(subject string) *explain.View { return v.proof().viewOf(subject) }

func (e *proof) viewOf(subject string) *explain.View {
	for i := range e.keys {
		events := e.keys[i].Events
		for n := len(events) - 1; n >= 0; n-- {
			if events[n].Subject == subject {
				return &e.judged[i].Views[len(events)-1]
			}
		}
	}
	return &explain.View{}
}
