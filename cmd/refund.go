package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/pkg/limiter"
)

type refundOptions struct {
	*globalOptions
	limitOptions
	subject string
	reqs    []limiter.Request
}

func newRefundCmd(global *globalOptions) *cobra.Command {
	o := &refundOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "refund KEY --limit [ALGORITHM:]COUNT/PERIOD",
		Short: "Give units back",
		Long: `Refund gives --cost units that KEY took back to it, the newest first, and never
more than are in use.`,
		Example: `  limitctl refund user:42 --limit 3/10s
  limitctl refund llm:team-a --limit 100000/1m --cost 1200`,
		Args: oneSubject,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.subject = args[0]
			if o.reqs, err = o.requests(cmd, limiter.Refund, o.subject); err != nil {
				return err
			}
			return runRefund(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.addFlags(cmd)
	return cmd
}

func runRefund(ctx context.Context, o *refundOptions) error {
	store, _, err := o.open()
	if err != nil {
		return err
	}
	defer store.Close()
	decisions, err := o.decide(ctx, store, limiter.Refund, o.reqs)
	if err != nil {
		return err
	}
	return o.answer(&decisionAnswer{"refunded", o.subject, o.reqs, decisions})
}
