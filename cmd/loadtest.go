package cmd

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

type loadtestOptions struct {
	*globalOptions
	trialLimitFlags
	loadOptions
	logOptions
	speed string
	reportingOptions
	policyName     string
	values         []string
	implementation string
	abortOnFail    bool
	keep           bool
	startAt        string

	variants []variant
	// Of a replay:
	factor   float64
	log      *trace.Trace
	logNotes []string
	start    time.Time // zero for at once
}

func newLoadtestCmd(global *globalOptions) *cobra.Command {
	o := &loadtestOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "loadtest --limit [ALGORITHM:]COUNT/PERIOD... | loadtest --policy NAME [ATTRIBUTE=VALUE...]",
		Short: "Drive a limit with load: is it right, is it fast, what does it cost?",
		Long: `Loadtest sends requests to a limit in a real store, audits every answer, and
tells what got through against what should have, how long answers took, and what
they cost. docs/load-testing.md explains the figures.

The load is an open loop: --rate requests a second arrive on schedule, whatever
the store does, and latency counts from when a request was due. One that could
not be sent within --timeout is dropped, and counted. With --workers and no rate
it is a closed loop: each worker sends a request when its last one is answered.
A --scenario sends what breaks naive limiters; --replay sends recorded traffic.

Repeated --limit are decided together. --algorithm all, or a list, runs the same
load under each algorithm, one after the other, and compares them.

Keys are made under a prefix of the run's own and removed at the end. Contexts
that are read-only or protected are refused. Ctrl-C ends the load, waits for
what is under way, and reports; a second one leaves at once.

--threshold is a promise such as 'p99<5ms', 'over_admitted==0' or 'denied<1%';
the exit code is 1 if one is missed.`,
		Example: `  limitctl loadtest --limit 100/1s --rate 500 --duration 2s
  limitctl loadtest --limit 100/1s --algorithm all --scenario boundary --duration 1500ms
  limitctl loadtest --limit 1000/1m --workers 64 --keys 1000 --distribution zipf:1.2 --duration 1s -o json
  limitctl loadtest --limit 30/1m --replay access.log --speed 1000
  limitctl loadtest --policy api tenant=acme --keys 20 --stages 1s:200,1s:0 --threshold 'errors==0'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(cmd, args); err != nil {
				return err
			}
			return runLoadtest(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	o.trialLimitFlags.addFlags(cmd, "decide together with the others")
	flags.StringVar(&o.policyName, "policy", "", "decide the limits of the policy of that `NAME`; arguments fix attributes, and the others are made up")
	flags.StringArrayVar(&o.values, "values", nil, "`ATTRIBUTE=N`: a policy's attribute has N different values (default as many as --keys)")
	o.loadOptions.addFlags(cmd)
	o.reportingOptions.addFlags(cmd)
	flags.StringVar(&o.logOptions.file, "replay", "", "send the requests of a recorded log at their own times: a `FILE` as simulate reads it, or - for standard input")
	flags.StringVar(&o.speed, "speed", "1", "replay so many `TIMES` as fast as it was recorded, such as 10")
	o.logOptions.addFlags(cmd)
	flags.StringVar(&o.implementation, "implementation", implementationScript, "`NAME` of how to decide in Redis: script, or naive (several commands, to see what an audit finds)")
	flags.BoolVar(&o.abortOnFail, "abort-on-fail", false, "end the run once a threshold is missed that cannot be met any more")
	flags.BoolVar(&o.keep, "keep", false, "leave the run's keys in the store, to look at them")
	flags.StringVar(&o.startAt, "start-at", "", "begin at `TIME`, such as 15:04:05 or 2026-01-31T15:04:05Z, as several machines do together")
	cmd.RegisterFlagCompletionFunc("policy", completer{global}.policies)
	cmd.RegisterFlagCompletionFunc("implementation", cobra.FixedCompletions([]string{implementationScript, implementationNaive}, cobra.ShellCompDirectiveNoFileComp))
	for _, flag := range []string{"values", "start-at"} {
		cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
	return cmd
}

// How a load test decides in Redis.
const (
	implementationScript = "script"
	implementationNaive  = "naive"
)

func (o *loadtestOptions) parse(cmd *cobra.Command, args []string) (err error) {
	if o.implementation != implementationScript && o.implementation != implementationNaive {
		return usagef("--implementation %q is unknown; it is script or naive", o.implementation)
	}
	if cmd.Flags().Changed("start-at") {
		if o.start, err = parseStart(o.startAt, o.env.Now()); err != nil {
			return err
		}
	}
	if err := o.loadOptions.parse(cmd); err != nil {
		return err
	}
	if err := o.parseReplay(cmd); err != nil {
		return err
	}
	if err := o.reportingOptions.parse(cmd, o.globalOptions, report.LoadTest, o.logOptions.file); err != nil {
		return err
	}
	if o.abortOnFail && len(o.expressions) == 0 {
		return usagef("--abort-on-fail is about a --threshold, and none is given")
	}
	if cmd.Flags().Changed("policy") {
		return o.parsePolicy(cmd, args)
	}
	switch {
	case len(args) > 0:
		return usagef("%q was given, and only a --policy takes arguments: attributes, such as tenant=acme", args[0])
	case len(o.values) > 0:
		return usagef("--values is about a policy's attributes, and no --policy is given")
	}
	sets, err := o.trialLimitFlags.sets(cmd)
	if err != nil {
		return err
	}
	for _, limits := range sets {
		o.variants = append(o.variants, variant{limits: limits})
	}
	return o.logOptions.parse(cmd, true, nil)
}

func (o *loadtestOptions) parsePolicy(cmd *cobra.Command, args []string) error {
	for _, flag := range []string{"limit", "algorithm", "burst"} {
		if cmd.Flags().Changed(flag) {
			return usagef("--policy and --%s both say what is allowed; give one of them", flag)
		}
	}
	c, err := o.config()
	if err != nil {
		return err
	}
	v := variant{values: map[string]int{}}
	if v.policy, err = c.Policy(o.policyName); err != nil {
		return err
	}
	if o.logOptions.file != "" && len(args) > 0 {
		return usagef("%q was given, and the attributes of a --replay are fields of the log; map them by --attribute NAME=FIELD", args[0])
	}
	if v.fixed, err = policy.ParseAttributes(args); err != nil {
		return err
	}
	if err := v.policy.CheckAttributes(v.fixed); err != nil {
		return err
	}
	for _, text := range o.values {
		if name, n, found := strings.Cut(text, "="); !found || name == "" || n == "" {
			return usagef("--values %q is no number of values; write ATTRIBUTE=N, such as user=100", text)
		}
	}
	numbers, err := policy.ParseAttributes(o.values)
	if err != nil {
		return usagef("--values: %s", err)
	}
	if err := v.policy.CheckAttributes(numbers); err != nil {
		return usagef("--values: %s", err)
	}
	_, needed := v.policy.Attributes()
	for name := range needed {
		if v.fixed[name] == "" {
			v.values[name] = o.keys
		}
	}
	for _, name := range numbers.Names() {
		n, err := parseCount("--values "+name, numbers[name], 1, maxSubjects)
		if err != nil {
			return err
		}
		if v.fixed[name] != "" {
			return usagef("attribute %s is fixed to %q, so --values %s=%d is too much said; leave one out", name, v.fixed[name], name, n)
		}
		v.values[name] = n
	}
	o.variants = []variant{v}
	return o.logOptions.parse(cmd, false, []*policy.Policy{v.policy})
}

// parseStart reads when to begin: an instant, or a time of the day that comes next.
func parseStart(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		if at.Before(now) {
			return at, usagef("--start-at %s is past; it is %s now", text, now.Format(time.RFC3339))
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
	return time.Time{}, usagef("--start-at %q is no time; write 15:04:05, or 2026-01-31T15:04:05Z", text)
}

// parseReplay reads how fast a recording is to be sent again.
func (o *loadtestOptions) parseReplay(cmd *cobra.Command) (err error) {
	if !cmd.Flags().Changed("replay") {
		for _, flag := range append(logFlags(), "speed") {
			if cmd.Flags().Changed(flag) {
				return usagef("--%s is about a log to --replay, and none is given", flag)
			}
		}
		return nil
	}
	for _, flag := range []string{"keys", "distribution", "cost", "values", "seed"} {
		if cmd.Flags().Changed(flag) {
			return usagef("--%s and --replay both say who asks for how much; give one of them", flag)
		}
	}
	if o.logOptions.file == "" {
		return usagef("--replay is empty; name a log, or - for standard input")
	}
	if o.factor, err = strconv.ParseFloat(strings.TrimPrefix(strings.TrimSuffix(o.speed, "x"), "×"), 64); err != nil || !(o.factor > 0) || o.factor > 1e9 {
		return usagef("--speed %q is no speed; write a number above 0, such as 10 for ten times as fast", o.speed)
	}
	return nil
}

func runLoadtest(ctx context.Context, o *loadtestOptions) error {
	if err := o.refuseTrial("load test"); err != nil {
		return err
	}
	if o.logOptions.file != "" {
		var err error
		if o.log, o.logNotes, err = o.read(ctx, o.globalOptions); err != nil {
			return err
		}
	}
	document := report.New(report.LoadTest)
	var failure error
	for i := range o.variants {
		if i > 0 && ctx.Err() != nil {
			break
		}
		run, err := o.runVariant(ctx, &o.variants[i])
		if run != nil {
			document.Runs = append(document.Runs, *run)
		}
		if err != nil {
			failure = err
			break
		}
	}
	if len(document.Runs) == 0 {
		return failure
	}
	document.Interrupted = ctx.Err() != nil
	if err := o.finish(o.globalOptions, document); failure == nil {
		failure = err
	}
	// A threshold that was missed until then is in the report.
	if document.Interrupted && (failure == nil || errors.Is(failure, errDenied)) {
		failure = ctx.Err()
	}
	return failure
}
