package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
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

// failure is what --on-error asks for. p, if it is not nil, is the policy that is tried.
func (o *outageOptions) failure(g *globalOptions, p *policy.Policy) (f limiter.Failure, err error) {
	word, share, hasShare := strings.Cut(o.onError, "=")
	if word == "" && !hasShare {
		return f, nil
	}
	if !hasShare || word != limiter.LocalOnError.String() {
		word = o.onError // "allow=20%" is no policy
	}
	if f.Policy, err = limiter.ParseFailurePolicy(word); err != nil {
		return f, usagef("--on-error: %s", err)
	}
	switch {
	case f.Policy != limiter.LocalOnError:
	case hasShare:
		if f.Share, err = limiter.ParseShare(share); err != nil {
			return f, usagef("--on-error: %s", err)
		}
	case p != nil:
		f.Share = p.LocalShare
	default:
		c, err := g.config()
		if err != nil {
			return f, err
		}
		f.Share = c.LocalShare
	}
	return f, nil
}

// settings of the breaker that --breaker asks for; nil if it does not.
func (o *outageOptions) settings(g *globalOptions) (*limiter.Breaker, error) {
	if !o.breaker {
		return nil, nil
	}
	c, err := g.config()
	if err != nil {
		return nil, err
	}
	if c.Breaker == nil {
		return nil, usagef("--breaker needs a breaker, and the configuration says that services have none; change its field breaker")
	}
	return c.Breaker, nil
}
