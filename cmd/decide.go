package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

func addOnErrorFlag(cmd *cobra.Command, onError *string) {
	cmd.Flags().StringVar(onError, "on-error", "",
		"what an unreachable store means: `fail|allow|deny|local[=SHARE]`; fail is exit 3, allow 0, deny 1, and with local a file on "+
			"this machine decides with a share of each limit, 25% unless said (default fail, or what the policy says)")
	cmd.RegisterFlagCompletionFunc("on-error", cobra.FixedCompletions([]string{"fail", "allow", "deny", "local"},
		cobra.ShellCompDirectiveNoFileComp))
}

// failure is what an unreachable store means for a command.
type failure struct {
	limiter.Failure
	// decides is what a warning says of who decides instead.
	decides string
}

// failure is what --on-error says, else what the limits' policy says, which may be nil.
func (g *globalOptions) failure(onError string, p *policy.Policy) (f failure, err error) {
	said := "--on-error " + onError
	if onError == "" && p != nil {
		f.Policy, said = p.OnError, fmt.Sprintf("on_error: %s of policy %s", p.OnError, p.Name)
		if f.Policy == limiter.LocalOnError {
			f.Share = p.LocalShare
		}
	} else if f.Failure, err = g.parseOnError(onError, p); err != nil {
		return f, err
	}
	f.decides = said + " decides"
	if f.Policy == limiter.LocalOnError {
		f.decides = fmt.Sprintf("a local file decides with %s of each limit (%s)", f.Share, said)
	}
	return f, nil
}

// parseOnError reads what --on-error says. A share that it does not say is that of the
// limits' policy, which may be nil, else that of the configuration.
func (g *globalOptions) parseOnError(onError string, p *policy.Policy) (f limiter.Failure, err error) {
	word, share, hasShare := strings.Cut(onError, "=")
	isLocal := word == limiter.LocalOnError.String()
	switch {
	case onError == "":
		return f, nil
	case isLocal && hasShare:
		f.Share, err = limiter.ParseShare(share)
	case isLocal && p != nil:
		f.Share = p.LocalShare
	case isLocal:
		c, err := g.config()
		if err != nil {
			return f, err
		}
		f.Share = c.LocalShare
	default: // "allow=20%" is no policy
		word = onError
	}
	if err == nil {
		f.Policy, err = limiter.ParseFailurePolicy(word)
	}
	if err != nil {
		return f, usagef("--on-error: %s", err)
	}
	return f, nil
}

// openToDecide opens the store for op, a take or a peek, under a failure policy: that of
// --on-error, else that of the request's policy, if it has one.
func openToDecide(ctx context.Context, g *globalOptions, op limiter.Op, onError string, request *limitRequest) (limiter.Store, error) {
	f, err := g.failure(onError, request.policy)
	if err != nil {
		return nil, err
	}
	open := g.openToRead
	if op != limiter.Peek {
		open = g.open
	}
	opened, where, err := open()
	if err != nil {
		return nil, err
	}
	request.where = where
	layers := limiter.Layers{Budget: g.budgetLayer, Overrides: overridesLayer(ctx, g, opened, request)}
	if request.withoutOverrides != nil { // a failure policy must not let in what can never fit
		if _, err := limiter.NormalizeAll(nil, op, request.reqs); err != nil {
			return nil, errors.Join(err, opened.Close())
		}
	}
	if op != limiter.Peek {
		if layers.DenialLog, err = denialLayer(g, opened); err != nil {
			return nil, errors.Join(err, opened.Close())
		}
	}
	f.OnFailure = func(err error) {
		fmt.Fprintf(g.env.Err, "limitctl: warning: %s; %s\n", message(err), f.decides)
	}
	if f.Policy == limiter.LocalOnError {
		f.Shadow = limiter.WithBudget(g.openShadow(), g.timeout)
		layers.Around = func(store limiter.Store) limiter.Store { return &withShadow{store, f.Shadow} }
	}
	layers.Failure = func(store limiter.Store) limiter.Store { return limiter.WithFailure(store, f.Failure) }
	return limiter.Stack(opened, layers), nil
}

// decide asks the store once.
func decide(ctx context.Context, store limiter.Store, op limiter.Op, reqs []limiter.Request) ([]limiter.Decision, error) {
	decisions := make([]limiter.Decision, len(reqs))
	return decisions, store.Decide(ctx, op, reqs, decisions)
}

// printDecision prints a decision, and returns a denial as the error that it is to a script.
func printDecision(g *globalOptions, a *decisionAnswer) error {
	a.now = g.env.Now()
	if err := a.withoutOverrides; err != nil && limiter.Summarize(a.decisions).DecidedBy == limiter.DecidedByStore {
		g.warnOfOverrides(err) // who else decided was told of already
	}
	if err := g.print(a); err != nil {
		return err
	}
	if !limiter.Summarize(a.decisions).Allowed {
		return errDenied
	}
	return nil
}
