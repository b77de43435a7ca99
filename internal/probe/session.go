package probe

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/internal/progress"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// span writes a duration to the millisecond.
func span(d time.Duration) string { return d.Round(time.Millisecond).String() }

const (
	// justAfter is how long after an instant the probe sends a request that should be admitted from then on, and
	// justBefore how long before it one that should be denied.
	justAfter, justBefore = 3 * time.Millisecond, 10 * time.Millisecond
	// polls is the number of requests of a key during a wait, besides those at the instants that matter, and
	// turnPolls that until a window turns at an instant that is not known.
	polls, turnPolls = 6, 60
)

// mostLate is how much too late Retry-After may be: it is in whole seconds.
const mostLate = time.Second

// errSpent is the error of a request that would exceed the quota.
type errSpent string

// Error says what is used up.
func (e errSpent) Error() string { return string(e) }

const (
	errRequests = errSpent("all allowed requests were sent")
	errTime     = errSpent("the time was too short")
)

// mostFailures is the number of failures in a row after which a probe gives up.
const mostFailures = 20

// session sends the requests of one probe and keeps its quota: it sends no request and waits for nothing beyond it,
// and returns an error that is errSpent, with what it learned until then. Its methods are for one goroutine.
type session struct {
	ctx    context.Context
	config *Config
	end    time.Time // of the probe; zero if it may take any time
	begun  int       // the number of subjects
	alone  int       // requests of a subject that go one by one
	failed int       // the number of requests without an answer, in a row
	denied []int     // statuses that were found to be those of denials

	doing       string    // the last step
	said, until time.Time // when it was reported, and when it ends at the latest

	events []Event // in the order in which they were answered
}

func newSession(ctx context.Context, config *Config) *session {
	s := &session{ctx: ctx, config: config, alone: sequential}
	if config.MaxTime > 0 {
		s.end = time.Now().Add(config.MaxTime)
	}
	return s
}

// canChoose reports whether the requests name the subject.
func (s *session) canChoose() bool {
	subject, _ := s.config.Client.Places()
	return subject
}

// step reports that something takes a while. What waits for it reports it again now and then.
func (s *session) step(atMost time.Duration, what string) {
	atMost = min(atMost, s.timeLeft())
	s.doing, s.said, s.until = what, time.Now(), time.Now().Add(atMost)
	if s.config.Step != nil {
		s.config.Step(what, atMost)
	}
}

// subject returns the name of a new subject.
func (s *session) subject() (string, error) {
	s.begun++
	switch n := len(s.config.Names); {
	case n == 0:
		return strings.ToLower(rand.Text()[:12]), nil
	case s.begun > n:
		return "", store.Invalidf("there are %d names of subjects, and one more is needed", n)
	}
	return s.config.Names[s.begun-1], nil
}

// requestsLeft returns how many requests may still be sent.
func (s *session) requestsLeft() int { return s.config.Quota - len(s.events) }

// timeLeft returns how much of the probe's time is left: very long if it may take any time.
func (s *session) timeLeft() time.Duration {
	if s.end.IsZero() {
		return 1 << 62
	}
	return time.Until(s.end)
}

// wait waits, but not beyond the end of the probe's time.
func (s *session) wait(d time.Duration) error {
	if d <= 0 {
		return s.ctx.Err()
	}
	left := s.timeLeft()
	if left < d {
		return errTime
	}
	end := time.Now().Add(d)
	for due := s.said.Add(progress.LineEvery); s.doing != "" && due.Before(end); due = s.said.Add(progress.LineEvery) {
		if err := sys.Sleep(s.ctx, time.Until(due)); err != nil {
			return err
		}
		s.step(time.Until(s.until), s.doing)
	}
	return sys.Sleep(s.ctx, time.Until(end))
}

// waitUntil waits until an instant.
func (s *session) waitUntil(t time.Time) error { return s.wait(time.Until(t)) }

// send sends one request of a subject. A request that failed is an event, too; the error is for what ends the probe.
func (s *session) send(subject string) (Event, error) {
	return s.sendBy(s.config.Client, Event{Subject: subject})
}

// sendBy sends one request by a client.
func (s *session) sendBy(client endpoint.Client, event Event) (Event, error) {
	events := []Event{event}
	err := s.sendAll(client, events)
	return events[0], err
}

// sendAll sends requests at the same time, or none beside an error that is errSpent.
func (s *session) sendAll(client endpoint.Client, events []Event) error {
	switch {
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case s.timeLeft() < 0:
		return errTime
	case len(events) > s.requestsLeft():
		return errRequests
	}
	failures := make([]error, len(events))
	var group panics.Group
	for i := range events {
		group.Go(func() { failures[i] = s.sendOne(client, &events[i]) })
	}
	err := group.Wait()
	for i := range events {
		err = cmp.Or(err, failures[i], s.add(&events[i]))
	}
	return err
}

