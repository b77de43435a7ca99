package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

type checkOptions struct {
	*globalOptions
	requestFlags
	onError  string
	watch    string
	interval time.Duration
	request *limitRequest
}

func newCheckCmd(global *globalOptions) *cobra.Command {
	o := &checkOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "check KEY --limit [ALGORITHM:]COUNT/PERIOD | check --policy NAME ATTRIBUTE=VALUE...",
		Short: "Would it be allowed? Writes nothing",
		Long: `Check answers whether KEY could take --cost units now, and takes none. The exit
code is the answer: 0 yes, 1 no. Used and remaining are what they are now.

With --policy the limits are those of a policy of the configuration, and who is
limited is said by attributes.`,
		Example: `  limitctl check user:42 --limit 10/1m
  limitctl check user:42 --limit 10/1m --limit 100/1h --cost 5 -o json
  limitctl check --policy login ip=203.0.113.9 email=a@example.com
  if limitctl check -q deploys --limit 3/1h; then echo "room for one more"; fi
  limitctl check -q user:42 --limit 10/1m --on-error allow`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.request, err = o.requestFlags.request(cmd, global, limiter.Peek, args); err != nil {
				return err
			}
			if o.interval, err = parseWatch(o.watch); err != nil {
				return err
			}
			if err := global.checkWatch(o.interval); err != nil {
				return err
			}
			return runCheck(cmd.Context(), o)
		},
		ValidArgsFunction: global.completeKeyOrAttributes,
	}
	o.addFlags(cmd, global)
	addOnErrorFlag(cmd, &o.onError)
	addWatchFlag(cmd, &o.watch)
	return cmd
}

func addOnErrorFlag(cmd *cobra.Command, onError *string) {
	cmd.Flags().StringVar(onError, "on-error", "", "what an unreachable store means: `fail|allow|deny` (exit 3, 0 or 1; default fail, or what the policy says)")
	cmd.RegisterFlagCompletionFunc("on-error", cobra.FixedCompletions([]string{"fail", "allow", "deny"}, cobra.ShellCompDirectiveNoFileComp))
}

func runCheck(ctx context.Context, o *checkOptions) error {
	store, err := o.openGuarded(o.onError, o.request.policy)
	if err != nil {
		return err
	}
	defer store.Close()
	if o.interval > 0 {
		return o.watchAnswers(ctx, o.interval, func(int) (output.Answer, string, error) {
			decisions, err := o.decide(ctx, store, limiter.Peek, o.request.reqs)
			return &decisionAnswer{"allowed", o.request, decisions}, "check", err
		})
	}
	decisions, err := o.decide(ctx, store, limiter.Peek, o.request.reqs)
	if err != nil {
		return err
	}
	return o.answer(&decisionAnswer{"allowed", o.request, decisions})
}

// openGuarded opens the store under a failure policy: that of --on-error, else
// that of the limits' policy.
func (g *globalOptions) openGuarded(onError string, p *policy.Policy) (limiter.Store, error) {
	var guard limiter.FailurePolicy
	decides := "--on-error " + onError
	if onError != "" {
		var err error
		if guard, err = limiter.ParseFailurePolicy(onError); err != nil {
			return nil, usagef("--on-error: %s", err)
		}
	} else if p != nil {
		guard, decides = p.OnError, fmt.Sprintf("on_error: %s of policy %s", p.OnError, p.Name)
	}
	store, _, err := g.openToRead()
	if err != nil {
		return nil, err
	}
	return limiter.WithFailurePolicy(store, guard, func(err error) {
		fmt.Fprintf(g.env.Err, "limitctl: warning: %s; %s decides\n", message(err), decides)
	}), nil
}

// decide asks the store once, within the timeout.
func (g *globalOptions) decide(ctx context.Context, store limiter.Store, op limiter.Op, reqs []limiter.Request) ([]limiter.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	decisions := make([]limiter.Decision, len(reqs))
	return decisions, store.Decide(ctx, op, reqs, decisions)
}

// answer prints a decision and makes a denial the error that it is to a script.
func (g *globalOptions) answer(a *decisionAnswer) error {
	if err := g.print(a); err != nil {
		return err
	}
	if !limiter.Summarize(a.decisions).Allowed {
		return errDenied
	}
	return nil
}
