package probe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
)

// mostFindings is how many findings about headers are told in one line.
const mostFindings = 4

// dialectOrder orders the dialects: what is told first is what clients should read.
var dialectOrder = []string{
	dialectDraft8, dialectDraft7, dialectDraft6, dialectKong, dialectGitHub, dialectEnvoy, dialectAPISIX, dialectSpring,
	dialectXUnix, dialectX, dialectRLS,
}

// findings are what is wrong with headers, one of a kind: the first, and how many there are.
type findings struct {
	kinds []string
	first map[string]string
	count map[string]int
}

func (f *findings) add(kind, format string, args ...any) {
	if f.first == nil {
		f.first, f.count = make(map[string]string), make(map[string]int)
	}
	if f.count[kind]++; f.count[kind] == 1 {
		f.kinds, f.first[kind] = append(f.kinds, kind), fmt.Sprintf(format, args...)
	}
}

// texts are the findings in words.
func (f *findings) texts() (texts []string) {
	for _, kind := range f.kinds {
		text := f.first[kind]
		if n := f.count[kind]; n > 1 {
			text += fmt.Sprintf(" (and %s more)", counted(n-1, "answer"))
		}
		texts = append(texts, text)
	}
	return texts
}

// headers is the check of the fields that tell of limits, Retry-After aside. dialects are those
// that were seen.
func (e *proof) headers() (c Check, dialects []string) {
	c = Check{Name: checkHeaders, Verdict: Unknown, Seen: "no field tells of a limit"}
	c.Expected = "fields that can be read, agree and are true"
	if e.hasLimit {
		c.Expected = fmt.Sprintf("fields that can be read, agree and are true of %s", e.model.limit)
	}
	var found findings
	told := 0
	for i := range e.keys {
		for _, event := range e.keys[i].events {
			r := e.readings[event]
			if len(r.families) > 0 {
				told++
			}
			for _, problem := range r.problems {
				kind, _, _ := strings.Cut(problem, "=")
				kind, _, _ = strings.Cut(kind, ": ")
				found.add("syntax "+kind, "%s", problem)
			}
			for k := range r.families {
				if name := r.families[k].dialect; !slices.Contains(dialects, name) {
					dialects = append(dialects, name)
				}
			}
			agree(r, &found)
			if event.Outcome == endpoint.Denied {
				retryAgrees(r, &found)
			}
		}
	}
	dialects = e.dialects(dialects, &found)
	for _, dialect := range dialects {
		for i := range e.keys {
			e.truth(dialect, i, &found)
		}
	}
	switch texts := found.texts(); {
	case len(texts) > 0:
		c.Verdict, c.Details = Fail, texts
		c.Seen = strings.Join(texts[:min(len(texts), mostFindings)], "; ")
		if len(texts) > mostFindings {
			c.Seen += fmt.Sprintf("; and %d more", len(texts)-mostFindings)
		}
	case told > 0 && !e.hasLimit:
		c.Seen = fmt.Sprintf("%s on %s; whether it is true is not known", strings.Join(dialects, " and "), counted(told, "answer"))
	case told > 0 && e.least() > 0:
		c.Seen = fmt.Sprintf("%s on %s; whether it is true is not known, since the limit is not kept", strings.Join(dialects, " and "),
			counted(told, "answer"))
	case told > 0:
		c.Verdict, c.Seen = Pass, fmt.Sprintf("%s on %s, and true", strings.Join(dialects, " and "), counted(told, "answer"))
	}
	return c, dialects
}

// dialects sorts the dialects that were seen. X-RateLimit without a reset is no dialect of its
// own next to one with it.
func (e *proof) dialects(seen []string, found *findings) []string {
	withReset := false
	for i := range e.keys {
		for _, event := range e.keys[i].events {
			for _, f := range e.readings[event].families {
				withReset = withReset || f.dialect == dialectX && f.limits[0].hasReset
			}
		}
	}
	for _, unix := range []string{dialectXUnix, dialectGitHub} {
		if !slices.Contains(seen, unix) || !slices.Contains(seen, dialectX) {
			continue
		}
		if withReset {
			found.add("mixed", "X-RateLimit-Reset is a unix time in one answer and seconds in another")
			continue
		}
		for i := range e.keys {
			for _, event := range e.keys[i].events {
				for k := range e.readings[event].families {
					if f := &e.readings[event].families[k]; f.dialect == dialectX {
						f.dialect = unix
					}
				}
			}
		}
		seen = slices.DeleteFunc(seen, func(name string) bool { return name == dialectX })
	}
	slices.SortFunc(seen, func(a, b string) int { return slices.Index(dialectOrder, a) - slices.Index(dialectOrder, b) })
	return seen
}

// agree finds families in one answer that say different things are left.
func agree(r *fieldReading, found *findings) {
	var first *toldLimit
	for i := range r.families {
		limit := r.families[i].tightest()
		switch {
		case limit == nil || limit.unit != "":
		case first == nil:
			first = limit
		case limit.remaining != first.remaining:
			found.add("contradict "+first.leftField+limit.leftField, "%s and %s contradict each other: %d and %d in one answer",
				first.leftField, limit.leftField, first.remaining, limit.remaining)
		}
	}
}

// retryAgrees finds a t of RateLimit that is later than Retry-After in the same denial.
func retryAgrees(r *fieldReading, found *findings) {
	if r.retryAfter == notTold || r.retryDate {
		return
	}
	for i := range r.families {
		f := &r.families[i]
		if f.dialect != dialectDraft8 && f.dialect != dialectDraft7 {
			continue
		}
		for k := range f.limits {
			if l := &f.limits[k]; l.remaining == 0 && l.hasReset && l.reset > r.retryAfter && len(f.limits) == 1 {
				found.add("later "+l.resetField, "%s=%d is later than Retry-After: %s", l.resetField, l.reset/time.Second, r.retryText)
			}
		}
	}
}

