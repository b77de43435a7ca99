package cmd

import (
	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/internal/layers"
)

// outageOptions are the flags that say what answers while the store is away.
type outageOptions struct {
	onError string
	breaker bool
}

func (o *outageOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.onError, "on-error", "",
		"answer while the store is away as a service would: `fail|allow|deny|local[=SHARE]` (default fail: an error, and counted)")
	cmd.Flags().BoolVar(&o.breaker, "breaker", false,
		"stop asking a store that is away, as a service with the configuration's breaker does")
	cmd.RegisterFlagCompletionFunc("on-error", cobra.FixedCompletions([]string{"fail", "allow", "deny", "local"},
		cobra.ShellCompDirectiveNoFileComp))
}

// settings of the breaker that --breaker asks for; nil if it does not.
func (o *outageOptions) settings(g *cli.Globals) (*layers.Breaker, error) {
	if !o.breaker {
		return nil, nil
	}
	c, err := g.Config()
	if err != nil {
		return nil, err
	}
	if c.Breaker == nil {
		return nil, cli.Usagef("--breaker needs a breaker, and the configuration says that services have none; change its field breaker")
	}
	return c.Breaker, nil
}
