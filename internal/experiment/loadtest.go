package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// lateAfter is the latency from which on an answer counts as late.
const lateAfter = 10 * time.Millisecond

// LoadTest is the plan of a load test.
type LoadTest struct {
	// Candidates are tried one after the other, each under the same load.
	Candidates []Candidate
	Load       Load
	// Open opens the target of a run, which the run closes. It is called once for each
	// candidate.
	Open func() (Target, error)
	// Timeout is how long an answer is waited for.
	Timeout time.Duration
	// Endpoint is for a target that is an endpoint; nil for a store.
	Endpoint *EndpointPlan
	// Keep leaves the keys of the runs where they are.
	Keep bool
}

// LoadTestObserver follows a load test.
type LoadTestObserver interface {
	// Begin is called when the load of a run begins, and End when it has ended. The run
	// tells its progress so often, or never for 0, because counting takes time.
	Begin(candidate *Candidate) (every time.Duration)
	// Progress is what became of the requests so far, and how long all of the run takes.
	// It may use the result only until it returns.
	Progress(soFar *loadgen.Result, length time.Duration)
	End()
	// Kept is called when the keys of a run stay in the store, with the prefix they have.
	Kept(prefix string)
}

// Run tries the candidates. When ctx ends, nothing more is sent, what is under way is
// waited for, and the report says that it was interrupted.
//
// After an error the report has the runs before it, and the failed run if something was
// sent. A run in which every request failed ends with the error of the first request. What
// makes the plan impossible is a [store.ErrInvalid]; keys that could not be removed are
// a [LeftoverError].
func (t *LoadTest) Run(ctx context.Context, observer LoadTestObserver) (*report.Document, error) {
	document := report.New(report.LoadTest)
	var failure error
	for i := range t.Candidates {
		if i > 0 && ctx.Err() != nil {
			break
		}
		r := &loadRun{LoadTest: t, observer: observer, candidate: &t.Candidates[i]}
		run, err := r.try(ctx)
		if run != nil {
			document.Runs = append(document.Runs, *run)
		}
		if err != nil {
			failure = err
			break
		}
	}
	document.Interrupted = ctx.Err() != nil
	return document, failure
}

// loadRun is a run of a load test under way.
type loadRun struct {
	*LoadTest
	observer  LoadTestObserver
	candidate *Candidate
	names     *endpoint.Subjects // in the requests of an endpoint, else nil
}

// workload is what a run sends.
type workload struct {
	limits     []namedLimit
	population *population
	duration   time.Duration
	// sentAs is what requests to an endpoint call a subject.
	sentAs func(subject uint32) string
}

// try runs the load under the candidate, and removes what it left. The run is nil if
// nothing could be sent.
func (r *loadRun) try(ctx context.Context) (run *report.Run, err error) {
	l, err := r.plan()
	if err != nil {
		return nil, err
	}
	target, err := r.Open()
	if err != nil {
		return nil, err
	}
	defer target.Close()
	if e, is := target.(*endpointTarget); is {
		e.nameOf = l.sentAs
		if limit, err := l.limits[0].limit.Normalize(); err == nil && len(l.limits) == 1 {
			e.limit = &limit
		}
	}
	r.boundMemory(l)
	clock, err := target.Prepare(ctx, l.population.Requests(0), r.Timeout)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r.Keep {
			r.observer.Kept(target.Describe().Prefix)
		} else if cleaning := target.CleanUp(ctx, l.population.AllKeys()); cleaning != nil {
			err = errors.Join(err, cleaning)
		}
	}()
	return r.drive(ctx, target, clock, l)
}

// plan finds what is asked, and by whom.
func (r *loadRun) plan() (l *workload, err error) {
	l = &workload{limits: r.candidate.limits()}
	if l.population, err = r.candidate.madeUp(r.Load.Subjects); err != nil {
		return nil, err
	}
	r.nameSubjects(l)
	if err := r.Load.check(r.setting(l), l.population.MostAtOnce()); err != nil {
		return nil, err
	}
	if l.duration = r.Load.length(); l.duration == 0 {
		return l, nil
	}
	return l, r.Load.checkWarmup(l.duration)
}

// setting is what a scenario is made for, before the time is known.
func (r *loadRun) setting(l *workload) loadgen.Setting {
	return loadgen.Setting{Limit: l.limits[0].limit, Subjects: r.Load.Subjects, Costs: r.Load.Mix.Costs, Seed: r.Load.Seed}
}

// boundMemory keeps garbage from growing to as much again as an audit of millions of
// requests holds, before it is collected.
func (r *loadRun) boundMemory(l *workload) {
	// How much memory a run should do with, in bytes: for itself, and for each key under each limit.
	const wanted, perKey = 320 << 20, 1 << 10
	sys.LimitMemory(int64(wanted + l.population.Size()*l.population.Limits()*perKey))
}

// drive sends the load and describes what became of it.
func (r *loadRun) drive(ctx context.Context, target Target, clock Clock, l *workload) (*report.Run, error) {
	// This takes a while, so it comes before the time until the edge is found.
	measurement := target.Measure(ctx)
	setting := r.setting(l)
	setting.ToEdge = toEdge(&setting.Limit, time.Now().Add(clock.Ahead))
	if l.duration == 0 {
		l.duration = r.Load.Scenario.Length(setting)
		if err := r.Load.checkWarmup(l.duration); err != nil {
			return nil, err
		}
	}
	setting.Duration = l.duration
	if r.Load.Scenario != nil {
		if _, any := r.Load.Arrivals(setting).Next(); !any {
			return nil, &PlanError{fieldDuration, fmt.Sprintf(
				"ends before the scenario %s begins; the next window's edge is in %s, so give more, or leave it out",
				r.Load.Scenario.Name, output.Duration(setting.ToEdge))}
		}
	}
	config := loadgen.Config{
		Store: target, Population: l.population.Population, Load: r.Load.Arrivals(setting),
		Mix: r.Load.Mix, Seed: r.Load.Seed,
		Workers: r.Load.Workers, Duration: r.end(l), Requests: r.Load.Requests, Warmup: r.Load.Warmup,
		Timeout: r.Timeout, LateAfter: lateAfter, Skew: clock.Skew, Divided: target.Describe().Divided, Intervals: r.intervals(),
	}
	// Progress is found out no more often than somebody wants to know it: that looks at every key.
	if config.ProgressEvery = r.observer.Begin(r.candidate); config.ProgressEvery > 0 {
		config.Progress = func(soFar *loadgen.Result) { r.observer.Progress(soFar, l.duration) }
	}
	result := loadgen.Run(ctx, config)
	r.observer.End()
	run := r.report(result, target.Describe(), l)
	switch t := target.(type) {
	case *endpointTarget:
		t.describe(run, r.names)
	case *storeTarget:
		run.Impossible = t.impossible
	}
	spent, warnings := measurement.End(context.WithoutCancel(ctx), result.Decided, l.population.Keys(0))
	run.Cost = &spent
	run.Warnings = append(run.Warnings, warnings...)
	if result.Requests > 0 && result.Errors == result.Requests && result.FirstError != nil {
		return run, result.FirstError
	}
	return run, nil
}

// end is when nothing more is sent: after the duration that was asked for. A load with an
// end of its own may be late by as much as any request, so that its last burst is not
// lost because this machine is slow.
func (r *loadRun) end(l *workload) time.Duration {
	end := l.duration + r.Timeout
	if r.Load.Duration > 0 {
		end = min(end, r.Load.Duration)
	}
	return end
}
