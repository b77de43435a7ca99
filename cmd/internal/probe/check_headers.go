package probe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/cmd/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// mostFindings is the most findings about headers in one line.
const mostFindings = 4

// dialectOrder orders the dialects: the first is the one that clients should read.
var dialectOrder = []string{
	headers.DialectDraft8, headers.DialectDraft7, headers.DialectDraft6, headers.DialectKong, headers.DialectGitHub,
	headers.DialectEnvoy, headers.DialectAPISIX, headers.DialectSpring,
	headers.DialectXUnix, headers.DialectX, headers.DialectRLS,
}

// findings are mistakes in headers: the first of each kind, and how many there are.
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

// texts returns the findings in words.
func (f *findings) texts() (texts []string) {
	for _, kind := range f.kinds {
		text := f.first[kind]
		if n := f.count[kind]; n > 1 {
			text += fmt.Sprintf(" (and %s more)", output.Plural(n-1, "answer"))
		}
		texts = append(texts, text)
	}
	return texts
}

// headers checks the fields about limits, without Retry-After. dialects are those that were seen.
func (e *proof) headers() (c Check, dialects []string) {
	c = Check{Name: checkHeaders, Verdict: Unknown, Seen: "no field is about a limit"}
	c.Expected = "fields that can be read, agree and are true"
	if e.hasLimit {
		c.Expected = "fields that can be read, agree and are true of " + e.name()
	}
	var found findings
	told := 0
	for i := range e.keys {
		for _, event := range e.keys[i].Events {
			r := e.readings[event]
			if len(r.Families) > 0 {
				told++
			}
			for _, problem := range r.Problems {
				kind, _, _ := strings.Cut(problem, "=")
				kind, _, _ = strings.Cut(kind, ": ")
				found.add("syntax "+kind, "%s", problem)
			}
			for k := range r.Families {
				if name := r.Families[k].Dialect; !slices.Contains(dialects, name) {
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
	case told == 0:
		c.Moot = len(e.keys) > 0
	case !e.hasLimit || e.guessed && e.least() == 0:
		c.Seen = fmt.Sprintf("%s on %s; it is not known whether they are true",
			strings.Join(dialects, " and "), output.Plural(told, "answer"))
	case e.least() > 0:
		c.Seen = fmt.Sprintf("%s on %s; it is not known whether they are true, since the limit is not kept",
			strings.Join(dialects, " and "), output.Plural(told, "answer"))
	default:
		c.Verdict, c.Seen = Pass, fmt.Sprintf("%s on %s, and true", strings.Join(dialects, " and "), output.Plural(told, "answer"))
	}
	return c, dialects
}

// dialects sorts the dialects that were seen. X-RateLimit without a reset is no dialect of its own beside one with a
// reset.
func (e *proof) dialects(seen []string, found *findings) []string {
	withReset := false
	for i := range e.keys {
		for _, event := range e.keys[i].Events {
			for _, f := range e.readings[event].Families {
				withReset = withReset || f.Dialect == headers.DialectX && f.Limits[0].HasReset
			}
		}
	}
	for _, unix := range []string{headers.DialectXUnix, headers.DialectGitHub} {
		if !slices.Contains(seen, unix) || !slices.Contains(seen, headers.DialectX) {
			continue
		}
		if withReset {
			found.add("mixed", "X-RateLimit-Reset is a unix time in one answer and seconds in another")
			continue
		}
		for i := range e.keys {
			for _, event := range e.keys[i].Events {
				for k := range e.readings[event].Families {
					if f := &e.readings[event].Families[k]; f.Dialect == headers.DialectX {
						f.Dialect = unix
					}
				}
			}
		}
		seen = slices.DeleteFunc(seen, func(name string) bool { return name == headers.DialectX })
	}
	slices.SortFunc(seen, func(a, b string) int { return slices.Index(dialectOrder, a) - slices.Index(dialectOrder, b) })
	return seen
}

// agree finds families in one answer whose remaining units differ.
func agree(r *headers.Reading, found *findings) {
	var first *headers.Limit
	for i := range r.Families {
		limit := r.Families[i].Tightest()
		switch {
		case limit == nil || limit.Unit != "":
		case first == nil:
			first = limit
		case limit.Remaining != first.Remaining:
			found.add("contradict "+first.LeftField+limit.LeftField, "%s and %s contradict each other: %d and %d in one answer",
				first.LeftField, limit.LeftField, first.Remaining, limit.Remaining)
		}
	}
}

// retryAgrees finds a t of RateLimit that is later than Retry-After in the same denial.
func retryAgrees(r *headers.Reading, found *findings) {
	if r.RetryAfter == headers.NotTold || r.RetryDate {
		return
	}
	for i := range r.Families {
		f := &r.Families[i]
		if f.Dialect != headers.DialectDraft8 && f.Dialect != headers.DialectDraft7 {
			continue
		}
		for k := range f.Limits {
			if l := &f.Limits[k]; l.Remaining == 0 && l.HasReset && l.Reset > r.RetryAfter && len(f.Limits) == 1 {
				found.add("later "+l.ResetField, "%s=%d is later than Retry-After: %s", l.ResetField, l.Reset/time.Second, r.RetryText)
			}
		}
	}
}

// subject is what the fields of a dialect say about the limit in question, in the answers of one key.
type toldAnswer struct {
	*explain.View
	number int // of the request, from 1
	told   *headers.Limit
}

// truth compares what the fields of a dialect say about one key with what is true.
func (e *proof) truth(dialect string, at int, found *findings) {
	if len(e.model.Beside) > 0 {
		e.truthTogether(dialect, at, found)
		return
	}
	var answers []toldAnswer
	for n, event := range e.keys[at].Events {
		r := e.readings[event]
		for k := range r.Families {
			if r.Families[k].Dialect != dialect {
				continue
			}
			if limit := r.Families[k].About(func(l *headers.Limit) bool { return e.hasLimit && e.isLimit(l) }); limit != nil {
				v := &explain.View{Event: event}
				if e.hasLimit {
					v = &e.judged[at].Views[n]
				}
				answers = append(answers, toldAnswer{v, n + 1, limit})
			}
			break
		}
	}
	e.compareTold(answers, &e.model.Limit, found)
}

// compareTold compares what answers to one key say about a limit with what is true.
func (e *proof) compareTold(answers []toldAnswer, limit *store.Limit, found *findings) {
	grows(e, answers, limit, found)
	if !e.hasLimit || e.guessed {
		return
	}
	e.policyTrue(answers, found)
	// After the first answer that the limit does not explain, the truth is unknown.
	for i := range answers {
		if answers[i].Over || answers[i].Under || e.least() > 0 && !answers[i].Judged {
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

// grows finds a reset that moves away while nothing is admitted.
func grows(e *proof, answers []toldAnswer, limit *store.Limit, found *findings) {
	for i := 1; i < len(answers); i++ {
		a, b := &answers[i-1], &answers[i]
		if b.Outcome != endpoint.Denied || a.Outcome == endpoint.Failed || !a.told.HasReset || !b.told.HasReset || e.model.Charges ||
			b.number != a.number+1 || a.Outcome == endpoint.Allowed && e.hasLimit && limit.Algorithm.HasBurst() {
			continue
		}
		before, after := a.Answered.Add(a.told.Reset), b.Sent.Add(b.told.Reset)
		if grown := after.Sub(before); grown > time.Second+explain.Resolution {
			found.add("grows "+b.told.ResetField, "%s grows while nothing is admitted: request %d says %s, and request %d, %s later, %s",
				b.told.ResetField, a.number, span(a.told.Reset), b.number, span(b.Sent.Sub(a.Sent)), span(b.told.Reset))
		}
	}
}

// neverFalls finds a number of remaining units that stays the same although requests are admitted.
func neverFalls(answers []toldAnswer, found *findings) bool {
	const enough = 3
	run := 0
	for i := range answers {
		a := &answers[i]
		if a.Outcome != endpoint.Allowed || a.told.Remaining == headers.NotTold || a.Overlaps ||
			i > 0 && a.told.Remaining != answers[0].told.Remaining || i > 0 && a.Remaining[1] >= answers[i-1].Remaining[0] {
			break
		}
		run++
	}
	if run < enough {
		return false
	}
	found.add("stays "+answers[0].told.LeftField, "%s never falls: it is %d in each of %d answers although all were admitted",
		answers[0].told.LeftField, answers[0].told.Remaining, run)
	return true
}

// remainingTrue finds wrong numbers of remaining units.
func remainingTrue(answers []toldAnswer, found *findings) {
	for i := range answers {
		a := &answers[i]
		if a.told.Remaining == headers.NotTold || !a.Judged || a.Overlaps || a.Outcome == endpoint.Failed {
			continue
		}
		least, most := a.Remaining[0], a.Remaining[1]
		switch {
		case a.told.Remaining > most:
			found.add("more "+a.told.LeftField, "%s is %d after request %d, and only %d are left: %d too many",
				a.told.LeftField, a.told.Remaining, a.number, most, a.told.Remaining-most)
		case a.told.Remaining < least:
			found.add("less "+a.told.LeftField, "%s is %d after request %d, and %d are left: %d too few",
				a.told.LeftField, a.told.Remaining, a.number, least, least-a.told.Remaining)
		}
	}
}

// resetTrue finds resets at which nothing happens.
func (e *proof) resetTrue(answers []toldAnswer, found *findings) {
	slack := time.Second + e.model.Resolution // they are in whole seconds, rounded up or down
	if e.skew != 0 {
		slack += time.Second // the clock's offset is known only to the second
	}
	for i := range answers {
		a := &answers[i]
		if !a.told.HasReset || !a.Judged || a.Overlaps || a.Outcome == endpoint.Failed || e.least() > 0 {
			continue
		}
		early, late := a.Answered.Add(a.told.Reset), a.Sent.Add(a.told.Reset)
		switch {
		case early.Before(a.More.Add(-slack)):
			found.add("early "+a.told.ResetField, "%s says %s after request %d, and nothing is back for %s",
				a.told.ResetField, span(a.told.Reset), a.number, span(a.More.Sub(a.Answered)))
		case late.After(a.Unused.Add(slack)):
			found.add("late "+a.told.ResetField, "%s says %s after request %d, and all is back after %s already",
				a.told.ResetField, span(a.told.Reset), a.number, span(a.Unused.Sub(a.Answered)))
		}
	}
}
