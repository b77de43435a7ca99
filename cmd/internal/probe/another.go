package probe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
)

const (
	// mostWaves is how often all that the limit gives is used up to meet another limit, and leastWaves the fewest that are worth it.
	mostWaves, leastWaves = 12, 3
	// longestSearch bounds the search for another limit, longestReturn the wait for what it gives back, and longestNaming the
	// time in which it is named.
	longestSearch, longestReturn, longestNaming = 15 * time.Second, 75 * time.Second, 4 * time.Minute
	// mostReturns is how often a request is awaited after a denial by another limit: each return tells more of its period.
	mostReturns = 24
	// mostCounts is the most numbers that a limit may admit that are tried.
	mostCounts = 4
	searched   = "another limit"
)

// behind is another limit than the one that was found, as one subject sees it that never asks for more than the first limit gives:
// what is denied, the other one denies.
type behind struct {
	*trial
	subject string
	// wave is the time in which the first limit gives back all that it has.
	wave    time.Duration
	events  []explain.Event
	returns int
	first   int // the events until the first denial; 1 if others had used up the limit
	denials int
	// admitted is how many were admitted since the last denial, and counts the numbers that were before one.
	admitted int64
	counts   []int64
	// explanations are what explains all events, if anything does.
	explanations []explain.Explanation
}

// another looks for a limit behind the one that was found: it uses up what that one gives, again and again, and never asks
// for more. What it finds is a note, since it is seen by one subject only.
func (t *trial) another() error {
	l := &t.model.Limit
	b := &behind{trial: t, wave: drain(l) + justAfter + l.Period/50}
	waves := min(mostWaves, int64(min(longestSearch, t.timeLeft()/4)/b.wave), int64(t.requestsLeft()/2)/l.Capacity())
	if t.config.Limit != nil || !t.canChoose() || waves < leastWaves || t.by.sharing.Verdict == Fail || !t.by.judges() {
		return nil
	}
	b.subject = t.subject()
	t.step(time.Duration(waves)*b.wave, "using up what the limit gives again and again, in case another one denies")
	denied, err := b.climb(waves)
	if !denied || err != nil {
		return err
	}
	b.first = len(b.events)
	begin, period := t.clock.Now(), time.Duration(0)
	until, end := begin.Add(min(longestReturn, t.timeLeft()/2)), begin.Add(min(longestNaming, t.timeLeft()/2))
	for n := range mostReturns {
		var back bool
		if back, err = b.follow(until); !back || err != nil || b.first == 1 || b.known() {
			break
		}
		if period == 0 {
			period = t.clock.Now().Sub(b.events[0].Sent)
		}
		// After requests that came apart a window gives all back at once, and what slides does not.
		apart := min(period/3, end.Sub(t.clock.Now())/4)
		if n%2 == 1 {
			apart = 0
		}
		until = end
		if denied, err = b.climbApart(waves, apart); !denied || err != nil {
			break
		}
	}
	if b.denials > 1 { // one alone may be due to a slow answer
		t.notes = append(t.notes, b.inWords())
	}
	return err
}

// ask sends one request.
func (b *behind) ask() (explain.Event, error) {
	event, err := b.sendBy(way{client: b.config.Client, cost: 1, trial: searched}, b.subject)
	if err != nil {
		return event, err
	}
	b.events = append(b.events, event)
	switch event.Outcome {
	case endpoint.Allowed:
		b.admitted++
	case endpoint.Denied: // what slides gives back little at once, which is no limit
		if n := b.admitted; len(b.counts) == 0 || n > b.counts[0]/2 && !slices.Contains(b.counts, n) && len(b.counts) < mostCounts {
			b.counts = append(b.counts, n)
		}
		b.admitted, b.denials = 0, b.denials+1
	case endpoint.Failed: // nothing is known
	}
	return event, nil
}

