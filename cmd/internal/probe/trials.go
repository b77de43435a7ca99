package probe

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe/explain"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A trial is an experiment about something else than the limit: whether it holds for requests over several connections,
// for several at once, for other methods. Its requests have subjects of their own and are left out where the limit is
// judged. Otherwise a defect of a trial would make the limit a guess, and then nothing would be called wrong.

// enoughDenials is the number of denials in a row that end a trial. Where several processes count for themselves, the
// first denial is only that of one of them.
const enoughDenials = 4

// trial is one experiment under way.
type trial struct {
	*verification
	Check
	by     *proof          // everything but the trials
	asked  []explain.Event // by the trial
	before []explain.Event // by the first of two experiments
}

// errEnough ends a trial that proves nothing; the check says why.
type errEnough string

func (e errEnough) Error() string { return string(e) }

// sendTrials runs the trials, after the limit was seen to deny.
func (v *verification) sendTrials() error {
	e := v.proof()
	for _, run := range []func(*trial) error{
		(*trial).connections, (*trial).atOnce, (*trial).similarNames, (*trial).methods, (*trial).costs,
	} {
		t := &trial{verification: v, by: e}
		err := run(t)
		var why errEnough
		if errors.As(err, &why) {
			t.Verdict, t.Seen, err = Unknown, string(why), nil
		}
		if t.Name != "" && (err == nil || t.Verdict == Fail) { // what was found stays found
			v.tried = append(v.tried, t.Check)
		}
		if err != nil {
			return err
		}
	}
	return (&trial{verification: v, by: e}).another()
}

// trialChecks returns the checks of the trials. Those that did not end are unknown.
func (v *verification) trialChecks(e *proof) (checks []Check) {
	for _, c := range []Check{
		{Name: checkSimilarNames, Expected: "subjects whose names differ in case or at their end have limits of their own"},
		{Name: checkConnections, Expected: "the limit holds over many connections"},
		{Name: checkAtOnce, Expected: "the limit holds for requests at the same time"},
		{Name: checkMethods, Expected: "other methods do not pass the limit"},
		{Name: checkCosts, Expected: "a request counts for what it costs"},
	} {
		c.Verdict, c.Seen = Unknown, "the limit was not seen to deny"
		if i := slices.IndexFunc(v.tried, func(tried Check) bool { return tried.Name == c.Name }); i >= 0 {
			c.Verdict, c.Seen, c.Details, c.Moot = v.tried[i].Verdict, v.tried[i].Seen, v.tried[i].Details, v.tried[i].Moot
		} else if why := v.moot(c.Name); why != "" {
			c.Seen, c.Moot = why, true
		} else if e.reached() {
			c.Seen = "it was not tried, as no requests or no time was left"
		}
		checks = append(checks, c)
	}
	return checks
}

// moot says why there is nothing to try; empty if there is.
func (v *verification) moot(name string) string {
	switch {
	case name == checkSimilarNames && !v.canChoose():
		return "all requests are of one subject: there is no {subject} in the request"
	case name == checkSimilarNames && !v.config.AnyName:
		return "the names of the subjects are given"
	case name == checkConnections && v.config.Fresh == nil:
		return "each request has a connection of its own already, or the protocol shares one"
	case name == checkAtOnce && v.config.Workers < 2:
		return "one request at a time was asked for"
	case name == checkMethods && len(v.config.Methods) == 0:
		return "only GET has methods that do the same"
	case name == checkCosts && !v.hasCost():
		return "there is no {cost} in the request"
	case name == checkCosts && v.discovery.Limit != nil && v.model.Limit.Capacity() < 2:
		return "no request can cost more than 1"
	case name != checkConnections && !v.canChoose():
		return "all requests are of one subject: there is no {subject} in the request"
	}
	return ""
}

// hasCost reports whether the request names its cost.
func (v *verification) hasCost() bool {
	templated, is := v.config.Client.(endpoint.Templated)
	if !is {
		return false
	}
	_, cost := templated.Places()
	return cost
}

