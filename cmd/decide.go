package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

func addOnErrorFlag(cmd *cobra.Command, onError *string) {
	cmd.Flags().StringVar(onError, "on-error", "",
		"what an unreachable store means: `fail|allow|deny` (exit 3, 0 or 1; default fail, or what the policy says)")
	cmd.RegisterFlagCompletionFunc("on-error", cobra.FixedCompletions([]string{"fail", "allow", "deny"},
		cobra.ShellCompDirectiveNoFileComp))
}

// openToDecide opens the store for op, a take or a peek, under a failure policy: that of
// --on-error, else that of the limits' policy, which may be nil.
func openToDecide(g *globalOptions, op limiter.Op, onError string, p *policy.Policy) (limiter.Store, error) {
	var failure limiter.FailurePolicy
	decides := "--on-error " + onError
	if onError != "" {
		var err error
		if failure, err = limiter.ParseFailurePolicy(onError); err != nil {
			return nil, usagef("--on-error: %s", err)
		}
	} else if p != nil {
		failure, decides = p.OnError, fmt.Sprintf("on_error: %s of policy %s", p.OnError, p.Name)
	}
	open := g.openToRead
	if op != limiter.Peek {
		open = g.open
	}
	store, _, err := open()
	if err != nil {
		return nil, err
	}
	return limiter.WithFailurePolicy(limiter.WithBudget(store, g.timeout), failure, func(err error) {
		fmt.Fprintf(g.env.Err, "limitctl: warning: %s; %s decides\n", message(err), decides)
	}), nil
}

// decide asks the store once.
func decide(ctx context.Context, store limiter.Store, op limiter.Op, reqs []limiter.Request) ([]limiter.Decision, error) {
	decisions := make([]limiter.Decision, len(reqs))
	return decisions, store.Decide(ctx, op, reqs, decisions)
}

// printDecision prints a decision, and returns a denial as the error that it is to a script.
func printDecision(g *globalOptions, a *decisionAnswer) error {
	if err := g.print(a); err != nil {
		return err
	}
	if !limiter.Summarize(a.decisions).Allowed {
		return errDenied
	}
	return nil
}
