package probe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// fit judges all keys by the phase and the behaviour that explain them best.
func (e *proof) fit(phaseKnown bool) {
	e.model, e.judged = explain.Fit(e.model, e.keys, phaseKnown)
	if len(e.model.Beside) > 0 {
		e.weighTogether()
		return
	}
	other := e.model
	if other.Behaviour != (explain.Behaviour{}) {
		if other.Behaviour.Refreshed {
			other.Behaviour.Refreshed = false
		} else {
			other.Behaviour.ChargesDenied = !other.Behaviour.ChargesDenied
		}
		other = other.WithBehaviour(other.Behaviour)
	} else {
		other.Charges = !other.Charges
	}
	wrong, wrongOther := int64(0), int64(0)
	for i := range e.keys {
		wrong += e.judged[i].Over + e.judged[i].Under
		j := other.Judge(e.keys[i].Events, e.keys[i].Fresh)
		wrongOther += j.Over + j.Under
	}
	if e.wrong, e.wrongIfCharged = wrong, wrongOther; e.model.Charges {
		e.wrong, e.wrongIfCharged = wrongOther, wrong
	}
}

// fitPromptly judges all keys as if requests that waited had been let in when they came. The answers of a queue come later,
// and all that has gone on meanwhile would explain them, however many the queue holds.
func (e *proof) fitPromptly(phaseKnown bool) {
	if !e.model.Limit.Even && !e.waits() {
		return
	}
	keys, changed := explain.Prompt(e.keys)
	if !changed {
		return
	}
	_, judged := explain.Fit(e.model, keys, phaseKnown)
	for _, j := range judged {
		e.promptly += j.Over
	}
}

// waits reports whether most admitted requests took far longer than the quickest.
func (e *proof) waits() bool {
	var took []time.Duration
	for i := range e.keys {
		for _, event := range e.keys[i].Events {
			if event.Outcome == endpoint.Allowed {
				took = append(took, event.Answered.Sub(event.Sent))
			}
		}
	}
	return areHeld(took)
}

// others names limits of the same count and period that explain the answers, if this one does not.
func (e *proof) others(phaseKnown bool) string {
	if !e.hasLimit || e.least() == 0 || len(e.model.Beside) > 0 {
		return ""
	}
	var names []string
	add := func(other store.Limit) {
		limit, err := other.Normalize()
		if err != nil || limit == e.model.Limit {
			return
		}
		candidate := *e
		candidate.model = explain.Expectation{Model: explain.Model{Limit: limit}, Resolution: e.model.Resolution}
		if candidate.fit(phaseKnown); candidate.least() == 0 {
			names = append(names, limit.String())
		}
	}
	for _, algorithm := range store.Algorithms() {
		add(store.Limit{Algorithm: algorithm, Count: e.model.Limit.Count, Period: e.model.Limit.Period})
	}
	add(store.Limit{Algorithm: store.FixedWindow, Count: e.model.Limit.Count, Period: e.model.Limit.Period, FromFirst: true})
	return strings.Join(names, ", or of ")
}

// least is the least number of units that the limit does not explain.
func (e *proof) least() int64 { return min(e.wrong, e.wrongIfCharged) }

