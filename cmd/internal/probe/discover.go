package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
)

// ErrNoLimit is the error of a probe that was never denied within its quota.
var ErrNoLimit = errors.New("no request was denied")

// discoverLimit finds out what limit the endpoint has, within the quota of requests and time. With a given limit it
// only sends requests until the first denial. The discovery is never nil.
func discoverLimit(ctx context.Context, config *Config) (*Discovery, error) {
	x := &explorer{session: newSession(ctx, config, nil), d: &Discovery{Limit: config.Limit}}
	err := x.explore()
	x.d.Events = x.events
	if errors.Is(err, errSpent) {
		err = nil
	}
	if err == nil && !x.wasDenied() {
		err = ErrNoLimit
	}
	return x.d, err
}

// explorer finds out what limit an endpoint has.
type explorer struct {
	*session
	d *Discovery
	// subject is the one that is used first and longest.
	subject string
	burst   burst
	// shared: subjects share one limit.
	shared bool
	// counts are the numbers that were admitted at once when everything was back.
	counts []int64

	// later is the wait that denials announce, if it is longer than the probe may take.
	later time.Duration

	evidence     explain.Evidence
	explanations []explain.Explanation
}

func (x *explorer) note(format string, values ...any) {
	if text := fmt.Sprintf(format, values...); !slices.Contains(x.d.Notes, text) {
		x.d.Notes = append(x.d.Notes, text)
	}
}

func (x *explorer) wasDenied() bool {
	return slices.ContainsFunc(x.events, func(e explain.Event) bool { return e.Outcome == endpoint.Denied })
}

func (x *explorer) wasAdmitted() bool {
	return slices.ContainsFunc(x.events, func(e explain.Event) bool { return e.Outcome == endpoint.Allowed })
}

// noteBurst notes how many requests were admitted without a denial, and in what time.
func (x *explorer) noteBurst() {
	sent := x.burst.events
	if len(sent) == 0 {
		return
	}
	last := slices.MaxFunc(sent, func(a, b explain.Event) int { return a.Answered.Compare(b.Answered) })
	x.note("%d of %s were admitted in %s and none was denied; the probe sent no more", x.burst.admitted,
		output.Plural(len(sent), "request"), span(last.Answered.Sub(sent[0].Sent)))
}

// sameAnswer returns the first answer if all that were awaited were the same one, else nil.
func sameAnswer(events []explain.Event) (first *explain.Event) {
	for i := range events {
		switch e := &events[i]; {
		case isUnawaited(e):
		case first == nil:
			first = e
		case e.Outcome != first.Outcome || e.Status != first.Status:
			return nil
		}
	}
	return first
}

// unasked says that all answers were the same one, which may come from something in front of the limit; empty if not.
func unasked(events []explain.Event) string {
	first := sameAnswer(events)
	if first == nil || first.Status < http.StatusMultipleChoices {
		return ""
	}
	return fmt.Sprintf("every answer was %s, so the limit may not have been asked; are the URL, the method, the headers and "+
		"the body right?", endpoint.StatusText(first.Status))
}

// Unanswered is the error of a probe that sent requests and got no answer to any of them, of whatever status; else nil.
func (r *Result) Unanswered() error {
	if len(r.Events) == 0 || slices.ContainsFunc(r.Events, func(e explain.Event) bool { return e.Err == nil }) {
		return nil
	}
	if awaited := slices.IndexFunc(r.Events, func(e explain.Event) bool { return !isUnawaited(&e) }); awaited >= 0 {
		return fmt.Errorf("no request was answered: %w", r.Events[awaited].Err)
	}
	return endpoint.NotAnswered(&endpoint.Answer{Reason: "no request was answered in the time of the probe"})
}

// noteSameAnswer notes that all answers were the same one, which may come from something in front of the limit.
func (x *explorer) noteSameAnswer() {
	switch first := sameAnswer(x.events); {
	case first == nil:
	case first.Outcome == endpoint.Failed && first.Err != nil:
		x.note("no request was answered: %s", first.Err)
	case first.Outcome == endpoint.Failed:
		x.note("no request was answered: %s", endpoint.NotAnswered(&first.Answer))
	case unasked(x.events) != "":
		x.note("%s", unasked(x.events))
	}
}

func (x *explorer) step(atMost time.Duration, format string, values ...any) {
	if x.config.Observer != nil {
		x.config.Observer.Step(fmt.Sprintf(format, values...), min(atMost, x.timeLeft()))
	}
}

// explore works in stages. Each one decides what the next one sends.
func (x *explorer) explore() error {
	if x.config.Observer != nil {
		x.config.Observer.Plan(x.plan())
	}
	err := x.askAtOnce()
	if err != nil || x.burst.denied == 0 || x.config.Limit != nil {
		if x.burst.denied == 0 {
			x.noteBurst()
			x.noteSameAnswer()
		} else if errors.Is(err, errSpent) && x.burst.admitted > 0 { // the last requests of the quota were denied
			x.conclude(err)
		}
		return err
	}
	if x.burst.admitted == 0 { // what comes back later proves nothing if the usage before is unknown
		x.note("every request was denied, so nothing is known about a limit; probe later, or as subjects that the endpoint admits")
		return nil
	}
	if err = x.follow(); err == nil {
		err = x.compare()
	} else if errors.Is(err, errSpent) && x.wasAdmitted() {
		x.judge()
	}
	if err == nil || errors.Is(err, errSpent) {
		x.conclude(err)
	}
	return err
}

// plan describes what the probe does.
func (x *explorer) plan() []string {
	longest := "as long as it takes"
	if x.config.MaxTime > 0 {
		longest = "at most " + span(x.config.MaxTime)
	}
	plan := []string{
		fmt.Sprintf("at most %d requests in all, %s", x.config.Quota, longest),
		"requests of one subject until one is denied: how many are admitted at once",
	}
	if x.config.Limit != nil {
		return plan
	}
	plan[0] += "; for instance 10/1s takes some 250 requests and 10s, 100/1m some 2000 and 6m"
	return append(plan,
		"a request now and then until one is admitted again: when, and how many",
		"the same with other subjects, at times that tell the remaining algorithms apart")
}

// askAtOnce finds out how many requests are admitted at once, and whether subjects share the limit.
func (x *explorer) askAtOnce() (err error) {
	x.subject = x.session.subject()
	x.step(x.timeLeft(), "asking until a request is denied")
	x.burst, err = x.exhaust(x.subject, x.requestsLeft())
	if err != nil || x.burst.denied == 0 || x.config.Limit != nil {
		return err
	}
	other, err := x.send(x.session.subject())
	if err != nil {
		return err
	}
	if other.Outcome == endpoint.Denied {
		x.shared = true
	}
	return nil
}

// gather makes evidence of everything that was seen.
func (x *explorer) gather() {
	x.evidence = explain.NewEvidence(x.events, x.burst.events, x.shared, x.counts)
}

// judge finds the models that explain everything that was seen.
func (x *explorer) judge() {
	defer x.judged(x.clock.Now())
	x.gather()
	x.explanations = x.evidence.Explanations(x.explanations)
}
