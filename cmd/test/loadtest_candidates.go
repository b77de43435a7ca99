package test

import (
	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// candidates returns the limits or the policy that the load is tried under.
func (o *loadtestOptions) candidates(cmd *cobra.Command, args []string) ([]experiment.Candidate, error) {
	if cmd.Flags().Changed("policy") {
		candidate, err := o.policyCandidate(cmd, args)
		return []experiment.Candidate{candidate}, err
	}
	if len(args) > 0 {
		return nil, cli.Usagef("%q is neither the URL of an endpoint, http://HOST/PATH, nor an attribute of a --policy", args[0])
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
	if args, err = o.NameClients(false, o.policyName, args); err != nil {
		return c, err
	}
	if c.Fixed, err = policy.ParseAttributes(args); err != nil {
		return c, err
	}
	return c, c.Policy.CheckAttributes(c.Fixed)
}
