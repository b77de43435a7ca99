package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/cost"
	"github.com/limitctl/limitctl/cmd/internal/memory"
	"github.com/limitctl/limitctl/cmd/internal/naive"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/progress"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

const (
	// lateAfter is from which latency on an answer counts as late.
	lateAfter = 10 * time.Millisecond
	// clusterSkew is by how much the clocks of a Cluster's masters may differ.
	clusterSkew = time.Second
	// settleIn is how long a run goes on before --abort-on-fail may end it.
	settleIn = time.Second
)

// loadtestRun is a run under way.
type loadtestRun struct {
	*loadtestOptions
	variant *variant
	limits  []describedLimit
	target  *loadgen.Target
	subject func(uint32) string // what to call one

	store   connect.Store
	isRedis bool
	cluster bool
	// skew is by how much the clocks that decide may differ.
	skew   time.Duration
	meter  *cost.Meter
	where  string
	prefix string
	// ahead is by how much the store's clock is ahead of this machine's.
	ahead    time.Duration
	duration time.Duration
	notes    []string // for the report

	// Of a replay: the requests to send, who of the target's subjects they are of, and
	// by which fields.
	recorded  *trace.Trace
	subjectOf []uint32
	byFields  string
}

// runVariant runs the load against one variant, and removes what it left in the store.
// The run is nil if nothing could be sent.
func (o *loadtestOptions) runVariant(ctx context.Context, v *variant) (run *report.Run, err error) {
	r := &loadtestRun{loadtestOptions: o, variant: v, limits: v.describe(), duration: o.duration}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	defer r.store.Close()
	r.boundMemory()
	if err := r.lookFirst(ctx); err != nil {
		return nil, err
	}
	if err := o.await(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if removing := r.remove(ctx); removing != nil {
			err = errors.Join(err, removing)
		}
	}()
	return r.drive(ctx)
}

// boundMemory keeps garbage from growing to as much again as an audit of millions of
// requests holds, before it is collected.
func (r *loadtestRun) boundMemory() {
	// How much memory a run should do with, in bytes: for itself, for each key under
	// each limit, and for each recorded request.
	const wanted, perKey, perRequest = 320 << 20, 1 << 10, 64
	limit := int64(wanted + r.target.Subjects()*r.target.Limits()*perKey)
	if r.log != nil {
		limit += int64(len(r.log.Requests) * perRequest)
	}
	memory.Limit(limit)
}

// prepare finds what is asked, and by whom.
func (r *loadtestRun) prepare() (err error) {
	if r.log == nil {
		if r.target, r.subject, err = r.variant.target(r.keys); err != nil {
			return err
		}
		if most := r.target.MostAtOnce(); r.costs.Most > most {
			return usagef("--cost %s: %d units never fit a limit that allows %d at once; lower the cost", r.cost, r.costs.Most, most)
		}
		return r.checkAtOnce()
	}
	candidate, names := r.candidate(r.log, r.variant)
	target, err := candidate.Target(r.log)
	if err != nil {
		return err
	}
	r.target, r.subjectOf, r.byFields = target.Target, target.SubjectOf, strings.Join(names, ", ")
	r.subject = func(subject uint32) string {
		return subjectWords(target.Values[subject], names, r.variant.policy != nil)
	}
	var without int
	if r.recorded, without = withinLimits(r.log, r.target.MostAtOnce()); without > 0 {
		r.notes = append(r.notes, fmt.Sprintf("left out, for costing more than the limit ever allows at once: %s of the log", output.Plural(without, "request")))
	}
	if len(r.recorded.Requests) == 0 {
		return usagef("every request of %s costs more than the limit ever allows at once", r.logName())
	}
	if length := r.replayLength(); !r.given("duration") || r.duration > length {
		r.duration = length
	}
	return r.checkWarmup(r.duration)
}

// maxAtOnce is how many requests a scenario may send at once: no store answers more in
// the time that it has for them.
const maxAtOnce = 1_000_000

