package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
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
	layers.Failure
	// decides is what a warning says of who decides instead.
	decides string
}

// failure is what --on-error says, else what the limits' policy says, which may be nil.
func (g *globalOptions) failure(onError string, p *policy.Policy) (f failure, err error) {
	said := "--on-error " + onError
	if onError == "" && p != nil {
		f.Policy, said = p.OnError, fmt.Sprintf("on_error: %s of policy %s", p.OnError, p.Name)
		if f.Policy == store.LocalOnError {
			f.Share = p.LocalShare
		}
	} else if f.Failure, err = g.parseOnError(onError, p); err != nil {
		return f, err
	}
	f.decides = said + " decides"
	if f.Policy == store.LocalOnError {
		f.decides = fmt.Sprintf("a local file decides with %s of each limit (%s)", f.Share, said)
	}
	return f, nil
}

// parseOnError reads what --on-error says. A share that it does not say is that of the
// limits' policy, which may be nil, else that of the configuration.
func (g *globalOptions) parseOnError(onError string, p *policy.Policy) (f layers.Failure, err error) {
	word, share, hasShare := strings.Cut(onError, "=")
	isLocal := word == store.LocalOnError.String()
	switch {
	case onError == "":
		return f, nil
	case isLocal && hasShare:
		f.Share, err = store.ParseShare(share)
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
		f.Policy, err = store.ParseFailurePolicy(word)
	}
	if err != nil {
		return f, usagef("--on-error: %s", err)
	}
	return f, nil
}

// openToDecide opens the store for op, a take or a peek, under a failure policy: that of
// --on-error, else that of the request's policy, if it has one.
func openToDecide(ctx context.Context, g *globalOptions, op store.Op, onError string, request *limitRequest) (store.Store, error) {
	f, err := g.failure(onError, request.policy)
	if err != nil {
		return nil, err
	}
	open := g.openToRead
	if op != store.Peek {
		open = g.open
	}
	opened, where, err := open()
	if err != nil {
		return nil, err
	}
	request.where = where
	with := layers.Layers{Budget: g.budgetLayer, Overrides: overridesLayer(ctx, g, opened, request)}
	if request.withoutOverrides != nil { // a failure policy must not let in what can never fit
		if _, err := store.NormalizeAll(nil, op, request.reqs); err != nil {
			return nil, errors.Join(err, opened.Close())
		}
	}
	if op != store.Peek {
		if with.DenialLog, err = denialLayer(g, opened); err != nil {
			return nil, errors.Join(err, opened.Close())
		}
	}
	f.OnFailure = func(err error) {
		fmt.Fprintf(g.env.Err, "limitctl: warning: %s; %s\n", message(err), f.decides)
	}
	if f.Policy == store.LocalOnError {
		f.Shadow = store.WithBudget(g.openShadow(), g.timeout)
		with.Around = func(backend store.Store) store.Store { return &withShadow{backend, f.Shadow} }
	}
	with.Failure = func(backend store.Store) store.Store { return layers.WithFailure(backend, f.Failure) }
	return layers.Stack(opened, with), nil
}

// decide asks the store once.
func decide(ctx context.Context, backend store.Store, op store.Op, reqs []store.Request) ([]store.Decision, error) {
	decisions := make([]store.Decision, len(reqs))
	return decisions, backend.Decide(ctx, op, reqs, decisions)
}

// printDecision prints a decision, and returns a denial as the error that it is to a script.
func printDecision(g *globalOptions, a *decisionAnswer) error {
	a.now = g.env.Now()
	if err := a.withoutOverrides; err != nil && store.Summarize(a.decisions).DecidedBy == store.DecidedByStore {
		g.warnOfOverrides(err) // who else decided was told of already
	}
	if err := g.print(a); err != nil {
		return err
	}
	if !store.Summarize(a.decisions).Allowed {
		return errDenied
	}
	return nil
}
