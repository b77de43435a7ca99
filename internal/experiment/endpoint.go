package experiment

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// EndpointPlan is what a load test of an endpoint has beside that of a store.
type EndpointPlan struct {
	// Names, if there are any, are those of subjects in requests; else each run has new ones.
	Names []string
	// Intervals is what is known of the clock that decides.
	Intervals interval.Options
}

// nameSubjects gives the subjects of a run the names that an endpoint sees.
func (r *loadRun) nameSubjects() {
	known, run := r.population.nameOf, strings.ToLower(rand.Text()[:8])
	r.sentAs = func(subject uint32) string { return run + "-" + known(subject) }
	r.population.nameOf = r.sentAs
	if names := r.Endpoint.Names; len(names) > 0 { // they may be secret
		r.sentAs = func(subject uint32) string { return names[int(subject)%len(names)] }
		r.population.nameOf = func(subject uint32) string { return fmt.Sprint("subject ", uint64(subject)+1) }
	}
}

// endpointTarget is a limit that somebody else decides. It is a [loadgen.Exchanger].
type endpointTarget struct {
	client endpoint.Client
	// nameOf is what requests call a subject. With named the names can have been used before.
	nameOf func(subject uint32) string
	named  bool
	// hasCost says that requests can tell what they cost.
	hasCost  bool
	statuses [maxStatus]atomic.Int64
	denies   [maxStatus]atomic.Bool // which of them are denials
	// limit is the only limit, in its normal form; nil if there are several.
	limit *store.Limit
	heard
}

// maxStatus is above all statuses that there are.
const maxStatus = 1000

// NewEndpointTarget returns an endpoint as a target.
func NewEndpointTarget(client endpoint.Client) Target {
	_, hasCost := client.Places()
	return &endpointTarget{client: client, hasCost: hasCost}
}

// Exchange implements [loadgen.Exchanger]. One request asks for all limits.
func (t *endpointTarget) Exchange(ctx context.Context, subject uint32, cost int64) (loadgen.Exchanged, error) {
	if cost != 1 && !t.hasCost {
		return loadgen.Exchanged{}, store.Invalidf("a request costs %d, and nothing in it says so; put %s into it",
			cost, endpoint.CostPlace)
	}
	answer := new(endpoint.Answer)
	err := t.client.Send(ctx, t.nameOf(subject), cost, answer)
	exchanged := loadgen.Exchanged{Sent: answer.Sent, Answered: answer.Answered}
	if err == nil {
		err = t.count(answer)
	}
	if err == nil {
		exchanged.Allowed, exchanged.Reported = answer.Outcome == endpoint.Allowed, t.reported(answer)
	}
	return exchanged, err
}

// count counts an answer. It returns an error if that is no decision.
func (t *endpointTarget) count(answer *endpoint.Answer) error {
	if answer.Status >= 0 && answer.Status < maxStatus {
		t.statuses[answer.Status].Add(1)
		if answer.Outcome == endpoint.Denied {
			t.denies[answer.Status].Store(true)
		}
	}
	if answer.Outcome == endpoint.Failed {
		return endpoint.NotAnswered(answer)
	}
	return nil
}

// Decide implements [store.Store]. An endpoint is asked by Exchange.
func (t *endpointTarget) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return errors.ErrUnsupported
}

// Close implements [store.Store].
func (t *endpointTarget) Close() error { return t.client.Close() }

// Prepare implements [Target].
func (t *endpointTarget) Prepare(ctx context.Context, _ []store.Request, timeout time.Duration) (Description, error) {
	ctx, cancel := store.BudgetContext(ctx, timeout)
	defer cancel()
	is := Description{Name: t.client.Describe()}
	if err := t.client.Connect(ctx); err != nil {
		return is, fmt.Errorf("%s: %w", is.Name, err)
	}
	return is, nil
}

// CleanUp implements [Target]. What an endpoint has stored is its own business.
func (t *endpointTarget) CleanUp(context.Context, []store.Key) error { return nil }

// heard is what was heard of limits in answers.
type heard struct {
	once sync.Once
	skew time.Duration // how far the clock of the first answer was ahead
	// other is the last limit that answers were about and that is not the one of the run.
	other atomic.Pointer[headers.Limit]
	// waits counts what was allowed and told to wait.
	waits atomic.Int64

	mu    sync.Mutex // guards wrong
	wrong headers.Findings
}