// admitted checks that no more than the limit is admitted, and that the first denial is not too early.
func (e *proof) admitted() Check {
	c := Check{Name: checkAdmitted, Verdict: Unknown, Seen: "no limit was found"}
	if !e.hasLimit {
		c.Expected = "a limit"
		return c
	}
	capacity := e.model.Limit.Capacity()
	c.Expected = "at most " + e.allowance()
	reached, over, peak := false, int64(0), int64(0)
	var first, early *explain.View
	var place, earlyPlace int
	for i, j := range e.judged {
		over += j.Over
		peak = max(peak, j.Peak)
		denied := false
		for n := range j.Views {
			v := &j.Views[n]
			if v.Judged && v.Over && first == nil {
				first, place = v, n+1
			}
			if v.Outcome != endpoint.Denied || denied {
				continue
			}
			denied, reached = true, true
			if v.Judged && v.Under && e.keys[i].Fresh && early == nil {
				early, earlyPlace = v, n+1
			}
		}
	}
	certain := e.certain()
	if early != nil && certain != nil && certain.LeastUnder > 0 && certain.LeastOver == 0 {
		first = nil // it only follows from what was denied before, if that is counted
	}
	switch text := e.unasked(); {
	case !reached && text != "":
		c.Seen = text
	case e.guessed && e.config.Limit == nil && (first != nil || early != nil):
		c.Seen = "not all answers fit the limit that was found, which is a guess; give the limit with --limit to judge them"
	case certain != nil && certain.LeastOver == 0 && first != nil:
		c.Seen = fmt.Sprintf("request %d of a subject may be one too many, depending on when exactly it was decided", place)
	case certain != nil && certain.LeastOver > 0 && first == nil:
		c.Verdict, c.Seen = Fail, fmt.Sprintf("%d too many, whenever the requests were decided", certain.LeastOver)
	case first != nil:
		if certain != nil {
			over = certain.LeastOver
		}
		c.Verdict = Fail
		c.Seen = fmt.Sprintf("%d too many: request %d of a subject was admitted although nothing was left; %s in use at worst",
			over, place, output.Plural(peak, "unit"))
		if !reached {
			c.Seen = fmt.Sprintf("%d too many: request %d of a subject was admitted although nothing was left, and no request was denied",
				over, place)
		}
	case early != nil && certain != nil && certain.LeastUnder == 0:
		c.Seen = fmt.Sprintf("request %d of a new subject may have been denied too early, depending on when exactly it was decided",
			earlyPlace)
	case early != nil:
		c.Verdict = Fail
		c.Seen = fmt.Sprintf("too few: request %d of a new subject was denied", earlyPlace)
		c.Expected += fmt.Sprintf(", and the first denial not before request %d", capacity+1)
	case !reached:
		c.Seen = "no request was denied, and the limit was not reached"
	case len(e.notSeenToDeny()) > 0:
		c.Seen = "not seen to deny: " + strings.Join(e.notSeenToDeny(), ", ") + "; " + e.denials()
	case e.promptly > 0:
		c.Seen = fmt.Sprintf("requests were held, and %d were too many if each was let in when it came: it may hold more than the limit",
			e.promptly)
	default:
		c.Verdict = Pass
		peak = min(peak, capacity) // units that came back in between do not count
		c.Seen = fmt.Sprintf("%s in use at worst, and the next request denied", output.Plural(peak, "unit"))
		if len(e.model.Beside) > 0 {
			c.Seen = e.denials()
		}
	}
	return c
}

// unasked says that all answers were the same one, which may come from something in front of the limit.
func (e *proof) unasked() string {
	var all []explain.Event
	for i := range e.keys {
		for _, event := range e.keys[i].Events {
			all = append(all, *event)
		}
	}
	return unasked(all)
}

// proven audits all keys by intervals; see certain.
func (e *proof) proven() *audit.Finding {
	if len(e.model.Beside) > 0 {
		return e.provenTogether()
	}
	limit, all := e.model.Named(0)
	if e.config.Limit == nil {
		limit.Phase = 0 // it is an estimate
	} else if given, err := e.config.Limit.Normalize(); err == nil {
		limit.Phase = given.Phase
	}
	if !all {
		return nil
	}
	finding := explain.Proven(limit, e.keys, e.model.Resolution)
	return &finding
}

// allowance describes in words what a limit allows.
func allowance(l *store.Limit) string {
	period := store.FormatPeriod(l.Period)
	if l.Algorithm.HasBurst() {
		return fmt.Sprintf("%d at once, and %d in %s from then on", l.Capacity(), l.Count, period)
	}
	if l.Algorithm == store.FixedWindow {
		return fmt.Sprintf("%d in a window of %s", l.Count, period)
	}
	return fmt.Sprintf("%d in any %s", l.Count, period)
}

// denialsCost reports whether denied requests cost units. It passes no judgement, as both are common.
func (e *proof) denialsCost() Check {
	c := Check{Name: checkDenialsCost, Verdict: Unknown, Expected: "reported, not judged"}
	switch {
	case !e.hasLimit:
		c.Seen = "no limit was found"
	case e.countsOthers() != "":
		c.Verdict, c.Seen = Pass, e.countsOthers()
	case e.wrong == 0 && e.wrongIfCharged > 0:
		c.Verdict, c.Seen = Pass, "denied requests cost nothing"
	case e.wrongIfCharged == 0 && e.wrong > 0:
		c.Verdict, c.Seen = Pass, "denied requests count, too: a client that keeps asking waits longer"
	case e.model.Limit.Algorithm == store.FixedWindow && !e.model.Limit.FromFirst && e.least() == 0:
		c.Moot, c.Seen = true, "it makes no difference: the window ends when it ends"
	case e.least() == 0:
		c.Moot, c.Seen = true, "the answers are the same either way"
	default:
		c.Seen = "the answers do not fit the limit, either way"
	}
	return c
}

