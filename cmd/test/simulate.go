package test

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type simulateOptions struct {
	*cli.Globals
	experimentLimitFlags
	logOptions
	wrapFlags
	reporting
	policies []string
	suggest  string
}

// NewSimulateCmd makes limitctl simulate.
func NewSimulateCmd(global *cli.Globals) *cobra.Command {
	o := &simulateOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "simulate FILE --limit [ALGORITHM:]COUNT/PERIOD... | simulate FILE --policy NAME...",
		Short: "Show what a limit would have done to recorded traffic",
		Long: `Simulate decides each request of a log at its own time, without waiting, and
shows how many requests and keys would have been denied. It tries each --limit
by itself, and decides the limits of a --policy together.

FILE, or standard input for -, is an access log of Apache or nginx (common or
combined), JSON lines, or CSV with a header, compressed with gzip or not.
Simulate counts and leaves out lines that it cannot read, and sorts lines that
are out of order. A request that costs more than a limit ever allows at once
counts as denied.

The fields of an access log are ip, user, time, method, path (without its query
string), protocol, status, bytes, referer and agent. The variables of another
--log-format are fields by these names, or by their own, such as
http_x_api_key. Fields of nested JSON objects are named with dots, such as
request.ip. A --limit is by the field ip of an access log, and by the field key
of other logs; a --policy is by the fields that have its attributes' names.
Times are RFC 3339, in UTC without a zone, or like those of access logs, or
numbers since 1970: s, ms, µs or ns by magnitude.

--suggest finds the lowest count that keeps a promise: denied or denied_keys, <
or <=, and a share or a number. A burst in the limit does not change. If no
count keeps the promise, the exit code is 1.`,
		Example: `  limitctl simulate access.log --limit 30/1m
  limitctl simulate access.log --limit 30/1m --limit 500/1h --algorithm all
  limitctl simulate access.log --limit sliding-log:30/1m --suggest 'denied_keys<1%'
  limitctl simulate access.log --policy api --attribute tenant=ip --attribute user=ip --attribute route=path
  gzip -c access.log | limitctl simulate - --limit 30/1m --key-field ip --key-field path -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return cli.Usagef("no FILE given; name a log, or - for standard input, as in `%s access.log --limit "+
					"30/1m`",
					cmd.CommandPath())
			case len(args) > 1:
				return cli.Usagef("%s given, and %s takes one FILE", cli.Several(args), cmd.Name())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	o.experimentLimitFlags.addFlags(cmd, "to try several")
	flags.StringArrayVar(&o.policies, "policy", nil, "try the policy `NAME`; repeat it to try several side by side")
	cli.GroupFlags(cmd, logTitle, o.logOptions.addFlags)
	cli.GroupFlags(cmd, wrapTitle, o.wrapFlags.addFlags)
	flags.StringVar(&o.suggest, "suggest", "",
		"find the lowest count of each limit that keeps a `PROMISE`, such as 'denied_keys<1%'")
	cli.GroupFlags(cmd, reportingTitle, o.reporting.flags("save", "html", "threshold", "markdown", "junit", "no-fail",
		"strict"))
	cmd.RegisterFlagCompletionFunc("policy", cli.Offers(global).Policies)
	return cmd
}

