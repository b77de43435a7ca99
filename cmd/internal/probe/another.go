package probe

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

const (
	// mostWaves is how often all that the limit gives is used up to meet another limit, and leastWaves the fewest that are worth it.
	mostWaves, leastWaves = 12, 3
	// longestSearch bounds the search for another limit, and the wait for what it gives back.
	longestSearch = 15 * time.Second
	searched      = "another limit"
)

// another looks for a limit behind the one that was found: it uses up what that one gives, again and again, and never asks
// for more. A denial is then another limit's. What it finds is a note, as the numbers of the other limit are not known well
// enough to judge by it.
func (t *trial) another() error {
	l := &t.model.Limit
	wave, capacity := drain(l)+justAfter+l.Period/50, l.Capacity()
	waves := min(mostWaves, int64(min(longestSearch, t.timeLeft()/4)/wave), int64(t.requestsLeft()/2)/capacity)
	if t.config.Limit != nil || !t.canChoose() || waves < leastWaves || t.by.sharing.Verdict == Fail || !t.by.judges() {
		return nil
	}
	t.step(time.Duration(waves)*wave, "using up what the limit gives again and again, in case another one denies")
	usual := way{client: t.config.Client, cost: 1, trial: searched}
	subject, begin, admitted := t.subject(), t.clock.Now(), int64(0)
	for range waves {
		for range capacity {
			event, err := t.sendBy(usual, subject)
			if err != nil {
				return err
			}
			switch event.Outcome {
			case endpoint.Allowed:
				admitted++
			case endpoint.Denied:
				return t.followAnother(subject, admitted, event.Answered.Sub(begin), wave)
			default:
				return nil // what it counts is not known any more
			}
		}
		if err := t.wait(wave); err != nil {
			return err
		}
	}
	return nil
}

// followAnother asks a subject that another limit denied until it is admitted again, and notes what was seen.
func (t *trial) followAnother(subject string, admitted int64, after, wave time.Duration) error {
	usual := way{client: t.config.Client, cost: 1}
	denied := t.clock.Now()
	longest := min(4*longestSearch, t.timeLeft()/2)
	for n := 0; ; n++ {
		pause := max(wave, t.clock.Now().Sub(denied)/8) // so that a denial is not due to the first limit
		if t.clock.Now().Sub(denied)+pause > longest || t.requestsLeft() == 0 {
			break
		}
		if err := t.wait(pause); err != nil {
			return err
		}
		event, err := t.sendBy(usual, subject)
		if err != nil {
			return err
		}
		switch {
		case event.Outcome == endpoint.Failed || event.Outcome == endpoint.Allowed && n == 0:
			return nil // it may have been one slow answer
		case event.Outcome == endpoint.Allowed:
			t.noteAnother(admitted, after, fmt.Sprintf("one was admitted again %s later", span(event.Sent.Sub(denied))))
			return nil
		}
	}
	if t.clock.Now().Sub(denied) > wave { // it was denied a second time
		t.noteAnother(admitted, after, fmt.Sprintf("none was admitted again in %s", span(t.clock.Now().Sub(denied))))
	}
	return nil
}

func (t *trial) noteAnother(admitted int64, after time.Duration, back string) {
	t.notes = append(t.notes, fmt.Sprintf("Behind %s is another limit: it denied after %s in %s, and %s. That is its count, unless a "+
		"window ended meanwhile. If you know its period, check both, with one --limit each.", t.model.Limit,
		output.Plural(int(admitted), "request"), span(after), back))
}