// reached reports whether a request was denied, apart from trials.
func (e *proof) reached() bool {
	return slices.ContainsFunc(e.keys, func(k explain.Key) bool {
		return slices.ContainsFunc(k.Events, func(event *explain.Event) bool { return event.Outcome == endpoint.Denied })
	})
}

// begin names the trial, and reports whether it can be run and judged by the limit.
func (t *trial) begin(name, what string) (goOn bool, err error) {
	if t.moot(name) != "" {
		return false, nil
	}
	t.Name = name
	capacity := t.model.Limit.Capacity()
	switch {
	case t.by.sharing.Verdict == Fail:
		return false, errEnough("all subjects share one limit, so a new one is not unused")
	case !t.by.judges():
		return false, errEnough("not all answers fit the limit, so more of them prove nothing")
	case capacity+enoughDenials > int64(t.requestsLeft()):
		return false, errEnough(fmt.Sprintf("that takes %d requests more, and %d were left; give more --requests", capacity+enoughDenials,
			t.requestsLeft()))
	}
	t.step(0, "asking "+what)
	return true, nil
}

// judges reports whether the limit explains everything that was seen, so that it can judge a trial.
func (e *proof) judges() bool {
	if !e.hasLimit || e.config.Limit == nil && !e.exact {
		return false
	}
	if certain := e.certain(); certain != nil {
		return certain.OverAdmitted+certain.UnderAdmitted == 0
	}
	return e.least() == 0
}

// ask sends requests of a subject, so many at once, until some in a row are denied or twice the limit was sent. It
// ends early at an answer that is not the usual one.
func (t *trial) ask(w way, subject string, atOnce, denials int) error {
	w.trial = t.Name
	before := t.session.way
	t.session.way = w
	defer func() { t.session.way = before }()
	most := min(2*t.model.Limit.Capacity()+2, int64(t.requestsLeft()))
	streak, failures := 0, 0
	for sent := int64(0); sent < most && streak < denials; {
		events, err := t.sendAtOnce(subject, int(min(int64(atOnce), most-sent)))
		t.asked = append(t.asked, events...)
		if err != nil {
			return err
		}
		sent += int64(len(events))
		for i := range events {
			switch e := &events[i]; e.Outcome {
			case endpoint.Denied:
				streak++
				continue
			case endpoint.Failed:
				if failures++; failures == mostFailed {
					return errEnough(fmt.Sprintf("%d requests failed, the last one with %s", failures, failureOf(e)))
				}
			case endpoint.Allowed:
				if e.Status != t.statuses.usual {
					return errEnough("the answer was " + endpoint.StatusText(e.Status))
				}
			}
			streak = 0
		}
	}
	return nil
}

// mostFailed is the number of failed requests after which a trial gives up.
const mostFailed = 3

// failureOf describes why a request failed.
func failureOf(e *explain.Event) string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return endpoint.StatusText(e.Status)
}

// count returns how many requests of the trial had an outcome.
func (t *trial) count(outcome endpoint.Outcome) (n int) {
	for i := range t.asked {
		if t.asked[i].Outcome == outcome {
			n++
		}
	}
	return n
}

// beyond returns how many units of what was admitted the limit does not allow, whenever the requests were decided. What
// was denied is left out: that is not what the trial is about. Each list is of a subject of its own.
func (e *proof) beyond(trials ...[]explain.Event) int64 {
	keys := slices.Clone(e.keys)
	over := int64(0)
	for _, events := range trials {
		key := explain.Key{Subject: "trial", Fresh: true}
		if !e.canChoose { // the trials add to what was used before
			key, keys = keys[0], nil
			key.Events = slices.Clone(key.Events)
		}
		for i := range events {
			if events[i].Outcome == endpoint.Allowed {
				key.Events = append(key.Events, &events[i])
			}
		}
		if len(key.Events) == 0 {
			continue
		}
		key.Events = explain.InOrder(key.Events)
		keys = append(keys, key)
		over = e.model.Judge(key.Events, key.Fresh).Over
	}
	if e.model.Behaviour != (explain.Behaviour{}) {
		return over
	}
	if len(e.model.Beside) > 0 {
		return e.beyondTogether(keys)
	}
	certain := explain.ProvenByPhase(e.model.Limit, keys, e.model.Resolution)
	return certain.LeastOver + certain.LeastUnder
}

