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
}

func (o *endpointFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&o.deniedStatus, "denied-status", 429, "`STATUS` of an endpoint's denials")
	flags.StringArrayVar(&o.hosts, endpoint.TestHostFlag, nil, "send requests to `HOST`, which is not this machine")
}

// isEndpoint reports whether an argument is the URL of an endpoint.
func isEndpoint(text string) bool { return strings.Contains(text, "://") }

// client returns the client of the endpoint at a URL.
func (o *endpointFlags) client(url string) (endpoint.Client, error) {
	return endpoint.NewHTTP(endpoint.HTTPOptions{URL: url, DeniedStatus: o.deniedStatus, Permitted: o.hosts})
}