func (r *loadtestRun) checkAtOnce() error {
	if r.theScenario == nil {
		return nil
	}
	setting := loadgen.Setting{Limit: r.limits[0].limit, Subjects: r.keys}
	if n := r.theScenario.AtOnce(setting); n > maxAtOnce {
		return usagef("--scenario %s sends %d requests at once to %s over %s, and %d is the most there can be; try a smaller limit or fewer --keys",
			r.theScenario.Name, n, setting.Limit, output.Plural(r.keys, "key"), maxAtOnce)
	}
	return nil
}

// open connects to the store under a prefix of the run's own.
func (r *loadtestRun) open() error {
	url, options, err := r.connection()
	if err != nil {
		return err
	}
	if options.Prefix, err = trialPrefix(options.Prefix); err != nil {
		return err
	}
	r.prefix = options.Prefix
	store, client, where, err := connect.OpenWithClient(url, options)
	if store, err = r.openedToWrite(store, err); err != nil {
		return err
	}
	r.store, r.where, r.isRedis, r.meter = store, where, client != nil, cost.New(client)
	if r.cluster = connect.IsCluster(client); r.cluster {
		r.skew = clusterSkew
	}
	if r.implementation == implementationScript {
		return nil
	}
	if !r.isRedis {
		return errors.Join(usagef("--implementation naive is for Redis, and the store is %s; give --store redis://…", r.where), r.store.Close())
	}
	r.store, err = naive.New(client, options.Prefix)
	return err
}

// lookFirst finds out that the store answers and takes such requests, and what time it
// has, before any load is sent.
func (r *loadtestRun) lookFirst(ctx context.Context) error {
	// The first call learns the way, and the second one is as quick as can be.
	for range 2 {
		asked := r.env.Now()
		decisions, err := decide(ctx, &timedStore{r.store, r.timeout}, limiter.Peek, r.target.Requests(0))
		if err != nil {
			return err
		}
		answered := r.env.Now()
		middle := asked.Add(answered.Sub(asked) / 2)
		r.ahead = decisions[0].At.Time().Sub(middle)
	}
	return nil
}

// await waits until the time to begin.
func (o *loadtestOptions) await(ctx context.Context) error {
	wait := o.start.Sub(o.env.Now())
	if o.start.IsZero() || wait <= 0 {
		return nil
	}
	if !o.quiet {
		fmt.Fprintf(o.env.Err, "limitctl: beginning in %s, at %s\n", output.Duration(wait.Round(time.Second)), o.start.Format(time.TimeOnly))
	}
	return o.env.Sleep(ctx, wait)
}

// drive sends the load and describes what became of it.
func (r *loadtestRun) drive(ctx context.Context) (*report.Run, error) {
	setting := loadgen.Setting{Limit: r.limits[0].limit, Subjects: r.keys}
	period := setting.Limit.Period
	// It takes a while, and the time until the edge is to be that from the beginning.
	r.meter.Begin(ctx)
	now := r.env.Now().Add(r.ahead)
	setting.ToEdge = period - time.Duration(now.UnixNano()%int64(period))
	if r.theScenario != nil && r.duration == 0 {
		r.duration = r.theScenario.Length(setting)
	}
	if err := r.checkWarmup(r.duration); err != nil {
		return nil, err
	}
	setting.Duration = r.duration
	if r.theScenario != nil {
		if _, any := r.makeLoad(setting).Next(); !any {
			return nil, usagef("--duration %s ends before the scenario %s begins; the next window's edge is in %s, so give more, or leave it out",
				r.duration, r.theScenario.Name, output.Duration(setting.ToEdge))
		}
	}
	bar := r.progress(r.title(), "")
	result := loadgen.Run(ctx, loadgen.Config{
		Store: r.store, Target: r.target, Load: r.makeLoad(setting), Mix: r.mix, Seed: r.seed,
		Workers: r.workers, Duration: r.end(), Requests: r.requests, Warmup: r.warmup,
		Timeout: r.timeout, LateAfter: lateAfter, Skew: r.skew,
		Progress: r.watcher(bar),
	})
	bar.Close()
	after := context.WithoutCancel(ctx)
	run := r.report(result)
	spent, warnings := r.meter.End(after, result.Decided)
	warnings = append(warnings, cost.Sample(after, r.store, r.target.Keys(0), &spent)...)
	run.Cost = &spent
	run.Warnings = append(run.Warnings, warnings...)
	if result.Requests > 0 && result.Errors == result.Requests && result.FirstError != nil {
		return run, result.FirstError
	}
	return run, nil
}