// reported returns what an answer says about the limit of the run; nil if nothing.
func (t *endpointTarget) reported(answer *endpoint.Answer) *interval.Reported {
	t.once.Do(func() { t.skew = headers.SkewOf(answer.Header, answer.Sent, answer.Answered) })
	r := headers.ReadAnswer(answer, t.skew)
	whole := t.judge(answer, &r)
	if t.limit == nil {
		return nil
	}
	told := r.About(t.limit, "")
	if told != nil && !told.Tells(t.limit) {
		if told.Count != headers.NotTold {
			t.other.Store(told)
		}
		told, whole = nil, false
	}
	reported := r.Reported(told, answer.Outcome == endpoint.Denied)
	if reported != nil {
		reported.Partly = !whole
	}
	return reported
}

// judge notes what is wrong with the fields of an answer, and reports whether all that should be there can be read.
func (h *heard) judge(answer *endpoint.Answer, r *headers.Reading) (whole bool) {
	problems := r.Problems
	switch {
	case answer.Outcome != endpoint.Denied && r.RetryText != "":
		h.waits.Add(1)
	case answer.Outcome != endpoint.Denied:
	case r.RetryProblem != "":
		problems = append(problems, r.RetryProblem)
	case r.RetryAfter == headers.NotTold && answer.Status == http.StatusTooManyRequests:
		problems = append(problems, "Retry-After is missing on a denial")
	}
	if len(problems) == 0 {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, problem := range problems {
		h.wrong.AddProblem(problem)
	}
	return false
}

// Report implements [Target].
func (t *endpointTarget) Report(run *report.Run) {
	t.describeAnswers(run)
	o := t.client.Openings()
	run.Endpoint.Connections = &report.Connections{Opened: o.Count, Connect: loadgen.QuantilesOf(o.Connect),
		TLS: loadgen.QuantilesOf(o.TLS)}
	if o.LongBodies > 0 {
		warn(run, "the bodies of %s were longer than 1 MiB; their rest was not read, and each of them cost a "+
			"connection", output.Count(int(o.LongBodies), "answer"))
	}
	if hasSubject, _ := t.client.Places(); !hasSubject {
		warn(run, "nothing in a request says who asks, so the endpoint counts all of them for one subject, together "+
			"with requests from before and from others")
	} else if t.named {
		warn(run, "the subjects are not new, so usage from before this run and from others counts, too")
	}
}

// describeAnswers adds to a report what answers said, and warns of statuses that may not mean what they were taken for,
// and of another limit.
func (t *endpointTarget) describeAnswers(run *report.Run) {
	run.Endpoint = &report.Endpoint{WrongHeaders: t.wrong.Texts}
	other := t.other.Load()
	if run.Audit.Lies == nil && (other != nil || len(run.Endpoint.WrongHeaders) > 0) {
		run.Audit.Lies = new(loadgen.Lies) // something was told, and nothing of it could be checked
	}
	var seen []int
	run.Statuses = map[string]int64{}
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
	if other != nil {
		warn(run, "%s is not the limit of this run, so what remains of it was not audited", other.Text())
	}
	if odd := t.oddAnswers(run, seen); odd != "" {
		warn(run, "%s", odd)
	} else if n := t.waits.Load(); n > 0 && run.Denied == 0 && run.Audit.OverAdmitted > 0 {
		warn(run, "%s count as allowed and have a Retry-After; if these are denials, limitctl probe with "+
			"--denied-header Retry-After checks the limit", output.Count(int(n), "answer"))
	}
}

// oddAnswers says which answers may be denials although they count as others: all if nothing succeeded, and those of
// one status that are enough to explain what was admitted too much.
func (t *endpointTarget) oddAnswers(run *report.Run, seen []int) string {
	var statuses []string
	found, most := 0, run.Audit.OverAdmitted
	for _, status := range seen {
		switch n := t.statuses[status].Load(); {
		case t.denies[status].Load():
			statuses = append(statuses, strconv.Itoa(status))
		case status >= 300 && n >= most && (status < 500 || run.Denied == 0):
			found, most = status, n
		}
	}
	isAllowed := found < 500
	if found == 0 || isAllowed && seen[0] < 300 && run.Audit.OverAdmitted == 0 {
		return ""
	}
	count, mend := "errors", "are the URL, the method, the headers and the body right?"
	if isAllowed {
		count = "allowed"
	}
	if found < 400 {
		mend = "redirects are not followed."
	}
	statuses = append(statuses, strconv.Itoa(found))
	return fmt.Sprintf("%s of %s count as %s; %s If that is how this endpoint denies, add %s",
		output.Count(most, "answer"), endpoint.StatusText(found), count, mend,
		shell.Command("--denied-status", strings.Join(statuses, ",")))
}