// beyond is that of the proof, which can take long.
func (t *trial) beyond(trials ...[]explain.Event) int64 {
	defer t.judged(t.clock.Now())
	return t.by.beyond(trials...)
}

// judge sets the verdict of a trial that asked for more than the limit. held is what holds, and broken why not.
func (t *trial) judge(held, broken string) {
	admitted, denied := t.count(endpoint.Allowed), t.count(endpoint.Denied)
	switch over := t.beyond(t.before, t.asked); {
	case over > 0:
		t.Verdict = Fail
		t.Seen = fmt.Sprintf("%d too many: %d of %s admitted; %s", over, admitted, output.Plural(len(t.asked), "request"), broken)
	case denied == 0:
		t.Seen = fmt.Sprintf("%s admitted and none denied, which the limit may allow in that time", output.Plural(admitted, "request"))
	case t.mayHide():
		t.Seen = fmt.Sprintf("%s admitted, perhaps of two windows", output.Plural(admitted, "request"))
	default:
		t.Verdict, t.Seen = Pass, fmt.Sprintf("%s admitted %s, and then denied", output.Plural(admitted, "request"), held)
	}
}

// mayHide reports whether the end of a window during the trial may hide what was too much.
func (t *trial) mayHide() bool {
	units := int64(0)
	for i := range t.asked {
		if t.asked[i].Outcome == endpoint.Allowed {
			units += t.asked[i].Cost
		}
	}
	return !t.model.Limit.Algorithm.HasBurst() && units > t.model.Limit.Capacity()
}

// betweenTwo is the pause between two experiments, so that not the same end of a window, which is known only to the
// resolution of instants, can be in both.
const betweenTwo = 20 * explain.Resolution

// twice runs an experiment, and once more if the end of a window may have hidden what was too much: both together need two
// ends.
func (t *trial) twice(experiment func() error) error {
	for range 2 {
		t.Verdict, t.before, t.asked = Unknown, t.asked, nil
		if err := experiment(); err != nil || t.Verdict != Unknown || !t.mayHide() {
			return err
		}
		pause := min(betweenTwo, t.model.Limit.Period/8)
		if t.model.Limit.Capacity()+enoughDenials > int64(t.requestsLeft()) || t.timeLeft() < pause {
			break
		}
		if err := t.wait(pause); err != nil {
			return err
		}
	}
	return nil
}

// connections sends each request over a connection of its own, as those of many clients come. A limit that is counted
// by process, port or connection then lets through several times as much.
func (t *trial) connections() error {
	goOn, err := t.begin(checkConnections, "over a new connection for each request")
	if !goOn {
		return err
	}
	return t.twice(func() error {
		subject := ""
		if t.canChoose() {
			subject = t.subject()
		} else if err := t.untilUnused(); err != nil {
			return err
		}
		if err := t.ask(way{client: t.config.Fresh, cost: 1}, subject, 1, enoughDenials); err != nil {
			return err
		}
		t.judge("over as many connections", "it seems to be counted by connection, port or process")
		return nil
	})
}

// untilUnused waits until nothing of the only subject is in use, if there is time.
func (t *trial) untilUnused() error {
	last := &t.events[len(t.events)-1]
	wait := last.Answered.Add(t.drain() - t.model.Limit.Period/2).Sub(t.clock.Now())
	if t.timeLeft() < wait {
		return errEnough("there was no time to wait until all is unused again")
	}
	t.step(wait, "waiting until all is unused")
	return t.wait(wait)
}

