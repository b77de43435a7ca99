// Package lab has the commands that try limits out and measure them: loadtest, probe and simulate, and report
// and compare for what they found.
package lab

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/experiment"
	"github.com/limitctl/limitctl/cmd/internal/report"
)

type loadtestOptions struct {
	*cli.Globals
	experimentLimitFlags
	loadOptions
	wrapFlags
	logOptions
	outageOptions
	endpointFlags
	farClock farClockFlags
	sharedRunFlags
	liveFlags
	speed string
	reportingOptions
	policyName     string
	values         []string
	implementation string
	abortOnFail    bool
	keep           bool
	startAt        string
	maxErrors      string
	url            string // of an endpoint; empty for a store
}

// NewLoadtestCmd makes limitctl loadtest.
func NewLoadtestCmd(global *cli.Globals) *cobra.Command {
	o := &loadtestOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "loadtest --limit [ALGORITHM:]COUNT/PERIOD... | loadtest --policy NAME [ATTRIBUTE=VALUE...] | loadtest URL --limit ...",
		Short: "Drive a limit with load: is it right, is it fast, what does it cost?",
		Long: `Loadtest sends requests to a limit in a real store and audits every answer. It
compares what the limit allowed with what it should have allowed, and measures
how long the answers took and what they cost. docs/load-testing.md explains the
figures.

The load is an open loop: --rate requests a second are due on schedule, even if
the store is slow, and latency counts from when a request was due. A request
that cannot be sent within --timeout is dropped, and counted. With --workers and
no rate it is a closed loop: each worker sends a request when its last one is
answered. A --scenario sends a pattern that breaks naive limiters. --replay
sends recorded traffic.

Several --limit are decided together. --algorithm all, or a list, runs the same
load under each algorithm, one after the other, and compares them.

--samples streams the figures of each second while the load test runs, and
--metrics has them for Prometheus.

With --run, several machines send requests for the same keys: give all of them
the same load, --run, --machines and --start-at, and save each report with
--save. limitctl report then merges the files and audits all answers together.
One machine alone can only find that too much was admitted to it. The keys stay
until they expire, because the other machines may still use them. Each machine
has a random --seed of its own.

Without --run the keys have a prefix of their own and are removed at the end.
Loadtest refuses contexts that are read-only or protected. Ctrl-C ends the load,
waits for the answers under way, and reports; a second Ctrl-C stops at once.

While the store is away requests end in errors. With --on-error they are
answered as by a service with that failure policy, and are counted and timed
apart from the limit's own decisions. docs/failures.md has more.

--wrap puts the wrappers of a service around the store, and --replicas makes
several instances of them, which share the load. The report shows how many calls
of the store that saves, and what accuracy it costs.

A --threshold is a promise such as 'p99<5ms', 'over_admitted==0' or 'denied<1%'.

The verdict is inconclusive if nothing is known to be wrong and too little was
seen: no limit of the run was reached, more than --max-errors of the planned
requests got no decision, or the load generator was the limit and a threshold
cannot be judged.

Exit codes: 0 pass; 1 a threshold is missed, the audit found wrong answers
(unless --no-fail), or more than --max-errors got no decision; if the verdict is
inconclusive for another reason, 0, and 1 with --strict; 5 no failure, but not
all keys of the run could be removed.`,
		Example: `  limitctl loadtest --limit 100/1s --rate 500 --duration 2s
  limitctl loadtest --limit 100/1s --algorithm all --scenario boundary --duration 1500ms
  limitctl loadtest --limit 1000/1m --workers 64 --keys 1000 --distribution zipf:1.2 --duration 1s -o json
  limitctl loadtest --limit 30/1m --replay access.log --speed 1000
  limitctl loadtest --limit 1000/1s --rate 3000 --duration 1s --replicas 3 --wrap lease=50 --wrap denials
  limitctl loadtest --policy api tenant=acme --keys 20 --stages 1s:200,1s:0 --threshold 'errors==0'
  limitctl loadtest --limit 100/1s --rate 500 --duration 3s --samples seconds.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := o.parse(cmd, args)
			if err != nil {
				return err
			}
			return experimentError(cmd, runLoadtest(cmd.Context(), o, plan))
		},
	}
	flags := cmd.Flags()
	o.experimentLimitFlags.addFlags(cmd, "to decide several together")
	flags.StringVar(&o.policyName, "policy", "",
		"decide the limits of the policy `NAME`; arguments set attributes, and loadtest makes up the others")
	flags.StringArrayVar(&o.values, "values", nil,
		"`ATTRIBUTE=N`: a policy's attribute has N different values (default as many as --keys)")
	cli.GroupFlags(cmd, "The load", o.loadOptions.addFlags)
	cli.GroupFlags(cmd, wrapTitle, o.wrapFlags.addFlags)
	cli.GroupFlags(cmd, reportingTitle, o.reportingOptions.addFlags)
	cli.GroupFlags(cmd, reportingTitle, func(cmd *cobra.Command) {
		cmd.Flags().StringVar(&o.maxErrors, "max-errors", "1%",
			"exit with 1 if more than `PERCENT` of the planned requests got no decision: they failed, timed out or were dropped")
	})
	flags.StringVar(&o.logOptions.file, "replay", "",
		"send the requests of a recorded log at their own times: a `FILE` as simulate reads it, or - for standard input")
	flags.StringVar(&o.speed, "speed", "1", "replay that many `TIMES` as fast as recorded, such as 10")
	cli.GroupFlags(cmd, logTitle, o.logOptions.addFlags)
	flags.StringVar(&o.implementation, "implementation", experiment.Script,
		"`NAME` of how to decide in Redis: script, or naive (several commands, to see what an audit finds)")
	cli.GroupFlags(cmd, wrapTitle, o.outageOptions.addFlags)
	cli.GroupFlags(cmd, endpointTitle, o.endpointFlags.addFlags)
	cli.GroupFlags(cmd, endpointTitle, o.farClock.addFlags)
	cli.GroupFlags(cmd, "Several machines", o.sharedRunFlags.addFlags)
	cli.GroupFlags(cmd, "While it runs", o.liveFlags.addFlags)
	flags.BoolVar(&o.abortOnFail, "abort-on-fail", false,
		"end the run as soon as a threshold cannot be met any more")
	flags.BoolVar(&o.keep, "keep", false, "keep the run's keys in the store, to look at them")
	flags.StringVar(&o.startAt, "start-at", "",
		"begin at `TIME`, such as 15:04:05 or 2026-01-31T15:04:05Z, so that several machines begin together")
	cmd.RegisterFlagCompletionFunc("policy", cli.Offers(global).Policies)
	cmd.RegisterFlagCompletionFunc("implementation",
		cobra.FixedCompletions([]string{experiment.Script, experiment.Naive}, cobra.ShellCompDirectiveNoFileComp))
	for _, flag := range []string{"values", "start-at", "run", "machines", "max-errors", "metrics"} {
		cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
	return cmd
}

// loadtestPlan is the load test of a command line.
type loadtestPlan struct {
	experiment.LoadTest
	log      *logReading // of a replay, else nil
	speed    float64
	start    time.Time // zero for at once
	mayFail  float64   // the share of planned requests that may get no decision
	promises []report.Expression
}

func (o *loadtestOptions) parse(cmd *cobra.Command, args []string) (plan *loadtestPlan, err error) {
	plan = &loadtestPlan{LoadTest: experiment.LoadTest{Open: o.target, Timeout: o.Timeout, Keep: o.keep}}
	if args, err = o.parseURL(cmd, args); err != nil {
		return nil, err
	}
	if o.implementation != experiment.Script && o.implementation != experiment.Naive {
		return nil, cli.Usagef("--implementation %q is unknown; it is script or naive", o.implementation)
	}
	if cmd.Flags().Changed("start-at") {
		if plan.start, err = parseStart(o.startAt, o.Env.Now()); err != nil {
			return nil, err
		}
	}
	if plan.Load, err = o.loadOptions.parse(cmd); err != nil {
		return nil, err
	}
	if err = o.planEndpoint(cmd, plan); err != nil {
		return nil, err
	}
	if plan.Wrap, err = o.wrapFlags.parse(); err != nil {
		return nil, err
	}
	if plan.speed, err = o.parseReplay(cmd); err != nil {
		return nil, err
	}
	if plan.promises, err = o.reportingOptions.parse(cmd, o.Globals, report.LoadTest, o.logOptions.file); err != nil {
		return nil, err
	}
	if err = o.liveFlags.check(cmd, o.Globals, &o.reportingOptions, o.logOptions.file); err != nil {
		return nil, err
	}
	var isShare bool
	if plan.mayFail, isShare = parsePercent(o.maxErrors); !isShare || plan.mayFail > 1 {
		return nil, cli.Usagef("--max-errors %q is not a percentage from 0%% to 100%%; write one such as 1%%", o.maxErrors)
	}
	if o.abortOnFail {
		if plan.AbortOn = plan.promises; len(plan.AbortOn) == 0 {
			return nil, cli.Usagef("--abort-on-fail needs a --threshold")
		}
	}
	plan.Candidates, err = o.candidates(cmd, args)
	if err != nil {
		return nil, err
	}
	for i := range plan.Candidates {
		for _, limit := range plan.Candidates[i].Limits {
			if err := notInCalendar(limit.String(), &limit); err != nil && o.url != "" {
				return nil, err
			}
		}
	}
	if !cmd.Flags().Changed("replay") {
		if err := o.loadOptions.checkCost(plan.Candidates[0].Policy, &plan.Load, cmd.Flags().Changed("cost")); err != nil {
			return nil, err
		}
	}
	if plan.Shared, err = o.sharedRunFlags.parse(cmd, plan); err != nil {
		return nil, err
	}
	if plan.Failure, err = cli.ParseOnError(o.Globals, o.onError, plan.Candidates[0].Policy); err != nil {
		return nil, err
	}
	if plan.Breaker, err = o.outageOptions.settings(o.Globals); err != nil {
		return nil, err
	}
	reading, err := o.logOptions.parse(cmd, plan.Candidates)
	if cmd.Flags().Changed("replay") {
		plan.log = reading
	}
	return plan, err
}

// parseStart reads when to begin: an instant, or a time of day, whose next occurrence it returns.
func parseStart(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		if at.Before(now) {
			return at, cli.Usagef("--start-at %s is past; it is %s now", text, now.Format(time.RFC3339))
		}
		return at, nil
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			next := time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, now.Location())
			if next.Before(now) {
				next = next.AddDate(0, 0, 1)
			}
			return next, nil
		}
	}
	return time.Time{}, cli.Usagef("--start-at %q is not a time; write 15:04:05, or 2026-01-31T15:04:05Z", text)
}

// parseReplay reads the speed of a replay.
func (o *loadtestOptions) parseReplay(cmd *cobra.Command) (speed float64, err error) {
	if !cmd.Flags().Changed("replay") {
		for _, flag := range append(logFlags(), "speed") {
			if cmd.Flags().Changed(flag) {
				return 0, cli.Usagef("--%s needs a log to --replay", flag)
			}
		}
		return 0, nil
	}
	for _, flag := range []string{"keys", "distribution", "cost", "values", "seed"} {
		if cmd.Flags().Changed(flag) {
			return 0, cli.Usagef("--%s and --replay both say who asks for how much; give one of them", flag)
		}
	}
	if o.logOptions.file == "" {
		return 0, cli.Usagef("--replay is empty; name a log, or - for standard input")
	}
	speed, err = strconv.ParseFloat(strings.TrimPrefix(strings.TrimSuffix(o.speed, "x"), "×"), 64)
	if err != nil || !(speed > 0) || speed > 1e9 {
		return 0, cli.Usagef("--speed %q is not a speed; write a number above 0, such as 10 for ten times as fast", o.speed)
	}
	return speed, nil
}

// target opens the store or the endpoint of the test.
func (o *loadtestOptions) target() (experiment.Target, error) {
	if o.url != "" {
		client, err := o.client(o.Globals, o.url)
		if err != nil {
			return nil, err
		}
		return experiment.NewEndpointTarget(client), nil
	}
	url, options, err := o.Connection()
	if err != nil {
		return nil, err
	}
	store, err := o.openStore(url, options)
	if err != nil {
		return nil, err
	}
	target, err := experiment.NewStoreTarget(store, o.implementation)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return target, nil
}

func runLoadtest(ctx context.Context, o *loadtestOptions, plan *loadtestPlan) (err error) {
	if o.url == "" {
		if err := refuseExperiment(ctx, o.Globals, "load test"); err != nil {
			return err
		}
	}
	if plan.log != nil {
		log, err := plan.log.read(ctx, o.Globals)
		if err != nil {
			return err
		}
		plan.Load.Replay = &experiment.Replay{Log: log, Speed: plan.speed}
	}
	live, err := o.liveFlags.begin(ctx, o.Globals)
	if err != nil {
		return err
	}
	defer func() {
		switch unwritten := live.end(); {
		case errors.Is(err, cli.ErrDenied) && unwritten != nil: // a pipeline needs the verdict
			o.Note("%s", o.WithoutSecrets(cli.Message(unwritten)))
		default:
			err = errors.Join(err, unwritten)
		}
	}()
	plan.EachSecond = live.each()
	watcher := &loadtestWatcher{global: o.Globals, start: plan.start, several: len(plan.Candidates) > 1}
	document, failure := plan.Run(ctx, watcher)
	if len(document.Runs) == 0 {
		return failure
	}
	document.MaxErrors = &plan.mayFail
	err = o.finish(o.Globals, document, plan.promises, o.samples == cli.StandardOutput)
	var left *experiment.LeftoverError
	switch {
	case failure == nil:
		failure = err
	case errors.Is(err, cli.ErrDenied) && errors.As(failure, &left):
		// A pipeline needs the verdict, so it decides the exit code.
		o.Note("%s", o.WithoutSecrets(cli.Message(failure)))
		failure = err
	}
	// The report says which thresholds were missed until the interrupt.
	if document.Interrupted && (failure == nil || errors.Is(failure, cli.ErrDenied)) {
		failure = ctx.Err()
	}
	return failure
}
