package test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/probe"
	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type probeOptions struct {
	*cli.Globals
	endpointFlags
	reporting
	limit    string
	requests int
	maxTime  time.Duration
	workers  int
	same     []string
}

// The default bounds of a probe, with a limit and without.
const (
	probeRequests = 3000
	probeTime     = 10 * time.Minute
	lookRequests  = 100
	lookTime      = 30 * time.Second
	probeWorkers  = 16
	mostWorkers   = 1000
)

// NewProbeCmd makes limitctl probe.
func NewProbeCmd(global *cli.Globals) *cobra.Command {
	o := &probeOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "probe URL [--limit [ALGORITHM:]COUNT/PERIOD]",
		Short: "See what limits an endpoint, or check that it keeps a limit",
		Long: `Without --limit, probe sends some 100 requests in half a minute to an endpoint,
an HTTP service or an Envoy rate limit service (grpc://), and says what it saw:
what headers announce, how many requests passed at once, what a denial is, and
when the first came back. It claims nothing, and ends with lines that check what
this looks like. With --limit it checks that the endpoint keeps this limit.

The checks:

  admitted       no more than the limit, and the first denial at its request
  denial-status  429, or what --denied-status says
  retry-after    there on a denial, and true
  headers        RateLimit, X-RateLimit and others: well-formed, and true
  subjects       what one subject uses is not missing to another
  same-client    who is denied is denied over a new connection, with another
                 X-Forwarded-For, Forwarded or X-Real-IP, and as --same says
  recovery       what was used comes back when the limit says

Write {subject} in the URL, a --header or the --body where the endpoint reads
who asks. Probe uses subjects that nobody has used before, and never exceeds
--requests or --max-time.

The verdict is pass only if probe saw the endpoint enforce its limit and
something of its period, and no check failed. If too little was seen, it is
inconclusive.

Exit codes: 0 pass, or something was seen; 1 a check failed, the verdict is
inconclusive, or nothing was seen; 2 the command line is wrong; 3 the endpoint
cannot be reached, or answered nothing; 130 interrupted.`,
		Example: `  limitctl probe 'http://127.0.0.1:8080/?user={subject}'
  limitctl probe http://127.0.0.1:8080/ -H 'X-Api-Key: {subject}' --limit 100/1m
  limitctl probe http://127.0.0.1:8080/ --requests 300 --max-time 2m -o json
  limitctl probe http://127.0.0.1:8080/ --limit 10/1s --junit probe.xml --markdown probe.md`,
		Args: exactlyOneURL,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.reporting.parse(cmd, global, report.LoadTest); err != nil {
				return err
			}
			return o.run(cmd, args[0])
		},
	}
	cli.GroupFlags(cmd, endpointTitle, o.endpointFlags.addFlags)
	flags := cmd.Flags()
	flags.StringVarP(&o.limit, "limit", "l", "", "check that the endpoint keeps `[ALGORITHM:]COUNT/PERIOD`")
	cli.NumberFlag(flags, &o.requests, "requests", "n", 0,
		"send at most `N` requests (default 100, and 3000 with --limit)")
	cli.DurationFlag(flags, &o.maxTime, "max-time", "", 0,
		"run for at most `DURATION` (default 30s, and 10m with --limit)")
	cli.NumberFlag(flags, &o.workers, "workers", "", probeWorkers,
		"send up to `N` requests at once, to reach a high limit")
	flags.StringArrayVar(&o.same, "same", nil, "`WAY` to ask as the same client: 'path=/Login,/login/' or "+
		"'header=NAME: {v}' with a new address for {v} (repeatable)")
	flags.StringVar(&o.request.DeniedHeader, "denied-header", "",
		"answers with the header `NAME[=VALUE]` are denials, too")
	cli.GroupFlags(cmd, reportingTitle, o.reporting.flags("markdown", "junit"))
	return cmd
}

// exactlyOneURL checks that the URL of an endpoint is the only argument.
func exactlyOneURL(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return cli.Usagef("probe needs the URL of an endpoint, such as http://127.0.0.1:8080/")
	case len(args) > 1:
		return cli.Usagef("probe takes one URL, and %q was given as well", args[1])
	case !isEndpoint(args[0]):
		return cli.Usagef("%q is not the URL of an endpoint; write http://HOST/PATH", args[0])
	}
	return nil
}