// watcher returns what is told how far the run is, nil if nobody wants to know: finding
// that out looks at every key.
func (r *loadtestRun) watcher(bar *progress.Bar) func(*loadgen.Result) (goOn bool) {
	if bar == nil && !r.abortOnFail {
		return nil
	}
	return func(partial *loadgen.Result) bool {
		bar.Say(int64(min(partial.Elapsed, r.duration)), int64(r.duration), progressWords(partial, r.duration))
		return !r.abortOnFail || partial.Elapsed < settleIn+r.warmup || !r.lost(partial)
	}
}

// end is when nothing more is sent: when the time is over that was asked for. What has
// an end of its own may be late by as much as any request: its last burst is not lost
// because this machine is slow.
func (r *loadtestRun) end() time.Duration {
	if r.given("duration") || r.theScenario == nil && r.recorded == nil && !r.given("stages") {
		return r.duration
	}
	return r.duration + r.timeout
}

// makeLoad returns the run's requests, nil for a closed loop.
func (r *loadtestRun) makeLoad(setting loadgen.Setting) loadgen.Load {
	if r.recorded != nil {
		return loadgen.Replay(r.recorded, r.factor, r.subjectOf)
	}
	return r.loadOptions.load(setting)
}

// loadWords says what was sent, and averageRate how much of it in a second.
func (r *loadtestRun) loadWords() (words string, averageRate float64) {
	if r.recorded == nil {
		return r.loadOptions.inWords(), r.loadOptions.averageRate()
	}
	words = fmt.Sprintf("replay of %s by %s", r.logName(), r.byFields)
	if r.factor != 1 {
		words += fmt.Sprintf(", %s times as fast", strconv.FormatFloat(r.factor, 'f', -1, 64))
	}
	return words, float64(len(r.recorded.Requests)) / r.replayLength().Seconds()
}

// title is what the progress bar calls the run.
func (r *loadtestRun) title() string {
	if len(r.variants) > 1 {
		limit := r.limits[0].limit
		if limit.Slices > 1 {
			return fmt.Sprintf("%s,slices=%d", limit.Algorithm, limit.Slices)
		}
		return limit.Algorithm.String()
	}
	return "load"
}

// progressWords says how a run goes.
func progressWords(r *loadgen.Result, length time.Duration) string {
	text := fmt.Sprintf(" %s left, %s/s", output.Duration(max(0, length-r.Elapsed).Round(time.Second)), progress.Count(int64(float64(r.Requests)/r.Elapsed.Seconds())))
	if answered := r.Allowed + r.Denied; answered > 0 {
		p99 := time.Duration(r.Latency.ValueAtPercentile(99)) * time.Microsecond
		text += fmt.Sprintf(", %.1f%% allowed, p99 %s", 100*float64(r.Allowed)/float64(answered), output.Duration(p99))
	}
	if r.Errors > 0 {
		text += fmt.Sprintf(", %s errors", progress.Count(r.Errors))
	}
	return text
}

// lost reports whether a threshold is missed that cannot be met any more.
func (r *loadtestRun) lost(partial *loadgen.Result) bool {
	figures := r.figures(partial)
	return report.Lost(r.expressions, &figures)
}

// remove deletes the keys of the run, unless they are to be kept.
func (r *loadtestRun) remove(ctx context.Context) error {
	if !r.keep {
		return removeTrial(ctx, r.store, "run", r.prefix, r.target.AllKeys())
	}
	if !r.quiet {
		r.note("the run's keys are kept under %s", shell.Command("--prefix", r.prefix))
	}
	return nil
}