// climb uses up what the first limit gives until the other one denies, and reports whether it does.
func (b *behind) climb(waves int64) (denied bool, err error) {
	for range waves {
		for range b.model.Limit.Capacity() {
			if b.requestsLeft() == 0 {
				return false, nil
			}
			event, err := b.ask()
			switch {
			case err != nil || event.Outcome == endpoint.Failed: // what it counts is not known any more
				return false, err
			case event.Outcome == endpoint.Denied:
				return true, nil
			}
		}
		if err := b.wait(b.wave); err != nil {
			return false, err
		}
	}
	return false, nil
}

// climbApart climbs with a pause after what the first limit gives at once.
func (b *behind) climbApart(waves int64, pause time.Duration) (denied bool, err error) {
	if err := b.wait(b.wave); err != nil {
		return false, err
	}
	if denied, err = b.climb(1); denied || err != nil {
		return denied, err
	}
	if err := b.wait(pause); err != nil {
		return false, err
	}
	return b.climb(2 * waves)
}

// follow asks now and then until the other limit admits again, and reports whether it does.
func (b *behind) follow(until time.Time) (back bool, err error) {
	b.step(until.Sub(b.clock.Now()), "waiting until another limit admits again")
	for denied := b.clock.Now(); ; {
		pause := max(b.wave, b.clock.Now().Sub(denied)/20) // so that a denial is not due to the first limit
		if b.clock.Now().Add(pause).After(until) || b.requestsLeft() == 0 {
			return false, nil
		}
		if err := b.wait(pause); err != nil {
			return false, err
		}
		event, err := b.ask()
		if err != nil || event.Outcome != endpoint.Denied {
			return event.Outcome == endpoint.Allowed, err
		}
	}
}

// known explains what was seen after one more return, and reports whether one limit alone does. After some returns it is enough if only
// one has numbers that people write.
func (b *behind) known() bool {
	defer b.judged(b.clock.Now())
	b.returns++
	evidence := explain.NewEvidence(b.events, b.events[:b.first], false, b.counts)
	b.explanations = evidence.Explanations(b.explanations)
	slices.SortStableFunc(b.explanations, func(a, b explain.Explanation) int {
		return cmp.Compare(explain.Plainness(&a.Models[0]), explain.Plainness(&b.Models[0]))
	})
	return len(b.names()) == 1 && (len(b.explanations) == 1 || b.returns > 2)
}

// names are the limits that explain all that was seen, with numbers that people write, the plainest first. There are none while the
// plainest of all has other numbers, as more returns may give it better ones, and none after one return: others may have used some of
// what the first denial seems to be the count of.
func (b *behind) names() (names []string) {
	if b.returns < 2 {
		return nil
	}
	for i := range b.explanations {
		e := &b.explanations[i]
		limit, plain := e.Models[0].Named(0)
		if limit.Phase = 0; plain && e.Wrong == 0 && e.Round && !slices.Contains(names, limit.String()) {
			names = append(names, limit.String())
		} else if i == 0 {
			return nil
		}
	}
	return names[:min(len(names), mostAlternatives)]
}

// inWords says what was seen of the other limit.
func (b *behind) inWords() string {
	denied := b.events[b.first-1]
	if b.first == 1 {
		return fmt.Sprintf("Behind %s is another limit: it denied the first request of a subject that nobody had used, "+
			"so it may be a limit of all subjects.", b.model.Limit)
	}
	what, next := "", "If you know its period, check both, with one --limit each."
	if names := b.names(); len(names) > 0 {
		what, next = ", which can be "+strings.Join(names, " or "), "Check both, with one --limit each."
	}
	back := "none was admitted again in " + span(b.events[len(b.events)-1].Sent.Sub(denied.Sent))
	if i := slices.IndexFunc(b.events[b.first:], func(e explain.Event) bool { return e.Outcome == endpoint.Allowed }); i >= 0 {
		back = fmt.Sprintf("one was admitted again %s later", span(b.events[b.first+i].Sent.Sub(denied.Sent)))
	}
	return fmt.Sprintf("Behind %s is another limit%s: it denied after %s in %s, and %s. %s", b.model.Limit, what,
		output.Plural(b.first-1, "request"), span(denied.Answered.Sub(b.events[0].Sent)), back, next)
}