// subjects checks that the usage of one subject does not count against another.
func (e *proof) subjects() Check {
	c := Check{Name: checkSubjects, Verdict: Unknown, Expected: "another subject is admitted while one is denied",
		Seen: "no other subject was tried while one was denied"}
	if !e.canChoose {
		c.Moot, c.Seen = true, "all requests are of one subject: there is no {subject} in the request"
		return c
	}
	for i := range e.keys {
		first := e.keys[i].Events[0] // of a new subject
		for k := range e.keys {
			if i == k || !exhaustedAt(e.keys[k].Events, first) {
				continue
			}
			switch first.Outcome {
			case endpoint.Allowed:
				if c.Verdict == Unknown {
					c.Verdict, c.Seen = Pass, "another subject was admitted while one was denied"
				}
			case endpoint.Denied:
				c.Verdict, c.Seen = Fail, "the first request of another subject was denied while one was over the limit: they share it"
				return c
			case endpoint.Failed: // proves nothing
			}
		}
	}
	return c
}

// judgeSubjects checks subjects by the limit: it compares what was admitted with the limit of each subject, and with
// one limit for all of them. If they share it, they are one key from then on.
func (e *proof) judgeSubjects(phaseKnown bool) Check {
	c := e.subjects()
	if !e.canChoose || len(e.keys) < 2 {
		return c
	}
	together := *e
	all := explain.Key{Subject: "all", Fresh: e.keys[0].Fresh}
	for i := range e.keys {
		all.Events = append(all.Events, e.keys[i].Events...)
	}
	all.Events = explain.InOrder(all.Events)
	together.keys = []explain.Key{all}
	if len(e.model.Beside) == 0 {
		together.fit(phaseKnown)
	} else { // a search for what explains them together takes long
		together.judged = []*explain.Judgement{e.model.Judge(all.Events, all.Fresh)}
		together.weighTogether()
	}
	switch {
	case e.least() == 0 && together.least() > 0:
		c.Verdict, c.Seen = Pass, fmt.Sprintf("%s were admitted each as if there were no others", output.Plural(len(e.keys), "subject"))
	case c.Verdict == Unknown && e.least() > 0 && together.least() == 0 && e.confirmed():
		c.Verdict, c.Seen = Fail, fmt.Sprintf("%s share one limit", output.Plural(len(e.keys), "subject"))
	}
	if c.Verdict == Fail {
		*e = together
	}
	return c
}

// confirmed reports whether all answers to one of the subjects fit the limit, among them a denial. Otherwise the limit may be
// another one, and that of several subjects together explains the answers by chance.
func (e *proof) confirmed() bool {
	for i, j := range e.judged {
		if e.keys[i].Fresh && j.Over+j.Under == 0 && slices.ContainsFunc(j.Views, func(v explain.View) bool {
			return v.Outcome == endpoint.Denied
		}) {
			return true
		}
	}
	return false
}

// exhaustedAt reports whether a key was denied right before and right after another key's event, or right before it
// if no event follows.
func exhaustedAt(events []*explain.Event, other *explain.Event) bool {
	const soon = 50 * time.Millisecond
	for i, event := range events {
		if event.Outcome != endpoint.Denied || event.Answered.After(other.Sent) {
			continue
		}
		next := i + 1
		if next < len(events) && events[next].Outcome == endpoint.Denied && !events[next].Sent.Before(other.Answered) {
			return true
		}
		if next == len(events) && other.Sent.Sub(event.Answered) < soon {
			return true
		}
	}
	return false
}

