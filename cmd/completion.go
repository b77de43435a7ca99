package cmd

import (
	"github.com/spf13/cobra"
)

func (s *selection) completeSelection(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}
