package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type refundOptions struct {
	*globalOptions
	requestFlags
	consentOptions
	request *limitRequest
}

func newRefundCmd(global *globalOptions) *cobra.Command {
	o := &refundOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "refund KEY --limit [ALGORITHM:]COUNT/PERIOD | refund --policy NAME ATTRIBUTE=VALUE...",
		Short: "Give units back",
		Long: `Refund gives --cost units that KEY took back to it, the newest first, and never
more than are in use. With --policy it does so in each limit of a policy; a
limit with a cost of its own gets that back. If
nothing is in use, for instance because the limit has another period or the
units have come back by themselves, it says so and exits with 1.

In a protected context it asks for the context's name, or takes it from
--confirm, and writes to the audit.`,
		Example: `  limitctl refund user:42 --limit 3/10s
  limitctl refund --policy login ip=203.0.113.9 email=a@example.com
  limitctl refund llm:team-a --limit 100000/1m --cost 1200`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.request, err = o.requestFlags.request(cmd, global, store.Refund, args); err != nil {
				return err
			}
			return runRefund(cmd.Context(), o)
		},
		ValidArgsFunction: completer{global}.keyOrAttributes,
	}
	o.addFlags(cmd, global)
	o.addTokenFlag(cmd, "give back what was taken with the token `TEXT`, once")
	o.addChargeConsentFlags(cmd)
	cmd.Flags().Lookup("cost").Usage =
		"`N` units to give back, or tokens=N of the limits of a policy whose cost is tokens; repeat it for several"
	cmd.Flags().Lookup("policy").Usage =
		"give back to the limits of the policy of that `NAME`; the arguments are attributes, such as ip=203.0.113.9"
	return cmd
}

func runRefund(ctx context.Context, o *refundOptions) error {
	s, err := o.settingsToChange(ctx)
	if err != nil {
		return err
	}
	if err := o.checkCharge(s.access(), o.env.InIsTerminal, "refund"); err != nil {
		return err
	}
	backend, where, err := o.open()
	if err != nil {
		return err
	}
	defer backend.Close()
	result, err := o.runner(s, backend, where).Refund(ctx, &operation.RefundPlan{Requests: o.request.reqs, Text: o.words(o.request),
		Consent: o.given()}, &observer{global: o.globalOptions})
	if err != nil {
		return err
	}
	o.request.withoutOverrides = result.WithoutOverrides
	answer := &refundAnswer{decisionAnswer{verb: "refunded", limitRequest: o.request, decisions: result.Decisions, now: o.env.Now()}}
	if err := o.print(answer); err != nil {
		return err
	}
	if answer.told().Refunded() == 0 {
		if !o.quiet {
			o.note("see what is in use with: %s", shell.Command("limitctl", "inspect", "--exact", o.request.reqs[0].Key.Subject))
		}
		return errDenied
	}
	return nil
}
