package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

type simulateOptions struct {
	*globalOptions
	limits     []string
	policies   []string
	algorithms string
	burst      int64
	logFormat  string
	timeField  string
	keyFields  []string
	costField  string
	attributes []string
	suggest    string

	file      string
	tryouts   []tryout
	promise   *loadgen.Promise
	traceFrom trace.Options
	// The store that is to decide, too, if one is.
	storeURL     string
	storeOptions connect.Options
	// fieldOf says which field of the log an attribute is.
	fieldOf map[string]string
}

// tryout is a limit, or a policy, to simulate.
type tryout struct {
	limit  limiter.Limit // its burst is 0 where nothing was said of it
	policy *policy.Policy
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
	flags.StringArrayVarP(&o.limits, "limit", "l", nil, "`[ALGORITHM:]COUNT/PERIOD[,burst=N]` to try, such as 30/1m; repeat it to try several side by side")
	flags.StringArrayVar(&o.policies, "policy", nil, "try the policy of that `NAME`; repeat it to try several side by side")
	flags.StringVarP(&o.algorithms, "algorithm", "a", "", "try limits that name no algorithm under each of the `ALGORITHMS`: all, or some with commas between (default token-bucket)")
	flags.Int64Var(&o.burst, "burst", 0, "burst of `N` units for the bucket limits that give none (default their count)")
	flags.StringVar(&o.logFormat, "log-format", "auto", "`FORMAT` of the log: "+strings.Join(trace.FormatNames(), ", "))
	flags.StringVar(&o.timeField, "time-field", "", "`FIELD` that says when a request was (default time)")
	flags.StringArrayVar(&o.keyFields, "key-field", nil, "`FIELD` that says who is limited; repeat it for who is limited by several together (default ip of an access log, else key)")
	flags.StringVar(&o.costField, "cost-field", "", "`FIELD` with the units a request takes; one without it takes 1 (default cost, if there is one)")
	flags.StringArrayVar(&o.attributes, "attribute", nil, "`NAME=FIELD`: the policies' attribute of that name is in that field (default the field of its name)")
	flags.StringVar(&o.suggest, "suggest", "", "search each limit's least count that keeps a `PROMISE`, such as 'denied_keys<1%'")
	cmd.RegisterFlagCompletionFunc("policy", global.completePolicies)
	cmd.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions(trace.FormatNames(), cobra.ShellCompDirectiveNoFileComp))
	for _, flag := range []string{"limit", "algorithm", "time-field", "key-field", "cost-field", "attribute", "suggest"} {
		cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
	return cmd
}

// parse makes the tryouts, and what to read of the log, of the flags.
func (o *simulateOptions) parse(cmd *cobra.Command) (err error) {
	if len(o.limits)+len(o.policies) == 0 {
		return usagef("no limit given; add --limit COUNT/PERIOD, such as --limit 30/1m, or --policy NAME")
	}
	for _, flag := range []string{"time-field", "cost-field", "suggest", "algorithm"} {
		if cmd.Flags().Changed(flag) && cmd.Flags().Lookup(flag).Value.String() == "" {
			return usagef("--%s is empty; give it a value or leave it out", flag)
		}
	}
	if o.traceFrom.Format, err = trace.ParseFormat(o.logFormat); err != nil {
		return usagef("--log-format: %s", err)
	}
	if err := o.parseLimits(cmd); err != nil {
		return err
	}
	if o.suggest != "" {
		if len(o.limits) == 0 {
			return usagef("--suggest searches the count of a --limit, and there is none")
		}
		promise, err := loadgen.ParsePromise(o.suggest)
		if err != nil {
			return usagef("--suggest: %s", err)
		}
		o.promise = &promise
	}
	o.traceFrom.Time, o.traceFrom.Cost, o.traceFrom.Key = o.timeField, o.costField, o.keyFields
	for i, name := range o.keyFields {
		if name == "" || slices.Index(o.keyFields, name) < i {
			return usagef("--key-field %q is empty or given twice; name each field once", name)
		}
	}
	return o.parsePolicies()
}

