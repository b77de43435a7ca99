package decide

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NewRefundCmd makes limitctl refund.
func NewRefundCmd(global *cli.Globals) *cobra.Command {
	o := &options{Globals: global}
	cmd := &cobra.Command{
		Use:   "refund KEY --limit [ALGORITHM:]COUNT/PERIOD | refund --policy NAME ATTRIBUTE=VALUE...",
		Short: "Give units back",
		Long: `Refund gives KEY back --cost units that it took, the newest first, and never
more than are in use. If nothing is in use, it says so and exits with 1. What
was taken with a token is given back by "limitctl settle --cost 0".

In a protected context it asks for the context's name, or takes it from
--confirm, and writes to the audit log.`,
		Example: `  limitctl refund user:42 --limit 3/10s
  limitctl refund --policy login ip=203.0.113.9 email=a@example.com
  limitctl refund llm:team-a --limit 100000/1m --cost 1200`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.request, err = o.requestFlags.Request(cmd, global, store.Refund, args); err != nil {
				return err
			}
			ctx := cmd.Context()
			s, err := o.SettingsToChange()
			if err != nil {
				return err
			}
			if err := o.CheckCharge(s.Access(), o.Env.InIsTerminal, "refund"); err != nil {
				return err
			}
			backend, where, err := openNamed(o.Globals, store.Refund, o.request)
			if err != nil {
				return err
			}
			defer backend.Close()
			plan := &operation.ChargePlan{Command: "refund", Requests: o.request.Requests, Text: o.Words(o.request),
				Consent: o.Given()}
			o.request.Decisions, err = cli.NewRunner(o.Globals, s, backend, where).Charge(ctx, plan,
				&cli.Observer{Global: o.Globals}, func(ctx context.Context) ([]store.Decision, error) {
					overrides := overridesOf(ctx, o.Globals, backend, o.request)
					defer overrides.Close()
					with := layers.Layers{Budget: o.Timeout, Overrides: overrides}
					return decide(ctx, layers.Stack(backend, with), store.Refund, o.request.Requests)
				})
			if err != nil {
				return err
			}
			answer := &decisionAnswer{verb: "refunded", LimitRequest: o.request, refunds: true, now: o.Env.Now()}
			if err := o.Print(answer); err != nil {
				return err
			}
			if answer.Refunded() == 0 {
				return cli.ErrDenied
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.AddFlags(cmd, global)
	o.AddChargeConsentFlags(cmd)
	cmd.Flags().Lookup("cost").Usage =
		"`N` units to give back, or tokens=N of the limits of a policy whose cost is tokens; repeat it for several"
	cmd.Flags().Lookup("policy").Usage =
		"give back to the limits of the policy of that `NAME`; the arguments are attributes, such as ip=203.0.113.9"
	return cmd
}
