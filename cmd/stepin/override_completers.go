package stepin

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// completer offers a shell words from the overrides in force.
type completer struct{ *cli.Globals }

// overridesInForce reads the overrides within the time of a Tab, or returns none.
func (c completer) overridesInForce() []store.Override {
	ctx, cancel := context.WithTimeout(context.Background(), c.Env.TabTime)
	defer cancel()
	quiet := *c.Globals
	quiet.Quiet, quiet.Timeout = true, c.Env.TabTime
	backend, _, err := quiet.OpenToRead()
	if err != nil {
		return nil
	}
	defer backend.Close()
	table, has := admin.TablesOf(backend)
	if !has {
		return nil
	}
	overrides, _, err := table.Overrides(ctx)
	if err != nil {
		return nil
	}
	return overrides
}

// overrideIDs offers the IDs of the overrides in force that are not given yet.
func (c completer) overrideIDs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var ids []string
	for _, o := range c.overridesInForce() {
		if !slices.Contains(args, o.ID) {
			ids = append(ids, o.ID+"\t"+allowance.Effect(&o)+" "+allowance.Whom(&o))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// blockedPatterns offers the patterns that are blocked. A glob would mean something to a
// shell, so only subjects are offered.
func (c completer) blockedPatterns(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var subjects []string
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, o := range c.overridesInForce() {
		subject, exact := o.Subjects.Exact()
		if exact && o.Effect == store.OverrideBlock && shell.IsPlain(subject) && !slices.Contains(subjects, subject) {
			subjects = append(subjects, subject)
		}
	}
	return subjects, cobra.ShellCompDirectiveNoFileComp
}
