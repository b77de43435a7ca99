package probe

import (
	"fmt"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/cmd/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Several limits of one endpoint: a request is admitted only if it fits all of them, and an answer seldom says which one
// denied it.

// fit judges all keys by what explains them best. For several limits that takes long, so what explained everything before is
// tried first, and if nothing did, it looks again only when much more was seen.
func (v *verification) fit(e *proof) {
	if len(v.model.Beside) == 0 {
		e.fit(v.discovery.PhaseKnown)
		return
	}
	const more = 1.5
	hopeless := v.unexplained > 0 && float64(len(v.events)) < more*float64(v.unexplained)
	if len(v.fitted.Beside) > 0 {
		e.model, e.judged = v.fitted, nil
		for i := range e.keys {
			e.judged = append(e.judged, e.model.Judge(e.keys[i].Events, e.keys[i].Fresh))
		}
		if e.weighTogether() == 0 || hopeless {
			return
		}
		e.model = v.model
	}
	e.fit(v.discovery.PhaseKnown)
	v.fitted, v.unexplained = e.model, 0
	if e.least() > 0 {
		v.unexplained = len(v.events)
	}
}

// weighTogether counts what several limits do not explain, as they are and if all of them counted denied requests. It returns the
// first of these numbers.
func (e *proof) weighTogether() (wrong int64) {
	wrongOther := int64(0)
	other := e.model
	other.Charges, other.Beside = !e.model.Charges, nil
	for _, one := range e.model.Beside {
		one.Charges = other.Charges
		other.Beside = append(other.Beside, one)
	}
	for i := range e.keys {
		wrong += e.judged[i].Over + e.judged[i].Under
		j := other.Judge(e.keys[i].Events, e.keys[i].Fresh)
		wrongOther += j.Over + j.Under
	}
	if e.wrong, e.wrongIfCharged = wrong, wrongOther; e.model.Charges {
		e.wrong, e.wrongIfCharged = wrongOther, wrong
	}
	return wrong
}

// limits returns all limits of the endpoint as the user may write them.
func (e *proof) limits() (all []store.Limit) {
	given := []*store.Limit{e.config.Limit}
	for i := range e.config.Beside {
		given = append(given, &e.config.Beside[i])
	}
	for i, one := range e.model.Each() {
		limit, _ := one.Named(0)
		if limit.Phase = 0; e.config.Limit != nil {
			if written, err := given[i].Normalize(); err == nil {
				limit.Phase = written.Phase
			}
		}
		all = append(all, limit)
	}
	return all
}

// names are the limits in words.
func (e *proof) names() (names []string) {
	for _, limit := range e.limits() {
		names = append(names, limit.String())
	}
	return names
}

// name is the limit in words, or all of several.
func (e *proof) name() string {
	if len(e.model.Beside) == 0 {
		return e.model.Limit.String()
	}
	return strings.Join(e.names(), " and ")
}

// provenTogether audits all keys by the intervals of their answers, of several limits.
func (e *proof) provenTogether() *audit.Finding {
	finding := e.model.ProvenTogether(e.limits(), e.keys)
	return &finding
}

// beyondTogether returns how many units of a trial are too many for one of several limits. Only what was admitted is looked at.
func (e *proof) beyondTogether(keys []explain.Key) (over int64) {
	admitted := make([]explain.Key, 0, len(keys))
	for _, key := range keys {
		one := explain.Key{Subject: key.Subject, Fresh: key.Fresh}
		for _, event := range key.Events {
			if event.Outcome == endpoint.Allowed {
				one.Events = append(one.Events, event)
			}
		}
		admitted = append(admitted, one)
	}
	for _, limit := range e.limits() {
		over = max(over, explain.Proven(limit, admitted, e.model.Resolution).LeastOver)
	}
	return over
}

// denied counts the denials that only one of the limits can have decided, and those that may be of any of them.
func (e *proof) denied() (own []int, anyOf int) {
	own = make([]int, len(e.model.Beside)+1)
	for i := range e.keys {
		for n, event := range e.keys[i].Events {
			if event.Outcome != endpoint.Denied {
				continue
			}
			if by := e.judged[i].MayDeny(n); len(by) == 1 {
				own[by[0]]++
			} else {
				anyOf++
			}
		}
	}
	return own, anyOf
}

// denials says which limit denied how often.
func (e *proof) denials() string {
	own, anyOf := e.denied()
	var parts []string
	for i, name := range e.names() {
		if own[i] > 0 {
			parts = append(parts, fmt.Sprintf("%s denied %s", name, output.Plural(own[i], "request")))
		}
	}
	if anyOf > 0 {
		parts = append(parts, fmt.Sprintf("%s may be due to any of the limits", output.Plural(anyOf, "denial")))
	}
	return strings.Join(parts, ", ")
}

// notSeenToDeny names those of several limits to which no denial is due for certain.
func (e *proof) notSeenToDeny() (names []string) {
	if len(e.model.Beside) == 0 {
		return nil
	}
	own, _ := e.denied()
	for i, name := range e.names() {
		if own[i] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// countsOthers says which of several limits counts what another one denies; empty if none is known to.
func (e *proof) countsOthers() string {
	if len(e.model.Beside) == 0 || e.least() > 0 {
		return ""
	}
	for i, one := range e.model.Each() {
		if one.Before {
			return "requests that another limit denies count in " + e.names()[i]
		}
	}
	return ""
}

// allowance describes in words what the limits allow.
func (e *proof) allowance() string { return e.inWords(allowance) }

// comesBack describes when used units come back.
func (e *proof) comesBack() string { return e.inWords(comesBack) }

func (e *proof) inWords(describe func(*store.Limit) string) string {
	var texts []string
	for _, one := range e.model.Each() {
		texts = append(texts, describe(&one.Limit))
	}
	return strings.Join(texts, ", and ")
}

// drain is the longest time that used units take to come back under all limits, and a period more.
func (v *verification) drain() (longest time.Duration) {
	for _, one := range v.model.Each() {
		longest = max(longest, drain(&one.Limit)+one.Limit.Period)
	}
	return longest
}

// firstView returns what must be true of the last event of a subject under the first of several limits; nil if there is one only.
func (e *proof) firstView(subject string) *explain.View {
	for i := range e.keys {
		if e.keys[i].Subject == subject && len(e.judged[i].Each) > 0 {
			return &e.judged[i].Each[0].Views[len(e.keys[i].Events)-1]
		}
	}
	return nil
}

// toldOf returns which of the limits the policy in the fields can be, by their places; nil if it is none of them.
func (e *proof) toldOf(l *headers.Limit) (places []int) {
	for i, one := range e.model.Each() {
		if l.Tells(&one.Limit) {
			places = append(places, i)
		}
	}
	return places
}

// noteOthersTold notes limits of which headers tell beside the one that was found, which denies first.
func (e *proof) noteOthersTold() []string {
	if !e.hasLimit || e.config.Limit != nil {
		return nil
	}
	for _, key := range e.keys {
		for _, event := range key.Events {
			for _, family := range e.readings[event].Families {
				var others []string
				found := false
				for k := range family.Limits {
					switch l := &family.Limits[k]; {
					case l.Unit != "" || l.Count <= 0 || l.Window <= 0:
					case e.isLimit(l):
						found = true
					default:
						others = append(others, fmt.Sprintf("%d/%s", l.Count, store.FormatPeriod(l.Window)))
					}
				}
				if found && len(others) > 0 {
					return []string{fmt.Sprintf("Its headers tell of another limit, %s; check both, with one --limit each.",
						strings.Join(others, ", "))}
				}
			}
		}
	}
	return nil
}

// truthTogether compares what the fields of a dialect say about each of several limits with what is true. Fields that can be
// about more than one of them are compared with none.
func (e *proof) truthTogether(dialect string, at int, found *findings) {
	each := e.model.Each()
	answers, others := make([][]toldAnswer, len(each)), []toldAnswer(nil)
	for n, event := range e.keys[at].Events {
		whole := &e.judged[at].Views[n]
		for _, family := range e.readings[event].Families {
			for k := range family.Limits {
				l := &family.Limits[k]
				if family.Dialect != dialect || l.Unit != "" || l.Count == headers.NotTold {
					continue
				}
				switch places := e.toldOf(l); {
				case len(places) == 1:
					v := e.judged[at].Each[places[0]].Views[n]
					v.Judged, v.Over, v.Under = whole.Judged, whole.Over, whole.Under
					answers[places[0]] = append(answers[places[0]], toldAnswer{&v, n + 1, l})
				case len(places) == 0:
					others = append(others, toldAnswer{whole, n + 1, l})
				}
			}
		}
	}
	for i := range each {
		e.compareTold(answers[i], &each[i].Limit, found)
	}
	if !e.guessed {
		e.policyTrue(others, found)
	}
}

// climb uses up all that the first limit gives, again and again, until each other limit was seen to deny, or until it must have
// been. At first it asks for no more than fits the first limit, since what that one denies may count in the others.
func (v *verification) climb() error {
	if len(v.model.Beside) == 0 {
		return nil
	}
	subject, longest := "", v.drain()
	v.step(longest, "using up what the first limit gives, until another one denies")
	for _, gently := range []bool{true, false} {
		if v.canChoose() {
			subject = v.subject()
		}
		seen, err := v.climbBy(subject, longest, gently)
		if err == nil && seen {
			_, err = v.awaitRecovery(subject)
		}
		if err != nil || seen || v.unexplained > 0 {
			return err
		}
	}
	return nil
}

// climbBy climbs with one subject, and reports whether each limit was seen to deny.
func (v *verification) climbBy(subject string, longest time.Duration, gently bool) (seen bool, err error) {
	for begin := v.clock.Now(); v.clock.Now().Sub(begin) <= longest; {
		if gently {
			_, err = v.exhaust(subject, int(min(v.model.Limit.Capacity(), int64(v.requestsLeft()))))
		} else {
			_, err = v.fill(subject)
		}
		if err == nil && v.requestsLeft() == 0 {
			err = errRequests
		}
		if err != nil {
			return false, err
		}
		e := v.proof()
		if len(e.notSeenToDeny()) == 0 {
			return true, nil
		}
		at := e.soonest(subject)
		if first := e.firstView(subject); gently && first != nil {
			at = first.Unused
		}
		if err := v.waitUntil(explain.Latest(at.Add(justAfter), v.clock.Now().Add(v.model.Limit.Period/8))); err != nil {
			return false, err
		}
	}
	return false, nil
}

// soonest returns the first instant at which one of the limits that may have denied a subject's last request has room again: what
// is denied then, another one denies.
func (e *proof) soonest(subject string) (first time.Time) {
	for i, key := range e.keys {
		last := len(key.Events) - 1
		if key.Subject != subject || key.Events[last].Outcome != endpoint.Denied {
			continue
		}
		for _, n := range e.judged[i].MayDeny(last) {
			if fits := e.judged[i].Each[n].Views[last].Fits[1]; first.IsZero() || fits.Before(first) {
				first = fits
			}
		}
	}
	return first
}

// climbPlan is the step of the plan for limits beside the first one.
func climbPlan(beside []store.Limit) string {
	var names []string
	units := int64(0)
	for i := range beside {
		if limit, err := beside[i].Normalize(); err == nil {
			names, units = append(names, limit.String()), max(units, limit.Capacity())
		}
	}
	return fmt.Sprintf("requests of another subject as fast as the first limit lets them through, until %s denies: about %d",
		strings.Join(names, " or "), units+1)
}
