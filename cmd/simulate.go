package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

type simulateOptions struct {
	*globalOptions
	trialLimitFlags
	logOptions
	reportingOptions
	policies []string
	suggest  string

	tryouts []variant
	promise *report.Expression
	// The store that is to decide, too, if one is.
	storeURL     string
	storeOptions connect.Options
}

func newSimulateCmd(global *globalOptions) *cobra.Command {
	o := &simulateOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "simulate FILE --limit [ALGORITHM:]COUNT/PERIOD... | simulate FILE --policy NAME...",
		Short: "Tell what a limit would have done to recorded traffic",
		Long: `Simulate decides each request of a log at its own instant, without waiting, and
tells how many requests and keys would have been denied. Each --limit is tried
by itself, beside the others; the limits of a --policy are decided together.

FILE, or standard input for -, is an access log of Apache or nginx (common or
combined), JSON lines, or CSV with a header; gzip is unpacked. Lines that cannot
be read are counted and left out, and lines out of order are put in order. A
request that costs more than a limit ever allows at once counts as denied.

The fields of an access log are ip, user, time, method, path (without its query
string), protocol, status, bytes, referer and agent. Those of JSON in objects
are named with dots, such as request.ip. Who is limited is in the field ip of an
access log and key of others, and of a policy in the fields of its attributes'
names. Times are RFC 3339, or numbers since 1970: s, ms, µs or ns by magnitude.

No store is used unless --store or --context is on the command line. Then that
store decides, by the log's clock and under a prefix of its own whose keys are
removed again, and has to agree with what is reckoned here: exit code 1 if not.

--suggest searches, for each --limit, the least count that keeps a promise:
denied or denied_keys, < or <=, and a share or a number. A burst that was given
stays as it is, and else follows the count. Exit code 1 if no count does.`,
		Example: `  limitctl simulate access.log --limit 30/1m
  limitctl simulate access.log --limit 30/1m --limit 500/1h --algorithm all
  limitctl simulate access.log --limit sliding-log:30/1m --suggest 'denied_keys<1%'
  limitctl simulate access.log --policy api --attribute tenant=ip --attribute user=ip --attribute route=path
  gzip -c access.log | limitctl simulate - --limit 30/1m --key-field ip --key-field path -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("no FILE given; name a log, or - for standard input, as in `%s access.log --limit 30/1m`", cmd.CommandPath())
			case len(args) > 1:
				return usagef("%s given, and %s takes one FILE", several(args), cmd.Name())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			if err := o.parse(cmd); err != nil {
				return err
			}
			return runSimulate(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	o.trialLimitFlags.addFlags(cmd, "try beside it")
	flags.StringArrayVar(&o.policies, "policy", nil, "try the policy of that `NAME`; repeat it to try several side by side")
	o.logOptions.addFlags(cmd)
	flags.StringVar(&o.suggest, "suggest", "", "search each limit's least count that keeps a `PROMISE`, such as 'denied_keys<1%'")
	o.reportingOptions.addFlags(cmd)
	cmd.RegisterFlagCompletionFunc("policy", completer{global}.policies)
	cmd.RegisterFlagCompletionFunc("suggest", cobra.NoFileCompletions)
	return cmd
}

// parse makes the tryouts, and what to read of the log, of the flags.
func (o *simulateOptions) parse(cmd *cobra.Command) error {
	if len(o.limits)+len(o.policies) == 0 {
		return usagef("no limit given; add --limit COUNT/PERIOD, such as --limit 30/1m, or --policy NAME")
	}
	for _, flag := range []string{"suggest", "algorithm"} {
		if cmd.Flags().Changed(flag) && cmd.Flags().Lookup(flag).Value.String() == "" {
			return usagef("--%s is empty; give it a value or leave it out", flag)
		}
	}
	each, err := o.each(cmd)
	if err != nil {
		return err
	}
	for _, under := range each {
		for _, limit := range under {
			o.tryouts = append(o.tryouts, variant{limits: []limiter.Limit{limit}})
		}
	}
	if err := o.parseSuggest(); err != nil {
		return err
	}
	var policies []*policy.Policy
	for _, name := range o.policies {
		c, err := o.config()
		if err != nil {
			return err
		}
		p, err := c.Policy(name)
		if err != nil {
			return err
		}
		policies = append(policies, p)
		o.tryouts = append(o.tryouts, variant{policy: p})
	}
	if err := o.logOptions.parse(cmd, len(o.limits) > 0, policies); err != nil {
		return err
	}
	return o.reportingOptions.parse(cmd, o.globalOptions, report.Simulation, o.logOptions.file)
}

// parseSuggest reads the promise whose least count is searched.
func (o *simulateOptions) parseSuggest() error {
	if o.suggest == "" {
		return nil
	}
	if len(o.limits) == 0 {
		return usagef("--suggest searches the count of a --limit, and there is none")
	}
	promise, err := report.ParseThreshold(o.suggest)
	if err != nil || !promise.IsAboutDenials() {
		return usagef("--suggest %q is no promise about denials; write it like denied_keys<1%%, denied<=0.5%% or denied<20", o.suggest)
	}
	o.promise = &promise
	return nil
}

func runSimulate(ctx context.Context, o *simulateOptions) error {
	if err := o.chooseStore(); err != nil {
		return err
	}
	log, warnings, err := o.read(ctx, o.globalOptions)
	if err != nil {
		return err
	}
	document := report.New(report.Simulation)
	tryouts, kept := o.tryouts, true
	if o.promise != nil {
		suggested, err := o.search(ctx, log, document)
		if err != nil {
			return err
		}
		tryouts, kept = append(tryouts, suggested...), len(suggested) == len(document.Suggestions)
	}
	agreed := true
	for _, tried := range tryouts {
		run, err := o.simulate(ctx, log, tried, warnings)
		if err != nil {
			return err
		}
		document.Runs = append(document.Runs, run.run)
		if run.result.Disagreements > 0 {
			o.reportDisagreements(run)
			agreed = false
		}
	}
	if err := o.finish(o.globalOptions, document); err != nil {
		return err
	}
	if !kept || !agreed {
		return errDenied
	}
	return nil
}

// search finds the least count of each limit that keeps the promise, and returns those
// limits that have one.
func (o *simulateOptions) search(ctx context.Context, log *trace.Trace, document *report.Document) (suggested []variant, err error) {
	indexes, _ := o.keyIndexes(log)
	for _, tried := range o.tryouts {
		if tried.policy != nil {
			continue
		}
		found, err := loadgen.Suggest(ctx, log, tried.limits[0], func(t *loadgen.Tally) bool {
			kept, _ := o.holds(t)
			return kept
		}, indexes...)
		if err != nil {
			return nil, err
		}
		suggestion := report.Suggestion{
			Promise: o.promise.String(), Kept: found.Kept, Algorithm: found.Limit.Algorithm.String(), Limit: found.Limit.String(), Count: found.Limit.Count,
		}
		_, suggestion.Actual = o.holds(found.Tally)
		if found.Below != nil {
			_, suggestion.Below = o.holds(found.Below)
		}
		document.Suggestions = append(document.Suggestions, suggestion)
		if found.Kept {
			suggested = append(suggested, variant{limits: []limiter.Limit{found.Limit}})
		}
	}
	return suggested, nil
}

// holds reports whether what was tallied keeps the promise, and its own figure.
func (o *simulateOptions) holds(t *loadgen.Tally) (kept bool, actual string) {
	kept, actual, _ = o.promise.Holds(&report.Figures{ // which every run has
		Requests: t.Requests(), Denied: t.Denied(), Keys: t.Keys(), KeysDenied: t.KeysDenied(),
	})
	return kept, actual
}

// simulatedRun is what came of a tryout.
type simulatedRun struct {
	variant
	names  []string // of the fields that make a subject
	result *loadgen.Simulation
	run    report.Run
}

// simulate tries one limit or policy, with the store if one is asked for.
func (o *simulateOptions) simulate(ctx context.Context, log *trace.Trace, tried variant, warnings []string) (*simulatedRun, error) {
	r := &simulatedRun{variant: tried}
	candidate, names := o.candidate(log, &tried)
	r.names = names
	where := ""
	var err error
	bar := o.progress("simulating", "denied")
	settings := loadgen.SimulateOptions{Progress: func(decided, denied int64) { bar.Set(decided, int64(len(log.Requests)), denied) }}
	if o.usesStore() {
		r.result, where, err = o.simulateWithStore(ctx, log, candidate, settings)
	} else {
		r.result, err = loadgen.Simulate(ctx, log, candidate, settings)
	}
	bar.Close()
	if err != nil {
		return nil, err
	}
	r.run = simulationRun(r, log, o.logName(), where, warnings)
	for _, warning := range r.run.Warnings[len(warnings):] {
		o.warnBesideReport(r.run.Limit + ": " + warning)
	}
	return r, nil
}
