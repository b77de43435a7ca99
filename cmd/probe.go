package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/probe"
	"github.com/limitctl/limitctl/pkg/limiter"
)

type probeOptions struct {
	*globalOptions
	endpointFlags
	limit    string
	requests int
}

func newProbeCmd(global *globalOptions) *cobra.Command {
	o := &probeOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "probe URL [--limit [ALGORITHM:]COUNT/PERIOD]",
		Short: "Find out what limit an endpoint has, and whether it keeps what it says",
		Long: `Probe sends a bounded number of requests to an endpoint, such as an HTTP
service, and tells what limit it has. With --limit it holds the endpoint to it.`,
		Example: `  limitctl probe http://127.0.0.1:8080/ --limit 10/1s`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runProbe(cmd.Context(), o, args[0])
		},
	}
	o.endpointFlags.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&o.limit, "limit", "l", "", "hold the endpoint to `[ALGORITHM:]COUNT/PERIOD`")
	flags.IntVarP(&o.requests, "requests", "n", 1000, "send at most `N` requests")
	return cmd
}

func runProbe(ctx context.Context, o *probeOptions, url string) error {
	config := probe.Config{Budget: o.requests, MaxTime: 5 * time.Minute, Workers: 16, DeniedStatus: o.deniedStatus, Clock: systemClock{}}
	if o.limit != "" {
		limit, err := limiter.ParseLimit(o.limit)
		if err != nil {
			return err
		}
		config.Limit = &limit
	}
	client, err := o.client(url)
	if err != nil {
		return err
	}
	defer client.Close()
	config.Client = client
	result, failure := probe.Run(ctx, &config)
	if err := o.printer().Answer(&probeAnswer{result}); failure == nil {
		failure = err
	}
	return failure
}

// systemClock is the clock of this machine.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// probeAnswer is the result of a probe as it is printed.
type probeAnswer struct{ *probe.Result }

// probeDocument is the JSON document of a probe.
type probeDocument struct {
	SchemaVersion int          `json:"schema_version"`
	Limit         string       `json:"limit,omitempty"`
	Dialect       string       `json:"dialect,omitempty"`
	Checks        []probeCheck `json:"checks"`
	Requests      int          `json:"requests"`
}

type probeCheck struct {
	Name     string `json:"name"`
	Verdict  string `json:"verdict"`
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
}

// Document implements [output.Answer].
func (a *probeAnswer) Document() any {
	d := &probeDocument{SchemaVersion: output.SchemaVersion, Dialect: a.Dialect, Requests: len(a.Events)}
	if a.Limit != nil {
		d.Limit = a.Limit.String()
	}
	for _, c := range a.Checks {
		d.Checks = append(d.Checks, probeCheck{c.Name, string(c.Verdict), c.Expected, c.Seen})
	}
	return d
}

// Lines implements [output.Answer].
func (a *probeAnswer) Lines() []any { return []any{a.Document()} }

// Records implements [output.Answer].
func (a *probeAnswer) Records() [][]string {
	records := [][]string{{"name", "verdict", "expected", "seen"}}
	for _, c := range a.Checks {
		records = append(records, []string{c.Name, string(c.Verdict), c.Expected, c.Seen})
	}
	return records
}

// Print implements [output.Answer].
func (a *probeAnswer) Print(p *output.Printer) {
	p.Line("%d requests", len(a.Events))
	for _, c := range a.Checks {
		p.Line("%s %s: expected %s, seen %s", c.Verdict, c.Name, c.Expected, c.Seen)
	}
}
