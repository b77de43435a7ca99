package experiment

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// processors is how many the program may use.
var processors = runtime.GOMAXPROCS(0)

// lateAfter is the latency from which on an answer counts as late.
const lateAfter = 10 * time.Millisecond

// LoadTest is the plan of a load test.
type LoadTest struct {
	// Candidates are tried one after the other, each under the same load.
	Candidates []Candidate
	Load       Load
	// Open opens the target of a run, which the run closes. It is called once for each candidate.
	Open func() (Target, error)
	// Timeout is how long an answer is waited for.
	Timeout time.Duration
	// Endpoint is for a target that is an endpoint; nil for a store.
	Endpoint *EndpointPlan
	// Watch, if set, is called when the load of a run begins. The run calls progress so often, with what became of the
	// requests so far, which may be used until it returns, and how long all of the run takes; and end at its end.
	Watch func(candidate *Candidate) (every time.Duration, progress func(soFar *loadgen.Result, length time.Duration),
		end func())
}

// Run tries the candidates. When ctx ends, nothing more is sent, what is under way is
// waited for, and the report says that it was interrupted.
//
// After an error the report has the runs before it, and the failed run if something was
// sent. A run in which every request failed ends with the error of the first request. What
// makes the plan impossible is a [store.ErrInvalid]; keys that could not be removed are an [outcome.ErrPartly].
func (t *LoadTest) Run(ctx context.Context) (*report.Document, error) {
	document := report.New(report.LoadTest)
	var failure error
	for i := range t.Candidates {
		if i > 0 && ctx.Err() != nil {
			break
		}
		r := &loadRun{LoadTest: t, candidate: &t.Candidates[i]}
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
	candidate  *Candidate
	limit      store.Limit // the first of the candidate's
	population *population
	duration   time.Duration // 0 until it is known
	// sentAs is what requests of an endpoint call a subject; nil for a store.
	sentAs func(subject uint32) string
}

// try runs the load under the candidate, and removes what it left. The run is nil if nothing could be sent.
func (r *loadRun) try(ctx context.Context) (run *report.Run, err error) {
	if err := r.plan(); err != nil {
		return nil, err
	}
	target, err := r.Open()
	if err != nil {
		return nil, err
	}
	defer target.Close()
	if e, is := target.(*endpointTarget); is {
		e.nameOf, e.named = r.sentAs, len(r.Endpoint.Names) > 0
		if len(r.candidate.limits()) == 1 {
			e.limit = &r.limit
		}
	}
	// Garbage must not grow to as much again as an audit of millions of requests holds. A run should do with so many
	// bytes: for itself, and for each key under each limit.
	const wanted, perKey = 320 << 20, 1 << 10
	sys.LimitMemory(int64(wanted + r.population.Size()*r.population.Limits()*perKey))
	is, err := target.Prepare(ctx, r.population.Requests(0), r.Timeout)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, target.CleanUp(ctx, r.population.AllKeys()))
	}()
	return r.drive(ctx, target, is)
}

// plan finds what is asked, and by whom.
func (r *loadRun) plan() (err error) {
	r.limit = r.candidate.limits()[0].limit
	if r.population, err = r.candidate.madeUp(r.Load.Subjects); err != nil {
		return err
	}
	if r.Endpoint != nil {
		r.nameSubjects()
	}
	if err := r.Load.check(r.setting(), r.population.MostAtOnce()); err != nil {
		return err
	}
	if r.duration = r.Load.length(); r.duration == 0 {
		return nil
	}
	return r.Load.checkWarmup(r.duration)
}

// setting is what a scenario is made for, before the time is known.
func (r *loadRun) setting() loadgen.Setting {
	return loadgen.Setting{Limit: r.limit, Subjects: r.Load.Subjects}
}

// drive sends the load and describes what became of it.
func (r *loadRun) drive(ctx context.Context, target Target, is Description) (*report.Run, error) {
	setting := r.setting()
	setting.ToEdge = toEdge(&setting.Limit, time.Now().Add(is.Ahead))
	if r.duration == 0 {
		r.duration = r.Load.Scenario.Length(setting)
		if err := r.Load.checkWarmup(r.duration); err != nil {
			return nil, err
		}
	}
	setting.Duration = r.duration
	if r.Load.Scenario != nil {
		if _, any := r.Load.Arrivals(setting).Next(); !any {
			return nil, store.Invalidf(
				"--duration %s ends before the scenario %s begins; the next window's edge is in %s, so give "+
					"more, or leave it out", store.FormatPeriod(r.duration), r.Load.Scenario.Name,
				output.Duration(setting.ToEdge))
		}
	}
	// A load with an end of its own may be late by as much as any request, so that its last burst is not lost because
	// this machine is slow.
	end := r.duration + r.Timeout
	if r.Load.Duration > 0 {
		end = min(end, r.Load.Duration)
	}
	config := loadgen.Config{
		Store: target, Population: r.population.Population, Load: r.Load.Arrivals(setting), Mix: r.Load.Mix,
		Seed: r.Load.Seed, Workers: r.Load.Workers, Duration: end, Requests: r.Load.Requests, Warmup: r.Load.Warmup,
		Timeout: r.Timeout, LateAfter: lateAfter, Skew: is.Skew, Divided: is.Divided,
	}
	if r.Endpoint != nil {
		config.Intervals = &r.Endpoint.Intervals
	}
	if config.Load != nil {
		// To wake a second processor for a request costs more than the request: a third of the time of all at 1,000 a
		// second. One processor does, as long as it keeps the schedule.
		runtime.GOMAXPROCS(1)
		config.Behind = func() { runtime.GOMAXPROCS(processors) }
		defer config.Behind()
	}
	ended := func() {}
	if r.Watch != nil {
		var progress func(*loadgen.Result, time.Duration)
		// it looks at every key
		if config.ProgressEvery, progress, ended = r.Watch(r.candidate); config.ProgressEvery > 0 {
			config.Progress = func(soFar *loadgen.Result) { progress(soFar, r.duration) }
		}
	}
	result := loadgen.Run(ctx, config)
	ended()
	run := r.report(result, is)
	target.Report(run)
	if result.Requests > 0 && result.Errors == result.Requests && result.FirstError != nil {
		return run, fmt.Errorf("no request was answered: %w", result.FirstError)
	}
	return run, nil
}

// toEdge returns how long after an instant the window that holds it ends.
func toEdge(limit *store.Limit, at time.Time) time.Duration {
	if end, has := limit.InWindow(store.InstantOf(at)).WindowEnds(); has {
		return end.Sub(at)
	}
	return limit.Period - time.Duration(at.UnixNano()%int64(limit.Period))
}