func (o *probeOptions) run(cmd *cobra.Command, url string) error {
	ctx := cmd.Context()
	config, err := o.config(cmd)
	if err != nil {
		return err
	}
	client, err := o.client(o.Globals, url)
	if err != nil {
		return err
	}
	defer client.Close()
	config.Client, config.Step = client, o.progress
	if config.Names, err = o.names(); err != nil {
		return err
	}
	if config.Same, err = o.ways(url); err != nil {
		return err
	}
	began := o.Env.Now()
	bounded, cancel := store.BudgetContext(ctx, o.Timeout)
	err = client.Connect(bounded)
	cancel()
	if err != nil {
		return fmt.Errorf("%s: %w", client.Describe(), err)
	}
	if !cmd.Flags().Changed("limit") {
		seen, failure := probe.Look(ctx, config)
		s := sent(client.Describe(), began, o.Env.Now(), seen.Events, seen.Dialects, seen.Notes)
		a := newLookAnswer(s, seen, func(limit *store.Limit) string {
			return o.checkedBy(cmd, url, limit, seen.Denial)
		})
		return o.end(a, s.Endpoint, seen.Events, failure, seen.Any())
	}
	result, failure := probe.Run(ctx, config)
	s := sent(client.Describe(), began, o.Env.Now(), result.Events, result.Dialects, result.Notes)
	a := newProbeAnswer(s, config.Limit, result, failure != nil)
	if err := o.summarize(o.Globals, a.Summary()); err != nil {
		return err
	}
	return o.end(a, s.Endpoint, result.Events, failure, a.Passed)
}

// end prints an answer, unless a summary replaces it, and returns what the command ends with.
func (o *probeOptions) end(a output.Answer, where string, events []probe.Event, failure error, passed bool) error {
	if err := o.print(o.Globals, a); err != nil {
		return err
	}
	switch err := probe.Unanswered(events); {
	case failure != nil:
		return failure
	case err != nil:
		return fmt.Errorf("%s: %w", where, err)
	case !passed:
		return cli.ErrDenied
	}
	return nil
}

// checkedBy returns the command that checks a limit, with the flags that were given about the endpoint. Of headers it
// has only those that say who asks.
func (o *probeOptions) checkedBy(cmd *cobra.Command, url string, limit *store.Limit, denial *probe.Denial) string {
	words := []string{"limitctl", "probe", endpoint.RedactURL(url), "--limit", limit.String()}
	if usual := []int{0, http.StatusTooManyRequests}; denial != nil && !slices.Contains(usual, denial.Status) &&
		!cmd.Flags().Changed("denied-status") {
		words = append(words, "--denied-status", strconv.Itoa(denial.Status))
	}
	kept := append(endpointOnlyFlags(), "denied-header", "timeout", "workers")
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		values := []string{flag.Value.String()}
		if list, isList := flag.Value.(pflag.SliceValue); isList {
			values = list.GetSlice()
		}
		for _, value := range values {
			switch {
			case !slices.Contains(kept, flag.Name):
			case flag.Name == "header":
				words = append(words, "-H", endpoint.RedactHeader(value))
			case flag.Name == "body" && !strings.HasPrefix(value, "@"):
				words = append(words, "--body", redact.Mark)
			case flag.Value.Type() == "bool":
				words = append(words, "--"+flag.Name+"="+value)
			default:
				words = append(words, "--"+flag.Name, value)
			}
		}
	})
	return shell.Command(words...)
}

// config is the configuration of the probe, without its client.
func (o *probeOptions) config(cmd *cobra.Command) (*probe.Config, error) {
	given := cmd.Flags().Changed
	looks := !given("limit")
	for _, flag := range []string{"same", "junit", "markdown"} {
		if looks && given(flag) {
			return nil, cli.Usagef("--%s is about checks; give the --limit to check as well", flag)
		}
	}
	if !given("requests") {
		o.requests = map[bool]int{false: probeRequests, true: lookRequests}[looks]
	}
	if !given("max-time") {
		o.maxTime = map[bool]time.Duration{false: probeTime, true: lookTime}[looks]
	}
	if o.requests < 1 || o.maxTime <= 0 || o.workers < 1 || o.workers > mostWorkers {
		return nil, cli.Usagef("--requests must be 1 or more, --max-time above 0, and --workers from 1 to %d",
			mostWorkers)
	}
	config := &probe.Config{Quota: o.requests, MaxTime: o.maxTime, Timeout: o.Timeout, Workers: o.workers,
		DeniedStatus: o.denied[0], DeniedHeader: o.request.DeniedHeader}
	if looks {
		return config, nil
	}
	limit, err := store.ParseLimit(o.limit)
	if err == nil {
		config.Limit, err = limit.Normalize()
	}
	if err == nil {
		err = notInCalendar(&config.Limit)
	}
	return config, err
}

// progress prints what begins to standard error, unless it is short.
func (o *probeOptions) progress(what string, atMost time.Duration) {
	if o.Quiet || atMost < 500*time.Millisecond {
		return
	}
	if atMost <= store.MaxPeriod { // there is a bound
		what += ": at most " + output.Duration(atMost)
	}
	o.Note("%s", what)
}
