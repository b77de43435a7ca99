package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Seen is what a look at an endpoint saw of a limit. It claims nothing that was not seen.
type Seen struct {
	Events []Event
	// Dialects are those of the headers, the newest first, and Told what they announce, each once.
	Dialects []string
	Told     []headers.Limit
	// Passed requests of one subject were admitted in PassedIn, one right after the other, before the first was denied.
	Passed   int
	PassedIn time.Duration
	// Denial is the first one, nil if none was seen.
	Denial *Denial
	// Back are the returns: each is when a denied subject was admitted again.
	Back []Return
	// LooksLike are limits that answer like that, the likeliest first.
	LooksLike []store.Limit
	Notes     []string
}

// Denial is what an endpoint answers to those whom it denies.
type Denial struct {
	Status     int    `json:"status"`                // of the answer
	RetryAfter string `json:"retry_after,omitempty"` // as it was sent
}

// Return is when a denied subject was admitted again, from LeastMS to MostMS after the first denial.
type Return struct {
	// After and By bound the instant: the last denial was sent, and the admission was answered.
	After   time.Time `json:"-"`
	By      time.Time `json:"-"`
	LeastMS int64     `json:"least_ms"`       // it was still denied then
	MostMS  int64     `json:"most_ms"`        // it was admitted by then
	Units   int       `json:"units"`          // that were admitted at once
	Open    bool      `json:"open,omitempty"` // there may be more units
}

// Any reports whether anything of a limit was seen.
func (s *Seen) Any() bool { return s.Denial != nil || len(s.Told) > 0 }

const (
	firstPause = 10 * time.Millisecond
	// pausePart is how much of the time since the first denial a pause is: each denied request may keep the subject
	// out.
	pausePart = 0.2
	// lastRequest is how long before the end the last request is sent.
	lastRequest = 100 * time.Millisecond
	// mostReturns is how many returns are waited for.
	mostReturns = 2
)

// looker looks at an endpoint.
type looker struct {
	*session
	seen    *Seen
	subject string
	first   *Event // the first that was admitted
}

// Look sends requests of one subject until one is denied, and then now and then until it is admitted again. After an
// error the result has what was seen until then; it is never nil. A used-up quota is no error.
func Look(ctx context.Context, config *Config) (*Seen, error) {
	l := &looker{session: newSession(ctx, config), seen: &Seen{}}
	err := l.look()
	if why := errSpent(""); errors.As(err, &why) {
		if l.seen.Denial != nil && l.seen.Passed > 0 && len(l.seen.Back) == 0 && isDenied(*l.last(l.subject)) {
			text := "nothing came back in " + span(time.Since(l.denied().Answered))
			if due, told := l.retryAt(l.denied()); told && !l.end.IsZero() && due.After(l.end) {
				text += fmt.Sprintf("; a denial says Retry-After: %s, and a longer --max-time waits for that",
					l.seen.Denial.RetryAfter)
			}
			l.note("%s", text)
		}
		err = nil
	}
	l.seen.Events = l.events
	l.readHeaders()
	l.seen.LooksLike = l.guess()
	return l.seen, err
}

func (l *looker) note(format string, values ...any) {
	l.seen.Notes = append(l.seen.Notes, fmt.Sprintf(format, values...))
}

// denied is the first denial of the subject; nil if there is none.
func (l *looker) denied() *Event {
	if i := slices.IndexFunc(l.events, isDenied); i >= 0 {
		return &l.events[i]
	}
	return nil
}