func (o *simulateOptions) parseLimits(cmd *cobra.Command) error {
	algorithms, err := parseAlgorithms(o.algorithms)
	if err != nil {
		return err
	}
	burstGiven, burstUsed, algorithmUsed := cmd.Flags().Changed("burst"), false, false
	if burstGiven && (o.burst < 1 || o.burst > limiter.MaxCount) {
		return usagef("--burst %d is out of range; it must be from 1 to %d", o.burst, limiter.MaxCount)
	}
	for _, text := range o.limits {
		limit, err := limiter.ParseLimit(text)
		if err != nil {
			return err
		}
		under := []limiter.Algorithm{limit.Algorithm}
		if limit.Algorithm == 0 {
			under, algorithmUsed = algorithms, true
		}
		for _, limit.Algorithm = range under {
			tried := limit
			if burstGiven && limit.Burst == 0 && limit.Algorithm.HasBurst() {
				tried.Burst, burstUsed = o.burst, true
			}
			// What the flags filled in may break a bound that the text did not.
			if _, err := tried.Normalize(); err != nil {
				return usagef("limit %q as %s: %s", text, limit.Algorithm, err)
			}
			o.tryouts = append(o.tryouts, tryout{limit: tried})
		}
	}
	switch {
	case burstGiven && !burstUsed:
		return usagef("--burst %d applies to none of the limits; only token-bucket and leaky-bucket limits without a burst of their own take it", o.burst)
	case o.algorithms != "" && !algorithmUsed:
		return usagef("--algorithm %s applies to none of the limits; only a --limit that names no algorithm takes it", o.algorithms)
	}
	return nil
}

// parseAlgorithms reads "all", or algorithms with commas between them.
func parseAlgorithms(text string) ([]limiter.Algorithm, error) {
	switch text {
	case "":
		return []limiter.Algorithm{limiter.TokenBucket}, nil
	case "all":
		return limiter.Algorithms(), nil
	}
	var algorithms []limiter.Algorithm
	for name := range strings.SplitSeq(text, ",") {
		algorithm, err := limiter.ParseAlgorithm(strings.TrimSpace(name))
		if err != nil {
			return nil, usagef("--algorithm: %s; several are written with commas between them, and all is every one", err)
		}
		if slices.Contains(algorithms, algorithm) {
			return nil, usagef("--algorithm names %s twice; name it once", algorithm)
		}
		algorithms = append(algorithms, algorithm)
	}
	return algorithms, nil
}

// parsePolicies finds the policies, and the fields that their attributes are in.
func (o *simulateOptions) parsePolicies() error {
	attributes, err := policy.ParseAttributes(o.attributes)
	if err != nil {
		return usagef("--attribute: %s", err)
	}
	o.fieldOf = attributes
	if len(o.policies) == 0 {
		if len(o.attributes) > 0 {
			return usagef("--attribute is about the attributes of a --policy, and none is given")
		}
		return nil
	}
	if len(o.limits) == 0 && len(o.keyFields) > 0 {
		return usagef("--key-field is about a --limit, and none is given; a policy's fields are said by --attribute NAME=FIELD")
	}
	c, err := o.config()
	if err != nil {
		return err
	}
	used := policy.Attributes{}
	for _, name := range o.policies {
		p, err := c.Policy(name)
		if err != nil {
			return err
		}
		o.tryouts = append(o.tryouts, tryout{policy: p})
		names, needed := p.Attributes()
		for _, name := range names {
			used[name] = o.fieldFor(name)
			field := trace.Field{Name: used[name], Optional: !needed[name]}
			if len(o.limits) == 0 && !field.Optional {
				o.traceFrom.Key = append(o.traceFrom.Key, field.Name)
			} else {
				o.traceFrom.Further = append(o.traceFrom.Further, field)
			}
		}
	}
	for _, name := range attributes.Names() {
		if used[name] == "" {
			return usagef("--attribute %s is of none of the policies; they know %s", name, strings.Join(used.Names(), ", "))
		}
	}
	return nil
}

// fieldFor returns the field that an attribute of a policy is in.
func (o *simulateOptions) fieldFor(attribute string) string {
	if field, said := o.fieldOf[attribute]; said {
		return field
	}
	return attribute
}

func runSimulate(ctx context.Context, o *simulateOptions) error {
	if err := o.chooseStore(); err != nil {
		return err
	}
	log, err := o.readLog(ctx)
	if err != nil {
		return err
	}
	warnings := o.warnings(log)
	answer := &simulateAnswer{log: log, name: o.logName(), document: simulateDocument{Document: report.New(report.Simulation)}}
	tryouts, kept := o.tryouts, true
	if o.promise != nil {
		suggested, suggestions, err := o.search(ctx, log)
		if err != nil {
			return err
		}
		tryouts, kept = append(tryouts, suggested...), len(suggested) == len(suggestions)
		answer.document.Suggestions = suggestions
	}
	agreed := true
	for _, tried := range tryouts {
		run, err := o.simulate(ctx, log, tried, warnings)
		if err != nil {
			return err
		}
		answer.document.Runs = append(answer.document.Runs, run.run)
		if run.result.Disagreements > 0 {
			o.reportDisagreements(run)
			agreed = false
		}
	}
	if err := o.print(answer); err != nil {
		return err
	}
	if !kept || !agreed {
		return errDenied
	}
	return nil
}

