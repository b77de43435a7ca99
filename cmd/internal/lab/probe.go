package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type probeOptions struct {
	*cli.Globals
	endpointFlags
	summaryFlags
	limits   []string
	requests int
	maxTime  time.Duration
	workers  int
	require  []string
	strict   bool
	plan     bool
}

// The default bounds of a probe.
const (
	probeRequests = 3000
	probeTime     = 10 * time.Minute
	probeWorkers  = 16
	mostWorkers   = 1000
)

// NewProbeCmd makes limitctl probe.
func NewProbeCmd(global *cli.Globals) *cobra.Command {
	o := &probeOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "probe URL [--limit [ALGORITHM:]COUNT/PERIOD]...",
		Short: "Find the limit of an endpoint, and check its answers",
		Long: `Probe sends a bounded number of requests to an endpoint, an HTTP service or an
Envoy rate limit service (grpc://), and finds its limit: algorithm, count,
period and burst. Then it checks the endpoint against that limit, or against
--limit, or several of them that must all have room:

  admitted       no more than the limit, and the first denial at its request
  denial-status  429, or what --denied-status says
  retry-after    there on a denial, and true
  headers        RateLimit, X-RateLimit and others: well-formed, and true
  denials-cost   whether denied requests count (reported, not judged)
  subjects       what one subject uses is not missing to another
  similar-names  names that differ in case or at their end are not the same
  connections    the limit holds over a new connection for each request
  at-once        the limit holds for many requests at the same time
  methods        HEAD and OPTIONS do not pass the limit for GET
  costs          a request counts for its {cost}
  recovery       what was used comes back when the limit says

Write {subject} in the URL, a --header or the --body where the endpoint reads
who asks. Probe uses subjects that nobody has used before. It prints its plan
first, and never exceeds --requests or --max-time.

The verdict is pass only if probe saw the endpoint enforce its limit, and no
check failed. If nothing failed and too little was seen, it is inconclusive. So
it is if a check that --require or --strict demands was not seen.

Exit codes: 0 pass; 1 a check failed, or the verdict is inconclusive; 2 the
command line is wrong; 3 the endpoint cannot be reached, or answered nothing;
130 interrupted.`,
		Example: `  limitctl probe 'http://127.0.0.1:8080/?user={subject}'
  limitctl probe http://127.0.0.1:8080/ -H 'X-Api-Key: {subject}' --limit 100/1m
  limitctl probe 'http://127.0.0.1:8080/?user={subject}' --limit 10/1s --limit 100/1m
  limitctl probe http://127.0.0.1:8080/ --limit fixed-window:10/1s --plan
  limitctl probe 'http://127.0.0.1:8080/?user={subject}' --require recovery,connections
  limitctl probe http://127.0.0.1:8080/ --requests 300 --max-time 2m -o json
  limitctl probe http://127.0.0.1:8080/ --junit probe.xml --markdown probe.md`,
		Args: exactlyOneURL("probe"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.summaryFlags.check(cmd, global); err != nil {
				return err
			}
			if len(o.require) == 0 && cmd.Flags().Changed("require") {
				return cli.Usagef("--require is empty; the checks are %s", strings.Join(probe.CheckNames(), ", "))
			}
			return runProbe(cmd.Context(), o, args[0])
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cli.GroupFlags(cmd, endpointTitle, o.endpointFlags.addFlags)
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.limits, "limit", "l", nil, "check the endpoint against `[ALGORITHM:]COUNT/PERIOD`, and "+
		"do not look for its limit; repeat it for limits that are decided together")
	flags.IntVarP(&o.requests, "requests", "n", probeRequests, "send at most `N` requests")
	flags.DurationVar(&o.maxTime, "max-time", probeTime, "run for at most `DURATION`")
	flags.IntVar(&o.workers, "workers", probeWorkers, "send up to `N` requests at once, to reach a high limit")
	flags.StringSliceVar(&o.require, "require", nil, "pass only if these `CHECKS` pass, with commas between")
	flags.BoolVar(&o.strict, "strict", false, "pass only if every check passes for which there is something to test")
	flags.BoolVar(&o.plan, "plan", false, "print the steps and the most that they can cost, and send nothing")
	flags.BoolVar(&o.plan, "dry-run", false, "the same as --plan")
	cli.GroupFlags(cmd, reportingTitle, o.summaryFlags.addFlags)
	flags.Lookup("junit").Usage = "write each check as a test case in JUnit XML to `FILE`, or - for standard output"
	for _, flag := range []string{"limit", "requests", "max-time", "workers"} {
		cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
	cmd.RegisterFlagCompletionFunc("require", cobra.FixedCompletions(probe.CheckNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// exactlyOneURL checks that the URL of an endpoint is the only argument.
func exactlyOneURL(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return cli.Usagef("%s needs the URL of an endpoint, such as http://127.0.0.1:8080/", command)
		case len(args) > 1:
			return cli.Usagef("%s takes one URL, and %q was given as well", command, args[1])
		case !isEndpoint(args[0]):
			return cli.Usagef("%q is not the URL of an endpoint; write http://HOST/PATH", args[0])
		}
		return nil
	}
}

func runProbe(ctx context.Context, o *probeOptions, url string) error {
	config, err := o.config()
	if err != nil {
		return err
	}
	client, err := o.client(o.Globals, url)
	if err != nil {
		return err
	}
	defer client.Close()
	closeOthers, err := o.addClients(config, url, client)
	defer closeOthers()
	if err != nil {
		return err
	}
	if o.plan {
		return o.Print(&probePlan{config: config, endpoint: client.Describe()})
	}
	began := o.Env.Now()
	config.Observer = &probeProgress{global: o.Globals}
	bounded, cancel := store.BudgetContext(ctx, o.Timeout)
	err = client.Connect(bounded)
	cancel()
	if err != nil {
		return fmt.Errorf("%s: %w", client.Describe(), err)
	}
	result, failure := probe.Run(ctx, config)
	a := &probeAnswer{Result: result, endpoint: client.Describe(), given: config.Limit != nil, began: began, took: o.Env.Now().Sub(began)}
	a.unfinished = failure != nil && !errors.Is(failure, probe.ErrNoLimit)
	if err := o.tell(a); err != nil {
		return errors.Join(err, failure)
	}
	switch {
	case a.unfinished:
		return failure
	case a.Unanswered() != nil:
		return fmt.Errorf("%s: %w", client.Describe(), a.Unanswered())
	case a.verdict() != report.Pass:
		return cli.ErrDenied
	}
	return nil
}

// addClients adds the clients of a probe to its configuration: the given one, and others that differ from it in one
// thing. They are closed by the function that is returned.
func (o *probeOptions) addClients(config *probe.Config, url string, client endpoint.Client) (closeOthers func(), err error) {
	clients := []endpoint.Client{client, nil}
	closeOthers = func() {
		for _, one := range clients[1:] {
			if one != nil {
				one.Close()
			}
		}
	}
	add := func(change func(*endpoint.HTTPOptions)) (endpoint.Client, error) {
		return o.client(o.Globals, url, change)
	}
	isHTTP := !endpoint.IsRLS(url)
	if isHTTP && !o.request.HTTP2 && !o.request.NoKeepAlive {
		if clients[1], err = add(func(options *endpoint.HTTPOptions) { options.NoKeepAlive = true }); err != nil {
			return closeOthers, err
		}
	}
	var methods []string
	if isHTTP && (o.request.Method == "" || o.request.Method == http.MethodGet) && o.body == "" {
		methods = []string{http.MethodHead, http.MethodOptions}
	}
	for _, method := range methods {
		other, err := add(func(options *endpoint.HTTPOptions) { options.Method = method })
		if err != nil {
			return closeOthers, err
		}
		clients = append(clients, other)
	}
	named, err := o.renamed(o.Globals, clients...)
	if err != nil {
		return closeOthers, err
	}
	config.Client, config.Fresh = named[0], named[1]
	for i, method := range methods {
		config.Methods = append(config.Methods, probe.Method{Name: method, Client: named[2+i]})
	}
	config.AnyName = o.subjects == "" && (o.naming.Format == "" || strings.Contains(o.naming.Format, endpoint.SubjectPlace))
	return closeOthers, nil
}

// tell prints the answer, and writes the files for CI systems.
func (o *probeOptions) tell(a *probeAnswer) error {
	if err := o.summaryFlags.write(o.Globals, a); err != nil {
		return err
	}
	if o.summaryFlags.replacesAnswer() {
		return nil
	}
	return o.Print(a)
}

// config is the configuration of the probe, without its client.
func (o *probeOptions) config() (*probe.Config, error) {
	config := &probe.Config{Quota: o.requests, MaxTime: o.maxTime, Timeout: o.Timeout, Workers: o.workers, DeniedStatus: o.deniedStatus,
		Require: o.require, Strict: o.strict}
	for _, name := range o.require {
		if !slices.Contains(probe.CheckNames(), name) {
			return nil, cli.Usagef("--require %q is not a check; the checks are %s", name, strings.Join(probe.CheckNames(), ", "))
		}
	}
	switch {
	case o.requests < 1:
		return nil, cli.Usagef("--requests %d is not a number of requests; give 1 or more", o.requests)
	case o.maxTime <= 0:
		return nil, cli.Usagef("--max-time %s is no time; give for instance 2m", o.maxTime)
	case o.workers < 1 || o.workers > mostWorkers:
		return nil, cli.Usagef("--workers %d is out of range; it must be from 1 to %d", o.workers, mostWorkers)
	}
	if len(o.limits) == 0 {
		return config, nil
	}
	all := make([]store.Limit, len(o.limits))
	for i, text := range o.limits {
		limit, err := store.ParseLimit(text)
		if err == nil {
			err = notInCalendar(text, &limit)
		}
		if err == nil {
			all[i], err = limit.Normalize()
		}
		if err != nil {
			return nil, err
		}
		if twice := slices.Index(all[:i], all[i]); twice >= 0 {
			return nil, cli.Usagef("--limit: %s is the same limit as %s; give each limit once", text, o.limits[twice])
		}
	}
	// The one that denies first is that with the fewest units.
	slices.SortStableFunc(all, func(a, b store.Limit) int {
		return cmp.Or(cmp.Compare(a.Capacity(), b.Capacity()), cmp.Compare(a.Period, b.Period))
	})
	config.Limit, config.Beside = &all[0], all[1:]
	return config, nil
}

// probeProgress prints the progress of a probe to standard error.
type probeProgress struct{ global *cli.Globals }

// Plan implements [probe.Observer].
func (p *probeProgress) Plan(steps []string) {
	if p.global.Quiet {
		return
	}
	for i, step := range steps {
		if i == 0 {
			p.global.Note("plan: %s", step)
			continue
		}
		p.global.Say("  %d. %s", i, step)
	}
}

// Step implements [probe.Observer]. It prints no line for a short step.
func (p *probeProgress) Step(what string, atMost time.Duration) {
	const soon = 500 * time.Millisecond
	switch {
	case p.global.Quiet || atMost < soon:
	case atMost > store.MaxPeriod: // there is no bound
		p.global.Note("%s", what)
	default:
		p.global.Note("%s: at most %s", what, output.Duration(atMost))
	}
}