func (o *simulateOptions) run(cmd *cobra.Command, file string) error {
	ctx, plan := cmd.Context(), new(experiment.Simulation)
	if len(o.limits)+len(o.policies) == 0 {
		return cli.Usagef("no limit given; add --limit COUNT/PERIOD, such as --limit 30/1m, or --policy NAME")
	}
	if err := cli.NotEmpty(cmd, "suggest", "algorithm"); err != nil {
		return err
	}
	each, err := o.each()
	if err != nil {
		return err
	}
	for _, under := range each {
		for _, limit := range under {
			plan.Candidates = append(plan.Candidates, experiment.Candidate{Limits: []store.Limit{limit}})
		}
	}
	if plan.Wrap, err = o.wrapFlags.parse(); err != nil {
		return err
	}
	if plan.Promise, err = o.parseSuggest(); err != nil {
		return err
	}
	for _, name := range o.policies {
		c, err := o.ConfigFor(ctx)
		if err != nil {
			return err
		}
		p, err := c.Policy(name)
		if err != nil {
			return err
		}
		plan.Candidates = append(plan.Candidates, experiment.Candidate{Policy: p})
	}
	log, err := o.logOptions.parse(cmd, plan.Candidates)
	if err != nil {
		return err
	}
	if err = o.reporting.parse(cmd, o.Globals, report.Simulation, file); err != nil {
		return err
	}
	if plan.Log, err = log.read(ctx, o.Globals, file); err != nil {
		return err
	}
	plan.Watch = func() (func(decided, requests, denied int64), func()) {
		bar := o.Progress("simulating", "denied")
		return bar.Set, bar.Close
	}
	document, err := plan.Run(ctx)
	if err != nil {
		return err
	}
	return o.finish(o.Globals, document)
}

// parseSuggest reads the threshold for which --suggest searches the least count.
func (o *simulateOptions) parseSuggest() (*report.Expression, error) {
	if o.suggest == "" {
		return nil, nil
	}
	promise, err := report.ParseThreshold(o.suggest)
	if len(o.limits) == 0 || err != nil || !promise.IsAboutDenials() {
		return nil, cli.Usagef("--suggest %q needs a --limit, and a promise about denials: denied_keys<1%%, "+
			"denied<=0.5%% or denied<20",
			o.suggest)
	}
	return &promise, nil
}

// wrapFlags are the flags about what is around the store of a simulation.
type wrapFlags struct {
	replicas int
	wraps    []string
}

func (o *wrapFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	cli.NumberFlag(flags, &o.replicas, "replicas", "", 1,
		"`N` instances of a service share the store, each with the wrappers of --wrap")
	flags.StringArrayVar(&o.wraps, "wrap", nil,
		"put a `WRAPPER` around the store, as a service can: denials[=MAX_STALE] remembers denials (default 1s), "+
			"lease[=UNITS[,TERM]] takes up to UNITS of a hot key ahead for TERM (default 1000,100ms); repeat it for "+
			"both")
}

// parse reads the flags. Their order does not matter: a denial memory is always outside of leases.
func (o *wrapFlags) parse() (wrap experiment.Wrap, err error) {
	if o.replicas < 1 || o.replicas > 1000 || o.replicas > 1 && len(o.wraps) == 0 {
		return wrap, cli.Usagef("--replicas must be from 1 to 1000, and needs a --wrap")
	}
	wrap.Replicas, wrap.Words = o.replicas, o.wraps
	for _, text := range o.wraps {
		name, settings, given := strings.Cut(text, "=")
		units, term, hasTerm := strings.Cut(settings, ",")
		duration := func(text string, most time.Duration) time.Duration {
			d, wrong := store.ParsePeriod(text)
			if wrong != nil || d < time.Millisecond || d > most {
				err = errors.New("out of range")
			}
			return d
		}
		switch {
		case name == "denials" && wrap.Denials == nil:
			wrap.Denials = &store.DenialMemory{MaxStale: time.Second}
			if given {
				wrap.Denials.MaxStale = duration(settings, time.Hour)
			}
		case name == "lease" && wrap.Leases == nil:
			wrap.Leases = &store.Leases{Max: 1000, Term: 100 * time.Millisecond}
			if given {
				wrap.Leases.Max, err = store.ParseNumber("UNITS", units, 2, 1_000_000)
			}
			if hasTerm {
				wrap.Leases.Term = duration(term, time.Minute)
			}
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			return wrap, cli.Usagef(
				"--wrap %q must be denials[=1ms to 1h], such as denials=1s, or lease[=2 to 1000000[,1ms to 1m]], "+
					"such as lease=50,100ms, each once", text)
		}
	}
	return wrap, nil
}