// search finds the least count of each limit that keeps the promise, and those limits
// that have one.
func (o *simulateOptions) search(ctx context.Context, log *trace.Trace) (suggested []tryout, suggestions []suggestionDocument, err error) {
	for _, tried := range o.tryouts {
		if tried.policy != nil {
			continue
		}
		found, err := loadgen.Suggest(ctx, log, tried.limit, *o.promise, o.keyIndexes(log)...)
		if err != nil {
			return nil, nil, err
		}
		suggestions = append(suggestions, newSuggestionDocument(*o.promise, &found))
		if found.Kept {
			suggested = append(suggested, tryout{limit: found.Limit})
		}
	}
	return suggested, suggestions, nil
}

// logName is what to call the log.
func (o *simulateOptions) logName() string {
	if o.file == "-" {
		return "standard input"
	}
	return output.Printable(o.file)
}

// readLog reads the log.
func (o *simulateOptions) readLog(ctx context.Context) (*trace.Trace, error) {
	in := io.NopCloser(o.env.In)
	if o.file != "-" {
		var err error
		if in, err = o.env.Open(o.file); err != nil {
			return nil, o.logError(err)
		}
	}
	defer in.Close()
	log, err := trace.Read(ctx, in, o.traceFrom)
	if err != nil {
		return nil, o.logError(err)
	}
	return log, nil
}

// logError says which file an error is about.
func (o *simulateOptions) logError(err error) error {
	var path *fs.PathError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &path):
		return usagef("the log %s cannot be read: %s", o.logName(), path.Err)
	}
	return fmt.Errorf("%s: %w", o.logName(), err)
}

// warnings are what a reader of the figures must know of the log. They are told at
// once, too.
func (o *simulateOptions) warnings(log *trace.Trace) []string {
	var warnings []string
	warn := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		warnings = append(warnings, text)
		o.warn(text)
	}
	if log.Bad > 0 {
		first := log.FirstBad[0]
		warn("%d of %d lines could not be read and are left out; line %d, %q: %s", log.Bad, log.Lines, first.Number, first.Excerpt, first.Reason)
		for _, bad := range log.FirstBad[1:] {
			o.warn(fmt.Sprintf("line %d, %q: %s", bad.Number, bad.Excerpt, bad.Reason))
		}
	}
	if log.OutOfOrder > 0 {
		warn("%d of %d lines were out of order, and were put in order", log.OutOfOrder, log.Lines)
	}
	if log.Damage != "" {
		warn("the log is not whole: %s; what was read before counts", log.Damage)
	}
	return warnings
}

func (o *simulateOptions) warn(text string) {
	if !o.quiet {
		fmt.Fprintf(o.env.Err, "limitctl: warning: %s\n", text)
	}
}

// keyIndexes returns which of the trace's fields the limits are by.
func (o *simulateOptions) keyIndexes(log *trace.Trace) []int {
	if len(o.keyFields) == 0 {
		return []int{0}
	}
	var indexes []int
	for _, name := range o.keyFields {
		indexes = append(indexes, slices.Index(log.Fields, name))
	}
	return indexes
}

// candidate returns what to simulate, and what to call each of its fields.
func (o *simulateOptions) candidate(log *trace.Trace, tried tryout) (c loadgen.Candidate, names []string) {
	if tried.policy == nil {
		indexes := o.keyIndexes(log)
		for _, i := range indexes {
			names = append(names, log.Fields[i])
		}
		return loadgen.UnderLimit(tried.limit, indexes...), names
	}
	names, _ = tried.policy.Attributes()
	var indexes []int
	for _, name := range names {
		indexes = append(indexes, slices.Index(log.Fields, o.fieldFor(name)))
	}
	return loadgen.UnderPolicy(tried.policy, names, indexes...), names
}

// simulatedRun is what came of a tryout.
type simulatedRun struct {
	tryout
	names  []string // of the fields that make a subject
	result *loadgen.Simulation
	run    report.Run
}

// simulate tries one limit or policy, with the store if one is asked for.
func (o *simulateOptions) simulate(ctx context.Context, log *trace.Trace, tried tryout, warnings []string) (*simulatedRun, error) {
	r := &simulatedRun{tryout: tried}
	candidate, names := o.candidate(log, tried)
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
		o.warn(r.run.Limit + ": " + warning)
	}
	return r, nil
}