// atOnce sends as many requests at once as there are workers, again and again. A limit that is read and written in two
// steps then lets through too much.
func (t *trial) atOnce() error {
	goOn, err := t.begin(checkAtOnce, "with many requests at once")
	if !goOn {
		return err
	}
	return t.twice(func() error {
		if err := t.ask(way{client: t.config.Client, cost: 1}, t.subject(), t.config.Workers, 1); err != nil {
			return err
		}
		t.judge(fmt.Sprintf("of up to %d at once (--workers)", t.config.Workers), "requests at the same time do not see each other")
		return nil
	})
}

// methods sends requests that do the same as GET or tell about it. They must not pass the limit.
func (t *trial) methods() error {
	goOn, err := t.begin(checkMethods, "with other methods")
	if !goOn {
		return err
	}
	var seen []string
	all := Check{Name: t.Name, Verdict: Unknown, Moot: true}
	for _, method := range t.config.Methods {
		if t.model.Limit.Capacity()+1 > int64(t.requestsLeft()) {
			all.Moot = false
			break
		}
		var one Check
		if one, err = t.tryMethod(method); err != nil {
			break
		}
		seen = append(seen, method.Name+": "+one.Seen)
		all.Moot = all.Moot && one.Moot
		if one.Verdict == Fail || all.Verdict == Unknown {
			all.Verdict = one.Verdict
		}
	}
	if all.Seen = strings.Join(seen, "; "); len(seen) > 1 {
		all.Details = seen
	}
	t.Check = all
	return err
}

// tryMethod asks a new subject's limit with one method. It is moot if the endpoint does not do what GET does for it.
func (t *trial) tryMethod(method Method) (Check, error) {
	w := way{client: method.Client, cost: 1}
	if method.Name == http.MethodOptions {
		first, err := t.sendBy(w, t.subject())
		if err != nil {
			return Check{}, err
		}
		if first.Header.Get("Allow") != "" || first.Header.Get("Access-Control-Allow-Methods") != "" {
			return Check{Verdict: Unknown, Seen: "the answer only names the allowed methods", Moot: true}, nil
		}
	}
	t.asked = nil
	err := t.twice(func() error {
		if err := t.ask(w, t.subject(), 1, 1); err != nil {
			return err
		}
		t.judge("and counted", "they seem not to be counted")
		return nil
	})
	var why errEnough
	if errors.As(err, &why) {
		status := t.asked[len(t.asked)-1].Status
		return Check{Verdict: Unknown, Seen: string(why),
			Moot: status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented}, nil
	}
	return t.Check, err
}

// sendBy sends one request of the trial in a way.
func (t *trial) sendBy(w way, subject string) (explain.Event, error) {
	before := t.session.way
	w.trial = t.Name
	t.session.way = w
	defer func() { t.session.way = before }()
	return t.send(subject)
}

// costs asks for about half of the limit in one request, and then for single units.
func (t *trial) costs() error {
	goOn, err := t.begin(checkCosts, "with a request that costs more")
	if !goOn {
		return err
	}
	cost := max(2, t.model.Limit.Capacity()/2)
	return t.twice(func() error {
		subject := t.subject()
		first, err := t.sendBy(way{client: t.config.Client, cost: cost}, subject)
		if err != nil {
			return err
		}
		if first.Outcome != endpoint.Allowed || first.Status != t.statuses.usual {
			return errEnough(fmt.Sprintf("a request of cost %d was not admitted: %s", cost, failureOf(&first)))
		}
		t.asked = append(t.asked, first)
		if err := t.ask(way{client: t.config.Client, cost: 1}, subject, 1, 1); err != nil {
			return err
		}
		t.judge(fmt.Sprintf("of which the first cost %d", cost), fmt.Sprintf("the first one cost %d and seems to count less", cost))
		return nil
	})
}