func (l *looker) look() error {
	var err error
	if l.subject, err = l.session.subject(); err != nil {
		return err
	}
	l.step(l.timeLeft(), "asking until a request is denied")
	most := max(1, l.requestsLeft()*4/5)
	burst, err := l.exhaust(l.subject, most)
	if l.seen.Passed = count(burst, isAdmitted); l.seen.Passed > 0 {
		l.first = &burst[slices.IndexFunc(burst, isAdmitted)]
	}
	if d := l.denied(); d != nil {
		l.seen.Denial = &Denial{Status: d.Status}
		if text := d.Header.Get("Retry-After"); text != "" {
			l.seen.Denial.RetryAfter = headers.Shown(text)
		}
	}
	if len(burst) > 0 {
		l.seen.PassedIn = burst[len(burst)-1].Answered.Sub(burst[0].Sent)
	}
	switch text := unasked(l.events); {
	case err != nil && !errors.Is(err, errRequests) && !errors.Is(err, errTime):
	case l.seen.Denial == nil && text != "":
		l.note("%s", text)
	case l.seen.Denial == nil && l.seen.Passed > 0:
		l.note("%d of %s were admitted in %s and none was denied%s; --requests N sends more, and --limit checks a "+
			"limit that is known", l.seen.Passed, output.Count(len(burst), "request"), span(l.seen.PassedIn),
			toldToWait(l.events))
	case l.seen.Denial != nil && l.seen.Passed == 0:
		l.note("every request was denied; look later, or as subjects that the endpoint admits")
	}
	if err != nil || l.seen.Denial == nil || l.seen.Passed == 0 {
		return err
	}
	for range mostReturns {
		if err := l.awaitReturn(); err != nil {
			return err
		}
	}
	return nil
}

// awaitReturn sends requests now and then until the subject is admitted again, and then until it is denied.
func (l *looker) awaitReturn() error {
	if l.last(l.subject).Outcome != endpoint.Denied { // it came back while several requests were under way
		if _, err := l.exhaust(l.subject, sequential); err != nil {
			return err
		}
	}
	last := *l.last(l.subject)
	if last.Outcome != endpoint.Denied {
		l.note("units came back too fast to be seen")
		return errRequests
	}
	l.step(l.timeLeft(), "waiting until a request is admitted again")
	begin, isLast := last, false
	for {
		pause := l.pause(&begin, &last)
		if left := l.timeLeft() - lastRequest; pause > left && left > firstPause && !isLast {
			pause, isLast = left, true
		}
		if err := l.wait(pause); err != nil {
			return err
		}
		e, err := l.send(l.subject)
		if err != nil {
			return err
		}
		if e.Outcome == endpoint.Denied {
			last = e
		}
		if e.Outcome != endpoint.Allowed {
			continue
		}
		back := Return{After: last.Sent, By: e.Answered, LeastMS: max(0, last.Sent.Sub(begin.Answered)).Milliseconds(),
			MostMS: output.Milliseconds(e.Answered.Sub(begin.Answered)), Units: 1, Open: true}
		more, err := l.exhaust(l.subject, min(l.seen.Passed+1, l.requestsLeft()))
		back.Units += count(more, isAdmitted)
		back.Open = !slices.ContainsFunc(more, isDenied)
		l.seen.Back = append(l.seen.Back, back)
		return err
	}
}

// pause returns how long to wait after the last denial of a wait: a growing part of the time since the first, but no
// longer than that one's Retry-After says, and then as long as the last one's says, since each may begin the wait anew.
func (l *looker) pause(first, last *Event) time.Duration {
	now := time.Now()
	pause := max(firstPause, time.Duration(float64(now.Sub(first.Answered))*pausePart))
	due, told := l.retryAt(first)
	next, toldAgain := l.retryAt(last)
	switch {
	case !told || !toldAgain:
	case now.Before(due):
		pause = min(pause, due.Sub(now))
	default:
		pause = max(pause, next.Sub(now))
	}
	return pause
}

// retryAt returns the instant from which on a denial says that the subject is admitted.
func (l *looker) retryAt(denial *Event) (at time.Time, told bool) {
	r := l.read(denial)
	return denial.Answered.Add(r.RetryAfter + r.RetryWithin + justAfter), r.RetryAfter != headers.NotTold
}

// readHeaders notes what the headers of all answers say, and what in them cannot be read.
func (l *looker) readHeaders() {
	var wrong headers.Findings
	for i := range l.events {
		r := l.read(&l.events[i])
		for _, problem := range r.Problems {
			wrong.AddProblem(problem)
		}
		l.seen.Dialects = r.AddDialects(l.seen.Dialects)
		for _, told := range r.Limits {
			isKnown := slices.ContainsFunc(l.seen.Told, func(known headers.Limit) bool {
				return known.CountField == told.CountField && known.Count == told.Count && known.Window == told.Window
			})
			if told.Unit == "" && told.Count != headers.NotTold && !isKnown && len(l.seen.Told) < mostFindings {
				l.seen.Told = append(l.seen.Told, told)
			}
		}
	}
	l.seen.Notes = append(l.seen.Notes, wrong.Texts[:min(len(wrong.Texts), mostFindings)]...)
}
