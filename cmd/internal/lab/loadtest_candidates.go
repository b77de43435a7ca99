package lab

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/experiment"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// candidates returns the limits or the policy that the load is tried under.
func (o *loadtestOptions) candidates(cmd *cobra.Command, args []string) ([]experiment.Candidate, error) {
	if cmd.Flags().Changed("policy") {
		candidate, err := o.policyCandidate(cmd, args)
		return []experiment.Candidate{candidate}, err
	}
	switch {
	case len(args) > 0 && o.Quiet && isNumber(args[0]): // in the style of hey
		return nil, quietRate(args[0])
	case len(args) > 0 && looksLikeHost(args[0]):
		return nil, cli.Usagef("%q is not the URL of an endpoint; write http://HOST/PATH", args[0])
	case len(args) > 0:
		return nil, cli.Usagef("%q was given, and only a --policy takes arguments: attributes, such as tenant=acme", args[0])
	}
	sets, err := o.experimentLimitFlags.sets(cmd, o.url != "")
	if err != nil {
		return nil, err
	}
	var candidates []experiment.Candidate
	for _, limits := range sets {
		candidates = append(candidates, experiment.Candidate{Limits: limits})
	}
	return candidates, nil
}

// quietRate is the error of a rate after -q, which is how hey takes it.
func quietRate(rate string) error {
	return cli.Usagef("-q prints nothing and takes no number; for %s requests a second write %s", rate, shell.Command("--rate", rate))
}

// looksLikeHost reports whether an argument looks like a URL without its scheme, or a part of one.
func looksLikeHost(text string) bool {
	host, _, _ := strings.Cut(text, "/")
	name, port, hasPort := strings.Cut(host, ":")
	return host == "localhost" || hasPort && (name == "http" || name == "https" || name == "grpc" ||
		isNumber(port) && (name == "localhost" || strings.Contains(name, ".")))
}

// policyCandidate returns a policy. Attributes without an argument get generated values.
func (o *loadtestOptions) policyCandidate(cmd *cobra.Command, args []string) (c experiment.Candidate, err error) {
	for _, flag := range []string{"limit", "algorithm", "burst"} {
		if cmd.Flags().Changed(flag) {
			return c, cli.Usagef("--policy and --%s both say what is allowed; give one of them", flag)
		}
	}
	configured, err := o.Config()
	if err != nil {
		return c, err
	}
	if c.Policy, err = configured.Policy(o.policyName); err != nil {
		return c, err
	}
	if c.Fixed, err = policy.ParseAttributes(args); err != nil {
		return c, err
	}
	return c, c.Policy.CheckAttributes(c.Fixed)
}