// subject is what a dialect told of the limit in question, in the answers of one key.
type toldAnswer struct {
	*view
	number int // of the request, from 1
	told   *toldLimit
}

// truth holds what a dialect told of one key to what is true.
func (e *proof) truth(dialect string, at int, found *findings) {
	var answers []toldAnswer
	for n, event := range e.keys[at].events {
		r := e.readings[event]
		for k := range r.families {
			if r.families[k].dialect != dialect {
				continue
			}
			if limit := e.inQuestion(&r.families[k]); limit != nil {
				v := &view{Event: event}
				if e.hasLimit {
					v = &e.judged[at].views[n]
				}
				answers = append(answers, toldAnswer{v, n + 1, limit})
			}
			break
		}
	}
	grows(e, answers, found)
	if !e.hasLimit {
		return
	}
	e.policyTrue(answers, found)
	// What is true after the first answer that the limit does not explain is not known.
	for i := range answers {
		if answers[i].over || answers[i].under || e.least() > 0 && !answers[i].judged {
			answers = answers[:i]
			break
		}
	}
	if neverFalls(answers, found) {
		return
	}
	remainingTrue(answers, found)
	e.resetTrue(answers, found)
}

// inQuestion is the one of several limits that is like the one found, or else the tightest.
func (e *proof) inQuestion(f *fieldFamily) *toldLimit {
	var units []*toldLimit
	for i := range f.limits {
		if f.limits[i].unit == "" {
			units = append(units, &f.limits[i])
		}
	}
	if len(units) == 1 {
		return units[0]
	}
	for _, l := range units {
		if e.hasLimit && l.window != notTold && e.isLimit(l) {
			return l
		}
	}
	if tightest := f.tightest(); tightest != nil && tightest.unit == "" {
		return tightest
	}
	return nil
}

// grows finds a reset that moves away while nothing is admitted.
func grows(e *proof, answers []toldAnswer, found *findings) {
	for i := 1; i < len(answers); i++ {
		a, b := &answers[i-1], &answers[i]
		if b.Outcome != endpoint.Denied || a.Outcome == endpoint.Failed || !a.told.hasReset || !b.told.hasReset || e.model.charges ||
			b.number != a.number+1 || a.Outcome == endpoint.Allowed && e.hasLimit && e.model.limit.Algorithm.HasBurst() {
			continue
		}
		before, after := a.Answered.Add(a.told.reset), b.Sent.Add(b.told.reset)
		if grown := after.Sub(before); grown > time.Second+resolution {
			found.add("grows "+b.told.resetField, "%s grows while nothing is admitted: request %d says %s, and request %d, %s later, %s",
				b.told.resetField, a.number, span(a.told.reset), b.number, span(b.Sent.Sub(a.Sent)), span(b.told.reset))
		}
	}
}

// neverFalls finds that what is left is told as the same although requests were admitted.
func neverFalls(answers []toldAnswer, found *findings) bool {
	const enough = 3
	run := 0
	for i := range answers {
		a := &answers[i]
		if a.Outcome != endpoint.Allowed || a.told.remaining == notTold || a.overlaps || i > 0 && a.told.remaining != answers[0].told.remaining ||
			i > 0 && a.remaining[1] >= answers[i-1].remaining[0] {
			break
		}
		run++
	}
	if run < enough {
		return false
	}
	found.add("stays "+answers[0].told.leftField, "%s never falls: it is %d in each of %d answers although all were admitted",
		answers[0].told.leftField, answers[0].told.remaining, run)
	return true
}

// remainingTrue finds what is told as left and is not.
func remainingTrue(answers []toldAnswer, found *findings) {
	for i := range answers {
		a := &answers[i]
		if a.told.remaining == notTold || !a.judged || a.overlaps || a.Outcome == endpoint.Failed {
			continue
		}
		least, most := a.remaining[0], a.remaining[1]
		switch {
		case a.told.remaining > most:
			found.add("more "+a.told.leftField, "%s is %d after request %d, and only %d are left: %d too many",
				a.told.leftField, a.told.remaining, a.number, most, a.told.remaining-most)
		case a.told.remaining < least:
			found.add("less "+a.told.leftField, "%s is %d after request %d, and %d are left: %d too few",
				a.told.leftField, a.told.remaining, a.number, least, least-a.told.remaining)
		}
	}
}

// resetTrue finds resets at which nothing happens.
func (e *proof) resetTrue(answers []toldAnswer, found *findings) {
	slack := time.Second + e.model.resolution // they are whole seconds, rounded up or down
	if e.skew != 0 {
		slack += time.Second // which is known by the second only
	}
	for i := range answers {
		a := &answers[i]
		if !a.told.hasReset || !a.judged || a.overlaps || a.Outcome == endpoint.Failed || e.least() > 0 {
			continue
		}
		early, late := a.Answered.Add(a.told.reset), a.Sent.Add(a.told.reset)
		switch {
		case early.Before(a.more.Add(-slack)):
			found.add("early "+a.told.resetField, "%s says %s after request %d, and nothing is back for %s",
				a.told.resetField, span(a.told.reset), a.number, span(a.more.Sub(a.Answered)))
		case late.After(a.unused.Add(slack)):
			found.add("late "+a.told.resetField, "%s says %s after request %d, and all is back after %s already",
				a.told.resetField, span(a.told.reset), a.number, span(a.unused.Sub(a.Answered)))
		}
	}
}