// sendOne sends one request. Any goroutine can call it.
func (s *session) sendOne(client endpoint.Client, event *Event) error {
	before, longest, isLast := time.Now(), s.timeLeft(), true
	if timeout := s.config.Timeout; timeout > 0 && timeout < longest {
		longest, isLast = timeout, false
	}
	ctx, cancel := store.BudgetContext(s.ctx, longest)
	defer cancel()
	if event.Err = client.Send(ctx, event.Subject, 1, &event.Answer); event.Err == nil {
		return nil
	}
	event.Outcome = endpoint.Failed
	if event.Sent.IsZero() {
		event.Sent = before
	}
	if event.Answered.IsZero() {
		event.Answered = time.Now()
	}
	if s.ctx.Err() == nil && isLast && s.timeLeft() <= 0 {
		return errTime
	}
	return s.ctx.Err()
}

// add stores an event, and gives up after too many failures in a row.
func (s *session) add(e *Event) error {
	s.classify(e)
	s.events = append(s.events, *e)
	if e.Outcome != endpoint.Failed {
		s.failed = 0
	} else if s.failed++; s.failed >= mostFailures {
		return fmt.Errorf("the endpoint does not answer: %w", failure(e))
	}
	return nil
}

// sequential is how many requests of a subject go one by one, and how long, before several workers send them: a small
// limit then needs few denials, and what it lets in is known exactly.
const (
	sequential    = 32
	sequentialFor = time.Second
)

// exhaust sends up to most requests of a subject as fast as the workers can, until one is denied. It returns their
// events.
func (s *session) exhaust(subject string, most int) ([]Event, error) {
	first, begin := len(s.events), time.Now()
	for n := 0; n < most && !slices.ContainsFunc(s.events[first:], isDenied); n = len(s.events) - first {
		atOnce := 1
		if n >= s.alone || time.Since(begin) > sequentialFor {
			atOnce = max(1, min(s.config.Workers, most-n, s.requestsLeft()))
		}
		err := s.sendAll(s.config.Client, slices.Repeat([]Event{{Subject: subject}}, atOnce))
		if s.findDenials(); err != nil {
			return s.events[first:], err
		}
	}
	return s.events[first:], nil
}

// enoughOdd is the number of answers in a row with the same unusual status after which it counts as that of a denial.
const enoughOdd = 3

// findDenials takes a status such as 503 for that of denials if the last answers all have it, and one was admitted
// before with another.
func (s *session) findDenials() {
	i := slices.IndexFunc(s.events, isAdmitted)
	if n := len(s.events) - enoughOdd; i < 0 || n <= i || s.events[i].Status == s.events[n].Status ||
		slices.ContainsFunc(s.events[n:], func(e Event) bool {
			return e.Err != nil || e.Outcome == endpoint.Denied || e.Status != s.events[n].Status
		}) {
		return
	}
	s.denied = append(s.denied, s.events[len(s.events)-1].Status)
	for i := range s.events {
		s.classify(&s.events[i])
	}
}

// classify corrects the outcome of an answer that has the status of a denial.
func (s *session) classify(e *Event) {
	if e.Err == nil && slices.Contains(s.denied, e.Status) {
		e.Outcome = endpoint.Denied
	}
}

func isDenied(e Event) bool { return e.Outcome == endpoint.Denied }

func isAdmitted(e Event) bool { return e.Outcome == endpoint.Allowed }

// count counts the events for which is is true.
func count(events []Event, is func(Event) bool) (n int) {
	for i := range events {
		if is(events[i]) {
			n++
		}
	}
	return n
}

// read reads the header of an answer, by the clock of the first answer.
func (s *session) read(e *Event) *headers.Reading {
	var skew time.Duration
	if i := slices.IndexFunc(s.events, func(e Event) bool { return len(e.Header) > 0 }); i >= 0 {
		skew = headers.SkewOf(s.events[i].Header, s.events[i].Sent, s.events[i].Answered)
	}
	r := headers.ReadAnswer(&e.Answer, skew)
	return &r
}

// last returns the last event of a subject; nil if there is none.
func (s *session) last(subject string) *Event {
	for i := len(s.events) - 1; i >= 0; i-- {
		if s.events[i].Subject == subject && s.events[i].way == "" {
			return &s.events[i]
		}
	}
	return nil
}
