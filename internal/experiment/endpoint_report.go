package experiment

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/shell"
)

// describe adds to a report what is known of an endpoint alone.
func (t *endpointTarget) describe(run *report.Run, names *endpoint.Subjects) {
	run.Endpoint = &report.Endpoint{Subjects: names.Pattern(), WrongHeaders: t.wrongHeaders()}
	if run.Audit.Lies == nil && len(run.Endpoint.WrongHeaders) > 0 {
		run.Audit.Lies = new(report.Lies) // something was told, and nothing of it could be checked
	}
	if run.Keys > 0 {
		run.Endpoint.FirstSubject = t.nameOf(0)
		if len(names.List) > 0 {
			run.Endpoint.FirstSubject = "" // a key of an API is nobody's business
		}
	}
	run.Statuses = map[string]int64{}
	var seen []int
	for status := range t.statuses {
		if n := t.statuses[status].Load(); n > 0 {
			name := strconv.Itoa(status)
			if status < http.StatusContinue { // of gRPC
				name = endpoint.StatusText(status)
			}
			run.Statuses[name] = n
			seen = append(seen, status)
		}
	}
	if connected, is := t.client.(endpoint.Connected); is {
		o := connected.Openings()
		run.Endpoint.Connections = &report.Connections{Opened: o.Count, Connect: report.QuantilesOf(o.Connect),
			TLS: report.QuantilesOf(o.TLS)}
		if o.LongBodies > 0 {
			run.Warnings = append(run.Warnings, fmt.Sprintf(
				"the bodies of %s were longer than 1 MiB; their rest was not read, and each of them cost a connection",
				output.Plural(int(o.LongBodies), "answer")))
		}
	}
	run.Warnings = append(run.Warnings, t.warnings(run, names, seen)...)
}

// warnings are about statuses that may not mean what they were taken for, and about subjects.
func (t *endpointTarget) warnings(run *report.Run, names *endpoint.Subjects, seen []int) (all []string) {
	if hasSubject, _ := t.client.Places(); !hasSubject {
		all = append(all, "nothing in a request says who asks, so the endpoint counts all of them for one "+
			"subject, together with requests from before and from others")
	} else if !names.IsFresh() {
		all = append(all, "the subjects are not new, so usage from before this run and from others counts, too")
	}
	if other := t.otherLimit(); other != "" {
		all = append(all, other)
	}
	if looks := t.looksDenied(run, seen); looks != "" {
		all = append(all, looks)
	}
	if run.Denied > 0 {
		return append(all, t.unseen(run, names)...)
	}
	if len(seen) == 0 || seen[0] < 100 {
		return all
	}
	is := func(low, high int) bool {
		return !slices.ContainsFunc(seen, func(status int) bool { return status < low || status > high })
	}
	hint := fmt.Sprintf("? If that is how this endpoint denies, add --denied-status %d", seen[len(seen)-1])
	every := "every answer was " + endpoint.StatusText(seen[0])
	switch {
	case is(300, 399) && len(seen) == 1:
		all = append(all, every+", and redirects are not followed; give the URL that it leads to")
	case is(300, 399):
		all = append(all, "every answer was a redirect, and those are not followed; give the URL that they lead to")
	case is(401, 401), is(403, 403):
		all = append(all, every+", so the request may not have reached the limit; does it need a --header 'Authorization: …'"+hint)
	case is(400, 499) && len(seen) == 1:
		all = append(all, every+", so the request may not have reached the limit; is this the right URL, method and body"+hint)
	case seen[len(seen)-1] >= 500 && seen[len(seen)-1] < 600: // --denied-status takes no others
		all = append(all, endpoint.StatusText(seen[len(seen)-1])+" counts as an error"+strings.Replace(hint, "?", ".", 1))
	}
	return all
}

// looksDenied says which answers beside those of success may be denials although they count as allowed: those that say when to
// come back, and those that are enough to explain what was admitted too much.
func (t *endpointTarget) looksDenied(run *report.Run, seen []int) string {
	if len(seen) == 0 || seen[0] < 200 || seen[0] > 299 {
		return ""
	}
	var known []string
	found, over := 0, float64(run.Audit.Over())
	for _, status := range seen {
		n, waits := t.statuses[status].Load(), t.waits[status] > 0
		switch {
		case t.denies[status].Load():
			known = append(known, strconv.Itoa(status))
		case status >= 500, over == 0 && (!waits || run.Denied > 0):
		case waits, status > 299 && float64(n)*max(1, run.Audit.Admitted/float64(max(1, run.Allowed))) >= over:
			if found == 0 || found < 300 || n > t.statuses[found].Load() {
				found = status
			}
		}
	}
	switch {
	case found == 0:
		return ""
	case found < 300:
		return fmt.Sprintf("%s of %s have Retry-After, as denials do, and count as allowed; denials are known by their status alone",
			output.Count(t.waits[found], "answer"), endpoint.StatusText(found))
	}
	return fmt.Sprintf("%s of %s count as allowed. If that is how this endpoint denies, add %s",
		output.Count(t.statuses[found].Load(), "answer"), endpoint.StatusText(found),
		shell.Command("--denied-status", strings.Join(append(known, strconv.Itoa(found)), ",")))
}

// Loads of fewer subjects, or of fewer periods, leave something open about a limit.
const (
	enoughSubjects = 12
	fewPeriods     = 3
	enoughPeriods  = 10
	enoughTime     = 2 * time.Minute // clocks and calendars repeat each minute
	longest        = time.Hour       // that somebody waits for a load
)

// unseen says what of a limit such a load cannot show, and the flag that would.
func (t *endpointTarget) unseen(run *report.Run, names *endpoint.Subjects) (all []string) {
	if hasSubject, _ := t.client.Places(); hasSubject && run.Keys == 1 && len(names.List) == 0 {
		all = append(all, fmt.Sprintf("only one subject asked; whether subjects share a limit, or push one another out of memory, "+
			"is seen with --keys %d", enoughSubjects))
	}
	if t.limit == nil {
		return all
	}
	sent := time.Duration(run.CountedMS()) * time.Millisecond
	if long := max(enoughTime, enoughPeriods*t.limit.Period); sent < fewPeriods*t.limit.Period && long <= longest {
		all = append(all, fmt.Sprintf("the load was shorter than %d periods of the limit; what goes wrong then is seen with --duration %dm",
			fewPeriods, (long+time.Minute-1)/time.Minute))
	}
	return all
}