// recovery checks that used units come back when the limit says so, neither more nor fewer.
func (e *proof) recovery() Check {
	c := Check{Name: checkRecovery, Verdict: Unknown, Expected: "used units come back as the limit says",
		Seen: "the probe did not wait that long"}
	if !e.hasLimit {
		c.Seen = "no limit was found"
		return c
	}
	c.Expected = e.comesBack()
	if e.guessed && e.least() > 0 {
		c.Seen = "it is not certain that all answers fit the limit"
		return c
	}
	most := 0
	certain := e.certain()
	for _, j := range e.judged {
		wrong := recovers(j, &c, &most)
		if wrong == nil {
			continue
		}
		if certain != nil && (wrong.Over && certain.LeastOver == 0 || wrong.Under && certain.LeastUnder == 0) {
			c.Verdict, c.Seen = Unknown, "it depends on when exactly the requests were decided, or on whether denied ones count"
		}
		return c
	}
	if most > 0 && c.Verdict != Fail {
		c.Verdict, c.Seen = Pass, fmt.Sprintf("after a denial and a wait, %s admitted and then one denied", output.Plural(most, "request"))
	}
	return c
}

// recovers looks at one key, and returns the first answer that was wrong; nil if none was. most becomes the most requests that were
// admitted between two denials.
func recovers(j *explain.Judgement, c *Check, most *int) *explain.View {
	var denied *explain.View // the last denial
	run := 0                 // admitted since then
	wrong := true            // what happened before is unknown
	for n := range j.Views {
		v := &j.Views[n]
		switch {
		case v.Outcome == endpoint.Denied && denied != nil && run == 0 && v.Sent.Before(denied.Answered):
			// Under way together, so nothing had time to come back.
		case v.Outcome == endpoint.Denied && denied != nil && v.Judged && v.Under && run == 0:
			c.Verdict, c.Seen = Fail, tooLate(j, n, denied)
			return v
		case v.Outcome == endpoint.Denied && denied != nil && v.Judged && v.Under:
			c.Verdict, c.Seen = Fail, fmt.Sprintf("too little: denied again %s after a denial, with %s admitted in between",
				span(j.Views[n].Sent.Sub(denied.Sent)), output.Plural(run, "request"))
			return v
		case v.Outcome == endpoint.Denied:
			if !wrong && run > 0 {
				*most = max(*most, run)
			}
			denied, run, wrong = v, 0, !v.Judged
		case v.Outcome == endpoint.Allowed && denied != nil:
			if run++; v.Judged && v.Over {
				c.Verdict = Fail
				c.Seen = fmt.Sprintf("too much or too early: %s after a denial request %d was admitted although nothing was left",
					span(v.Sent.Sub(denied.Sent)), run)
				return v
			}
		}
	}
	return nil
}

// tooLate describes how late a key recovered. The denial at n is wrong.
func tooLate(j *explain.Judgement, n int, denied *explain.View) string {
	begin := denied // the first denial after the last admission
	for k := n - 1; k >= 0 && j.Views[k].Outcome == endpoint.Denied; k-- {
		begin = &j.Views[k]
	}
	last := &j.Views[n]
	for _, later := range j.Views[n:] {
		if later.Outcome == endpoint.Allowed {
			return fmt.Sprintf("too late: denied at first, still denied %s later, admitted %s later",
				span(last.Sent.Sub(begin.Sent)), span(later.Sent.Sub(begin.Sent)))
		}
		last = &later
	}
	return fmt.Sprintf("denied at first, still denied %s later, and no later request of that subject was admitted",
		span(last.Sent.Sub(begin.Sent)))
}

// comesBack describes when used units come back.
func comesBack(l *store.Limit) string {
	period := store.FormatPeriod(l.Period)
	switch {
	case l.Refill != 0:
		return fmt.Sprintf("%d come back every %s, at once, up to %d", l.RefillUnits(), store.FormatPeriod(l.Refill), l.Capacity())
	case l.Algorithm.HasBurst():
		return fmt.Sprintf("%d come back in %s, up to %d", l.Count, period, l.Capacity())
	case l.Algorithm == store.FixedWindow:
		return fmt.Sprintf("%d are back when the window of %s ends, and no more", l.Count, period)
	case l.Algorithm == store.SlidingCounter:
		return fmt.Sprintf("all %d are back after %s at the latest, and no more", l.Count, store.FormatPeriod(2*l.Period))
	default:
		return fmt.Sprintf("each comes back %s after it was used, and no more", period)
	}
}