// longName is the length of the names whose ends differ. Limiters that cut names do so at less.
const longName = 100

// similarNames exhausts one subject and asks as others whose names differ from it only in case, or in the last
// character of a long name. A limiter that folds or cuts names takes them for the same.
func (t *trial) similarNames() error {
	if t.moot(checkSimilarNames) != "" {
		return nil
	}
	t.Name = checkSimilarNames
	needed := t.model.Limit.Capacity() + 3*enoughDenials
	switch {
	case t.by.sharing.Verdict == Fail:
		return errEnough("all subjects share one limit")
	case needed > int64(t.requestsLeft()):
		return errEnough(fmt.Sprintf("that takes %d requests more, and %d were left; give more --requests", needed, t.requestsLeft()))
	}
	t.step(0, "asking as subjects with similar names")
	name := t.subject()
	name += "-" + strings.Repeat("x", max(0, longName-len(name)-2)) + "a"
	if err := t.ask(way{client: t.config.Client, cost: 1}, name, 1, 1); err != nil {
		return err
	}
	if t.count(endpoint.Denied) == 0 {
		if t.by.judges() && t.beyond(t.asked) > 0 {
			t.Verdict = Fail
			t.Seen = fmt.Sprintf("a subject of %d characters was never denied in %s, which is too many: it seems not to be limited",
				len(name), output.Plural(len(t.asked), "request"))
			return nil
		}
		return errEnough("the first of the subjects was never denied")
	}
	t.Verdict = Pass
	for _, other := range []struct{ name, differs string }{
		{strings.ToUpper(name), "in upper case"},
		{name[:len(name)-1] + "b", fmt.Sprintf("with another last one of its %d characters", len(name))},
	} {
		verdict, text, err := t.compareNames(name, other.name)
		if err != nil {
			return err
		}
		t.Details = append(t.Details, fmt.Sprintf("the same name %s: %s", other.differs, text))
		t.Seen = strings.Join(t.Details, "; ")
		if verdict == Fail || verdict == Unknown && t.Verdict == Pass {
			t.Verdict = verdict
		}
	}
	return nil
}

// compareNames asks as another subject while a subject is denied.
func (t *trial) compareNames(exhausted, other string) (verdict Verdict, seen string, err error) {
	usual := way{client: t.config.Client, cost: 1}
	first, err := t.sendBy(usual, other)
	if err != nil {
		return Unknown, "", err
	}
	switch {
	case first.Outcome == endpoint.Denied:
		control, err := t.sendBy(usual, t.subject())
		if err == nil && control.Outcome == endpoint.Allowed {
			return Fail, "denied at its first request, so the two share a limit", nil
		}
		return Unknown, "denied, and so was a subject with quite another name", err
	case first.Outcome == endpoint.Failed || first.Status != t.statuses.usual:
		return Unknown, "the answer was " + failureOf(&first), nil
	}
	together := append(slices.Clone(t.asked), first)
	for range min(t.meanwhile(), t.requestsLeft()-1) { // more than can have come back
		event, err := t.sendBy(usual, other)
		if err != nil {
			return Unknown, "", err
		}
		together = append(together, event)
	}
	last, err := t.sendBy(usual, exhausted)
	if err != nil {
		return Unknown, "", err
	}
	l := &t.model.Limit
	whole := l.Algorithm == store.FixedWindow && l.Count > 1 || // what comes back is more than was asked for since
		l.RefillUnits() > int64(t.meanwhile()+1)
	soon := last.Answered.Sub(together[0].Sent) < l.Period/2
	stillDenied := last.Outcome == endpoint.Denied && (whole || soon && l.Algorithm == store.SlidingLog)
	if t.by.judges() && (stillDenied || t.beyond(together) > 0) {
		return Pass, "admitted", nil
	}
	return Unknown, "admitted, perhaps because some units were back", nil
}
