package experiment

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/cost"
	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// EndpointPlan is what a load test of an endpoint has beside that of a store.
type EndpointPlan struct {
	// Subjects says what subjects are called. Each run has its own, if they can be fresh.
	Subjects endpoint.Subjects
	// Intervals is what is known of the clock that decides.
	Intervals interval.Options
}

// intervals returns how answers are audited whose instants are not known, nil for a store's.
func (t *LoadTest) intervals() *interval.Options {
	if t.Endpoint == nil {
		return nil
	}
	return &t.Endpoint.Intervals
}

// nameSubjects gives the subjects of a run the names that an endpoint sees.
func (r *loadRun) nameSubjects(l *workload) {
	if r.Endpoint == nil {
		return
	}
	r.names = r.Endpoint.Subjects.Fresh()
	known := l.population.nameOf
	l.sentAs = func(subject uint32) string { return r.names.Name(subject, known(subject)) }
	l.population.nameOf = l.sentAs
	if len(r.names.List) > 0 { // they may be secret
		l.population.nameOf = func(subject uint32) string { return "subject " + strconv.FormatUint(uint64(subject)+1, 10) }
	}
}

// endpointTarget is a limit that somebody else decides. It is a [loadgen.Exchanger].
type endpointTarget struct {
	client endpoint.Client
	// nameOf is what requests call a subject.
	nameOf func(subject uint32) string
	// hasCost says that requests can tell what they cost.
	hasCost  bool
	statuses [maxStatus]atomic.Int64
	denies   [maxStatus]atomic.Bool // which of them are denials
	meter    *cost.Meter
	// limit is the only limit, in its normal form; nil if there are several.
	limit *store.Limit
	heard
}

// maxStatus is above all statuses that there are.
const maxStatus = 1000

// NewEndpointTarget returns an endpoint as a target.
func NewEndpointTarget(client endpoint.Client) Target {
	_, hasCost := client.Places()
	return &endpointTarget{client: client, hasCost: hasCost, meter: cost.New(nil)}
}

// Exchange implements [loadgen.Exchanger]. One request asks for all limits.
func (t *endpointTarget) Exchange(ctx context.Context, subject uint32, cost int64) (loadgen.Exchanged, error) {
	if cost != 1 && !t.hasCost {
		return loadgen.Exchanged{}, store.Invalidf("a request costs %d, and nothing in it says so; put %s into it", cost,
			endpoint.CostPlace)
	}
	var answer endpoint.Answer
	err := t.client.Send(ctx, t.nameOf(subject), cost, &answer)
	exchanged := loadgen.Exchanged{Sent: answer.Sent, Answered: answer.Answered}
	if err != nil {
		return exchanged, err
	}
	if answer.Status >= 0 && answer.Status < maxStatus {
		t.statuses[answer.Status].Add(1)
		t.denies[answer.Status].Store(answer.Outcome == endpoint.Denied)
	}
	if answer.Outcome == endpoint.Failed {
		return exchanged, endpoint.NotAnswered(&answer)
	}
	exchanged.Allowed, exchanged.Reported = answer.Outcome == endpoint.Allowed, t.reported(&answer)
	return exchanged, nil
}

// Decide implements [store.Store] for one that is not asked by subjects' numbers.
func (t *endpointTarget) Decide(ctx context.Context, _ store.Op, reqs []store.Request, decisions []store.Decision) error {
	var answer endpoint.Answer
	if err := t.client.Send(ctx, reqs[0].Key.Subject, reqs[0].Cost, &answer); err != nil {
		return err
	}
	if answer.Outcome == endpoint.Failed {
		return endpoint.NotAnswered(&answer)
	}
	for i := range decisions {
		decisions[i] = store.Decision{Allowed: answer.Outcome == endpoint.Allowed}
	}
	return nil
}

// Close implements [store.Store].
func (t *endpointTarget) Close() error { return t.client.Close() }

// Describe implements [Target].
func (t *endpointTarget) Describe() Description { return Description{Name: t.client.Describe()} }

// Prepare implements [Target].
func (t *endpointTarget) Prepare(ctx context.Context, _ []store.Request, timeout time.Duration) (Clock, error) {
	ctx, cancel := store.BudgetContext(ctx, timeout)
	defer cancel()
	if err := t.client.Connect(ctx); err != nil {
		return Clock{}, fmt.Errorf("%s: %w", t.client.Describe(), err)
	}
	return Clock{}, nil
}

// Measure implements [Target].
func (t *endpointTarget) Measure(ctx context.Context) Measurement {
	return endpointMeasurement{t.meter.Begin(ctx)}
}

// CleanUp implements [Target]. What an endpoint has stored is its own business.
func (t *endpointTarget) CleanUp(context.Context, []store.Key) error { return nil }

// endpointMeasurement measures this process, since it cannot look into the endpoint.
type endpointMeasurement struct{ *cost.Measurement }

// End implements [Measurement].
func (m endpointMeasurement) End(ctx context.Context, decisions int64, _ []store.Key) (report.Cost, []string) {
	return m.Measurement.End(ctx, decisions)
}
