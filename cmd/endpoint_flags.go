package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
)

// endpointFlags are the flags of commands that send requests to a limit that somebody else
// decides.
type endpointFlags struct {
	deniedStatus int
	hosts        []string
	rls          rlsFlags
}

func (o *endpointFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&o.deniedStatus, "denied-status", 429, "`STATUS` of an endpoint's denials")
	flags.StringArrayVar(&o.hosts, endpoint.TestHostFlag, nil, "send requests to `HOST`, which is not this machine")
	o.rls.addFlags(cmd)
}

// isEndpoint reports whether an argument is the URL of an endpoint.
func isEndpoint(text string) bool { return strings.Contains(text, "://") }

// client returns the client of the endpoint at a URL.
func (o *endpointFlags) client(url string) (endpoint.Client, error) {
	if endpoint.IsRLS(url) {
		return o.rls.client(url, o.hosts)
	}
	if o.rls.given() {
		return nil, usagef("--domain and --descriptor are for a rate limit service, such as grpc://127.0.0.1:8081")
	}
	return endpoint.NewHTTP(endpoint.HTTPOptions{URL: url, DeniedStatuses: []int{o.deniedStatus}, Permitted: o.hosts})
}
