package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/config"
)

// Completer offers a shell names of the configuration file; none if it has mistakes.
type Completer struct{ *Globals }

// Offers returns what offers words to a shell.
func Offers(global *Globals) Completer { return Completer{global} }

// Policies offers the names of policies.
func (c Completer) Policies(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return c.offer(func(read *config.Config) (names []string) {
		for _, p := range read.Policies {
			names = append(names, p.Name)
		}
		return names
	})
}

// LimitNames offers the names of the policies' limits.
func (c Completer) LimitNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return c.offer(func(read *config.Config) (names []string) {
		for _, p := range read.Policies {
			for i := range p.Limits {
				names = append(names, p.Limits[i].Name)
			}
		}
		return names
	})
}

// Contexts offers the names of contexts.
func (c Completer) Contexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return c.offer(func(read *config.Config) (names []string) {
		for _, x := range read.Contexts {
			names = append(names, x.Name)
		}
		return names
	})
}

func (c Completer) offer(words func(*config.Config) []string) ([]string, cobra.ShellCompDirective) {
	read, err := c.Config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := words(read)
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}
