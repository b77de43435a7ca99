package test

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// parseURL takes the URL of an endpoint from the arguments.
func (o *loadtestOptions) parseURL(cmd *cobra.Command, args []string) (rest []string, err error) {
	for i, arg := range args {
		if !isEndpoint(arg) {
			continue
		}
		if len(args) > 1 {
			other := args[(i+1)%len(args)]
			return nil, cli.Usagef("the URL of an endpoint is the only argument; leave out %q", endpoint.RedactURL(other))
		}
		o.url = arg
	}
	given := cmd.Flags().Changed
	if o.url == "" {
		for _, flag := range endpointOnlyFlags() {
			if given(flag) {
				return nil, cli.Usagef("--%s is for an endpoint, and none was given; add its URL, such as http://127.0.0.1:8080/", flag)
			}
		}
		return args, nil
	}
	for _, flag := range []string{"implementation", "keep", "store", "context", "prefix", "policy"} {
		if given(flag) {
			return nil, cli.Usagef("--%s is about a store, and the limit at %s is decided by somebody else; leave it out", flag,
				endpoint.RedactURL(o.url))
		}
	}
	if endpoint.IsRLS(o.url) {
		for _, flag := range httpFlags() {
			if given(flag) && flag != "header" {
				return nil, cli.Usagef("--%s is for HTTP, and %s is a rate limit service; leave it out", flag, endpoint.RedactURL(o.url))
			}
		}
	}
	if o.naming, err = o.names(o.Globals); err == nil && len(o.naming.List) > 0 && !given("keys") {
		o.keys = len(o.naming.List)
	}
	return nil, err
}

// planEndpoint adds to a plan what only a load test of an endpoint needs. It reports requests that do not contain the
// subject.
func (o *loadtestOptions) planEndpoint(plan *loadtestPlan) error {
	if o.url == "" {
		return nil
	}
	client, err := o.client(o.Globals, o.url)
	if err != nil {
		return err
	}
	defer client.Close()
	names := o.naming
	if n := len(names.List); n > 0 && plan.Load.Subjects > n {
		return cli.Usagef("--subjects names %d subjects, and %d are needed; add some, or lower --keys", n, plan.Load.Subjects)
	}
	plan.Endpoint = &experiment.EndpointPlan{Subjects: names, Intervals: interval.Options{Resolution: time.Millisecond}}
	hasSubject, hasCost := client.Places()
	plan.Endpoint.Intervals.UsedBefore = !hasSubject || !names.IsFresh()
	switch {
	case !hasSubject && plan.Load.Subjects > 1:
		return cli.Usagef("nothing in the requests says who asks, so the endpoint cannot tell subjects apart; "+
			"put %s into the URL, a --header or the --body, or ask as one subject", endpoint.SubjectPlace)
	case !hasSubject && (names.Format != "" || len(names.List) > 0):
		return cli.Usagef("names of subjects were given, and there is no place for them; put %s into the URL, a --header or the --body",
			endpoint.SubjectPlace)
	case !hasCost && strings.TrimSpace(o.cost) != "1":
		return cli.Usagef("requests have a cost, and nothing in them says so; put %s into the URL, a --header or the --body",
			endpoint.CostPlace)
	}
	return nil
}
