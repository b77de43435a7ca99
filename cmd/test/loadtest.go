// Package test has the commands that try limits out and measure them: loadtest, probe, simulate and report.
package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/progress"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

type loadtestOptions struct {
	*cli.Globals
	experimentLimitFlags
	loadOptions
	endpointFlags
	reporting
	policyName     string
	implementation string
	url            string   // of an endpoint; empty for a store
	named          []string // names of the endpoint's subjects, if there are any
}

// NewLoadtestCmd makes limitctl loadtest.
func NewLoadtestCmd(global *cli.Globals) *cobra.Command {
	o := &loadtestOptions{Globals: global}
	cmd := &cobra.Command{
		Use: "loadtest --limit [ALGORITHM:]COUNT/PERIOD... | loadtest --policy NAME [ATTRIBUTE=VALUE...] | " +
			"loadtest URL --limit ...",
		Short: "Drive a limit with load: is it right, and fast?",
		Long: `Loadtest sends requests to a limit in a real store, compares every answer with
what the limit should have allowed, and measures how long answers took.
docs/load-testing.md explains the figures.

The load is an open loop: requests are due on schedule, even if the store is
slow, and latency counts from when a request was due. A request that cannot be
sent within --timeout is dropped, and counted. With --workers and no rate it is
a closed loop.

The keys have a prefix of their own and are removed at the end. Contexts that
are read-only or protected are refused. Ctrl-C ends the load, waits for the
answers under way, and reports; a second Ctrl-C stops at once.

Exit codes: 0 pass; 1 a threshold is missed, the audit found wrong answers or a
threshold could not be judged (unless --no-fail), or more than --max-errors got
no decision (3 if none did); if the verdict is inconclusive for another reason,
0, and 1 with --strict; 5 no failure, but keys of the run remain.`,
		Example: `  limitctl loadtest --limit 100/1s --rate 500 --duration 2s
  limitctl loadtest --limit 100/1s --algorithm all --scenario boundary --duration 1500ms
  limitctl loadtest --limit 1000/1m --workers 64 --keys 1000 --distribution zipf:1.2 --duration 1s -o json
  limitctl loadtest --policy api tenant=acme --keys 20 --stages 1s:200,1s:0 --threshold 'errors==0'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := o.parse(cmd, args)
			if err != nil {
				return err
			}
			return runLoadtest(cmd.Context(), o, plan)
		},
	}
	flags := cmd.Flags()
	o.experimentLimitFlags.addFlags(cmd, "to decide several together")
	flags.StringVar(&o.policyName, "policy", "",
		"decide the limits of the policy `NAME`; arguments set attributes, and loadtest makes up the others")
	cli.GroupFlags(cmd, "The load", o.loadOptions.addFlags)
	cli.GroupFlags(cmd, reportingTitle,
		o.reporting.flags("save", "html", "threshold", "markdown", "junit", "no-fail", "strict", "max-errors"))
	flags.StringVar(&o.implementation, "implementation", experiment.Script,
		"`NAME` of how to decide in Redis: script, or naive (several commands, to see what an audit finds)")
	cli.GroupFlags(cmd, endpointTitle, o.endpointFlags.addFlags)
	cmd.RegisterFlagCompletionFunc("policy", cli.Offers(global).Policies)
	cmd.RegisterFlagCompletionFunc("implementation",
		cobra.FixedCompletions([]string{experiment.Script, experiment.Naive}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *loadtestOptions) parse(cmd *cobra.Command, args []string) (plan *experiment.LoadTest, err error) {
	plan = &experiment.LoadTest{Open: o.target, Timeout: o.Timeout}
	if args, err = o.parseURL(cmd, args); err != nil {
		return nil, err
	}
	if o.implementation != experiment.Script && o.implementation != experiment.Naive {
		return nil, cli.Usagef("--implementation %q is unknown; it is script or naive", o.implementation)
	}
	if plan.Load, err = o.loadOptions.parse(cmd); err != nil {
		return nil, err
	}
	if err = o.planEndpoint(plan); err != nil {
		return nil, err
	}
	if err = o.reporting.parse(cmd, o.Globals, report.LoadTest); err != nil {
		return nil, err
	}
	plan.Candidates, err = o.candidates(cmd, args)
	if err != nil {
		return nil, err
	}
	for i := range plan.Candidates {
		for j := range plan.Candidates[i].Limits {
			if err := notInCalendar(&plan.Candidates[i].Limits[j]); err != nil && o.url != "" {
				return nil, err
			}
		}
	}
	if o.choosesRate && o.url == "" { // an endpoint is somebody's, and gets no more than it must
		plan.Load.Reach(plan.Candidates, mostChosenRate)
		o.sendEvenly(&plan.Load, cmd.Flags().Changed)
	}
	return plan, o.loadOptions.checkCost(plan.Candidates[0].Policy, &plan.Load, cmd.Flags().Changed("cost"))
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
	target, err := experiment.OpenStore(url, options, o.implementation)
	if _, err := o.OpenedToWrite(target, err); err != nil {
		return nil, err
	}
	return target, nil
}

func runLoadtest(ctx context.Context, o *loadtestOptions, plan *experiment.LoadTest) (err error) {
	if o.url == "" {
		if err := refuseLoadTest(o.Globals); err != nil {
			return err
		}
	}
	plan.Watch = func(candidate *experiment.Candidate) (time.Duration, func(*loadgen.Result, time.Duration), func()) {
		title, every := "load", time.Second
		if len(plan.Candidates) > 1 {
			title = candidate.Title()
		}
		bar := o.Progress(title, "")
		switch {
		case bar == nil:
			every = 0
		case o.Env.ErrIsTerminal:
			every = loadgen.ProgressEvery
		}
		return every, func(soFar *loadgen.Result, length time.Duration) {
			bar.Say(min(soFar.DurationMS, length.Milliseconds()), length.Milliseconds(), progressWords(soFar, length))
		}, bar.Close
	}
	document, failure := plan.Run(ctx)
	if len(document.Runs) == 0 {
		return failure
	}
	err = o.finish(o.Globals, document)
	switch {
	case failure == nil:
		failure = err
	case errors.Is(err, cli.ErrDenied) && (errors.Is(failure, outcome.ErrPartly) || document.Verdict == report.Fail):
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

// candidates returns the limits or the policy that the load is tried under.
func (o *loadtestOptions) candidates(cmd *cobra.Command, args []string) ([]experiment.Candidate, error) {
	if cmd.Flags().Changed("policy") {
		candidate, err := o.policyCandidate(cmd, args)
		return []experiment.Candidate{candidate}, err
	}
	if len(args) > 0 {
		return nil, cli.Usagef("%q is neither the URL of an endpoint, http://HOST/PATH, nor an attribute of a --policy",
			args[0])
	}
	return o.experimentLimitFlags.candidates(o.url != "")
}

// policyCandidate returns a policy. Attributes without an argument get generated values.
func (o *loadtestOptions) policyCandidate(cmd *cobra.Command, args []string) (c experiment.Candidate, err error) {
	for _, flag := range []string{"limit", "algorithm"} {
		if cmd.Flags().Changed(flag) {
			return c, cli.Usagef("--policy and --%s both say what is allowed; give one of them", flag)
		}
	}
	configured, err := o.ConfigFor(cmd.Context())
	if err != nil {
		return c, err
	}
	if c.Policy, err = configured.Policy(o.policyName); err != nil {
		return c, err
	}
	if args, err = o.NameClientsBy(configured.Config, o.policyName, args); err != nil {
		return c, err
	}
	if c.Fixed, err = policy.ParseAttributes(args); err != nil {
		return c, err
	}
	return c, c.Policy.CheckAttributes(c.Fixed)
}

// parseURL takes the URL of an endpoint from the arguments.
func (o *loadtestOptions) parseURL(cmd *cobra.Command, args []string) (rest []string, err error) {
	for i, arg := range args {
		if !isEndpoint(arg) {
			continue
		}
		if len(args) > 1 {
			other := args[(i+1)%len(args)]
			return nil, cli.Usagef("the URL of an endpoint is the only argument; leave out %q",
				endpoint.RedactURL(other))
		}
		o.url = arg
	}
	given := cmd.Flags().Changed
	refuse := func(why string, flags ...string) error {
		for _, flag := range flags {
			if given(flag) {
				return cli.Usagef("--%s is for %s", flag, why)
			}
		}
		return nil
	}
	if o.url == "" {
		return args, refuse("an endpoint, and none was given; add its URL, such as http://127.0.0.1:8080/",
			endpointOnlyFlags()...)
	}
	if err := refuse("a store, and an endpoint decides by itself; leave it out", "implementation", "store", "context",
		"prefix",
		"policy"); err != nil {
		return nil, err
	}
	if endpoint.IsRLS(o.url) {
		if err := refuse("HTTP, and this is a rate limit service; leave it out",
			slices.DeleteFunc(httpFlags(), func(flag string) bool { return flag == "header" })...); err != nil {
			return nil, err
		}
	}
	if o.named, err = o.names(); len(o.named) > 0 && !given("keys") {
		o.keys = len(o.named)
	}
	return nil, err
}

// planEndpoint adds to a plan what only a load test of an endpoint needs. It reports requests that do not contain the
// subject.
func (o *loadtestOptions) planEndpoint(plan *experiment.LoadTest) error {
	if o.url == "" {
		return nil
	}
	client, err := o.client(o.Globals, o.url)
	if err != nil {
		return err
	}
	defer client.Close()
	if n := len(o.named); n > 0 && plan.Load.Subjects > n {
		return cli.Usagef("--subjects names %d subjects, and %d are needed; add some, or lower --keys", n,
			plan.Load.Subjects)
	}
	plan.Endpoint = &experiment.EndpointPlan{Names: o.named, Intervals: interval.Options{Resolution: time.Millisecond}}
	hasSubject, hasCost := client.Places()
	plan.Endpoint.Intervals.UsedBefore = !hasSubject || len(o.named) > 0
	switch {
	case !hasSubject && (plan.Load.Subjects > 1 || len(o.named) > 0):
		return cli.Usagef("nothing in the requests says who asks; put %s into the URL, a --header or the --body, or "+
			"ask as one subject",
			endpoint.SubjectPlace)
	case !hasCost && strings.TrimSpace(o.cost) != "1":
		return cli.Usagef("nothing in the requests says the cost; put %s into the URL, a --header or the --body",
			endpoint.CostPlace)
	}
	return nil
}

// progressWords describes the progress of a run.
func progressWords(r *loadgen.Result, length time.Duration) string {
	elapsed := time.Duration(r.DurationMS) * time.Millisecond
	text := fmt.Sprintf(" %s/%s, %s sent, %s/s", output.Duration(min(elapsed, length).Truncate(time.Second)),
		output.Duration(length.Round(time.Second)), progress.Count(r.Requests),
		progress.Count(int64(float64(r.Requests)/max(elapsed, time.Millisecond).Seconds())))
	if left := (length - elapsed).Round(time.Second); left > 0 {
		text += ", " + output.Duration(left) + " left"
	}
	if r.Latency != nil {
		text += fmt.Sprintf(", %s denied, p99 %s", progress.Count(r.Denied), output.Micros(r.Latency.P99))
	}
	if r.Errors > 0 {
		text += fmt.Sprintf(", %s errors", progress.Count(r.Errors))
	}
	return text
}