// figures returns the numbers of a result, all but its cost and those of each limit.
func (r *loadtestRun) figures(result *loadgen.Result) report.Figures {
	f := report.Figures{
		Requests: result.Requests, Allowed: result.Allowed, Denied: result.Denied, Errors: result.Errors, Unknown: result.Unknown,
		Dropped: result.Dropped, Late: result.Late, LateAfterMS: lateAfter.Milliseconds(),
		Keys: result.Tally.Keys(), KeysDenied: result.Tally.KeysDenied(),
		DurationMS: output.Milliseconds(result.Elapsed), WarmupMS: min(output.Milliseconds(r.warmup), output.Milliseconds(result.Elapsed)),
		Latency: report.QuantilesOf(result.Latency), Service: report.QuantilesOf(result.Service),
		Audit: bindingAudit(r.limits, result.Findings),
	}
	if !r.closed {
		f.Lag = report.QuantilesOf(result.Lag)
		f.GeneratorLimited = result.GeneratorLimited()
	}
	if counted := result.Elapsed - r.warmup; counted > 0 {
		f.ThroughputPerS = float64(result.Allowed+result.Denied) / counted.Seconds()
	}
	return f
}

// report puts a result in the terms of a report.
func (r *loadtestRun) report(result *loadgen.Result) *report.Run {
	run := &report.Run{Figures: r.figures(result)}
	describeLimits(run, r.limits, result.Findings)
	run.Store, run.Workers, run.StartedAt, run.IntervalMS = r.where, r.workers, result.Started.UTC(), result.Interval.Milliseconds()
	run.Histograms = &report.Histograms{Latency: result.Latency, Service: result.Service}
	if !r.closed {
		run.Histograms.Lag = result.Lag
	}
	run.Load, run.Rate = r.loadWords()
	if r.isRedis {
		run.Implementation = r.implementation
	}
	if r.theScenario != nil {
		run.Scenario = r.theScenario.Name
	}
	if r.variant.policy != nil {
		run.Policy = r.variant.policy.Name
	}
	for _, i := range result.Timeline {
		run.Timeline = append(run.Timeline, report.Interval{
			OffsetMS: i.Offset.Milliseconds(), Allowed: i.Allowed, Denied: i.Denied, Errors: i.Errors, Dropped: i.Dropped,
			P50: i.P50.Microseconds(), P99: i.P99.Microseconds(), Max: i.Max.Microseconds(),
		})
	}
	describeKeys(run, result.Tally, r.subject)
	r.warn(run, result)
	return run
}

// warn adds what a reader must know of the figures.
func (r *loadtestRun) warn(run *report.Run, result *loadgen.Result) {
	run.Warnings = append(slices.Clone(r.logNotes), r.notes...)
	for text, count := range result.ErrorTexts {
		run.ErrorTexts = append(run.ErrorTexts, report.ErrorCount{Text: text, Count: count})
	}
	slices.SortFunc(run.ErrorTexts, func(a, b report.ErrorCount) int {
		if a.Count != b.Count {
			return int(b.Count - a.Count)
		}
		return strings.Compare(a.Text, b.Text)
	})
	run.ErrorTexts = run.ErrorTexts[:min(len(run.ErrorTexts), 5)]
	if waited := result.Waited; !r.closed && !run.GeneratorLimited && waited > result.Requests/100 {
		run.Warnings = append(run.Warnings, fmt.Sprintf("%s found no worker free; the latency counts the wait, and more than --workers %d would show more of the store", output.Plural(int(waited), "request"), r.workers))
	}
	for i := range result.Findings {
		if mixed := r.target.MixedKeys(i); mixed > 0 {
			run.Warnings = append(run.Warnings, mixedWarning(mixed, run.Limits[i].Name))
		}
	}
	if r.cluster && len(run.Limits) > 1 && run.Audit.UnderAdmitted > 0 {
		run.Warnings = append(run.Warnings, "limits whose subjects differ lie in different slots of the Cluster, and are taken one after the other; what is given back when a later one denies was denied to others meanwhile, which is what is under-admitted")
	}
	if early := result.ClockWentBack; early > 0 {
		run.Warnings = append(run.Warnings, fmt.Sprintf("the store's clock went back: %d answers are of instants before others that were known when they were asked for, and the audit may be off by them", early))
	}
	if r.theScenario != nil && r.theScenario.Name == "noisy-neighbour" {
		run.Neighbours = neighboursOf(result.Tally)
	}
}
