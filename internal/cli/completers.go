package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/shell"
)

// Completer offers a shell the words that can come next.
type Completer struct{ *Globals }

// Offers returns what offers words to a shell.
func Offers(global *Globals) Completer { return Completer{global} }

// Attributes offers the attributes of the policy of --policy that are not given yet; nothing without it.
func (c Completer) Attributes(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	policyName, err := cmd.Flags().GetString("policy")
	if err != nil || policyName == "" || strings.Contains(begun, "=") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, directive := offered(c.policies, func(read *config.Config) (names []string) {
		p, err := read.Policy(policyName)
		if err != nil {
			return nil
		}
		all, _ := p.Attributes()
		for _, name := range all {
			if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, name+"=") }) {
				names = append(names, name+"=")
			}
		}
		return names
	})
	return names, directive | cobra.ShellCompDirectiveNoSpace
}

// policies returns the configuration in force, within the time of a word.
func (c Completer) policies() (*config.Config, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.Env.TabTime)
	defer cancel()
	quiet := *c.Globals
	quiet.Quiet, quiet.Timeout = true, c.Env.TabTime
	defer quiet.CloseEarly()
	inForce, err := quiet.InForce(ctx)
	if inForce == nil {
		return nil, err
	}
	return inForce.Config, nil
}

// offered returns the words that a configuration offers; none if it has mistakes.
func offered(read func() (*config.Config, error), words func(*config.Config) []string) ([]string, cobra.ShellCompDirective) {
	c, err := read()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := words(c)
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

// AllAttributes offers the attributes of all policies.
func (c Completer) AllAttributes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return offered(c.policies, func(read *config.Config) (names []string) {
		for _, p := range read.Policies {
			all, _ := p.Attributes()
			names = append(names, all...)
		}
		return names
	})
}

// LimitNames offers the names of the policies' limits.
func (c Completer) LimitNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	of, _ := cmd.Flags().GetString("policy")
	return offered(c.policies, func(read *config.Config) (names []string) {
		for _, p := range read.Policies {
			for i := range p.Limits {
				if of == "" || of == p.Name {
					names = append(names, p.Limits[i].Name)
				}
			}
		}
		return names
	})
}

// Contexts offers the names of contexts to a shell.
func (c Completer) Contexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return offered(c.Config, func(read *config.Config) (names []string) {
		for _, x := range read.Contexts {
			names = append(names, x.Name)
		}
		return names
	})
}

// Policies offers the names of policies to a shell.
func (c Completer) Policies(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return offered(c.policies, func(read *config.Config) (names []string) {
		for _, p := range read.Policies {
			names = append(names, p.Name)
		}
		return names
	})
}

// Backups offers the names of backups to a shell, the newest first.
func (c Completer) Backups(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	folder, err := BackupFolder(c.Globals)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	files, _ := folder.List()
	var names []string
	for _, file := range files {
		if shell.IsPlain(file.Name) {
			names = append(names, file.Name)
		}
	}
	return names, cobra.ShellCompDirectiveKeepOrder
}
