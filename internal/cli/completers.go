package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/config"
)

// Completer offers a shell the words that can come next.
type Completer struct{ *Globals }

// Offers returns what offers words to a shell.
func Offers(global *Globals) Completer { return Completer{global} }

// Policies offers the names of policies to a shell.
func (c Completer) Policies(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return offered(c.inForce, func(read *config.Config) (names []string) {
		for _, p := range read.Policies {
			names = append(names, p.Name)
		}
		return names
	})
}

// LimitNames offers the names of the policies' limits.
func (c Completer) LimitNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return offered(c.inForce, func(read *config.Config) (names []string) {
		for _, p := range read.Policies {
			for i := range p.Limits {
				names = append(names, p.Limits[i].Name)
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

// inForce returns the configuration in force, within the time of a word.
func (c Completer) inForce() (*config.Config, error) {
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
func offered(read func() (*config.Config, error), words func(*config.Config) []string) (
	[]string, cobra.ShellCompDirective) {
	c, err := read()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := words(c)
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}
