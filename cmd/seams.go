package cmd

import (
	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

func (g *globalOptions) knownPolicies(name string) ([]*policy.Policy, error) { return nil, nil }
func (g *globalOptions) protectedContext() (string, bool)                    { return "", false }
func (g *globalOptions) contextName() string                                 { return "" }
func (g *globalOptions) storeFlags() []string                                { return nil }
func (g *globalOptions) openToChange(dryRun bool) (connect.Store, string, error) {
	return g.open()
}
func (s *selection) completeSelection(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}
