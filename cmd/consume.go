package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

type consumeOptions struct {
	*globalOptions
	requestFlags
	onError string
	wait    string
	request *limitRequest
	// patience is how long to wait for a turn: nothing, a while, or for ever.
	patience time.Duration
}

const forever = time.Duration(1<<63 - 1)

func newConsumeCmd(global *globalOptions) *cobra.Command {
	o := &consumeOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "consume KEY --limit [ALGORITHM:]COUNT/PERIOD | consume --policy NAME ATTRIBUTE=VALUE...",
		Short: "Take units, if they fit",
		Long: `Consume takes --cost units of KEY if they fit all its limits, and none
otherwise. The exit code is the answer: 0 taken, 1 denied.

With --policy, the limits are those of a policy of the configuration, and
attributes say who is limited. The limits are decided together, in the order
written.

With --wait, a denied request waits for its turn: as long as it takes, or at
most DURATION with --wait=DURATION. A request that a leaky bucket allows waits
out its delay. If the wait would be too long, the request is denied at once.`,
		Example: `  limitctl consume user:42 --limit 3/10s
  limitctl consume user:42 --limit 10/1m --limit sliding-log:100/1h
  limitctl consume --policy login ip=203.0.113.9 email=a@example.com
  limitctl consume llm:team-a --limit 100000/1m --cost 2300 --wait=30s
  limitctl consume mails --limit leaky-bucket:5/1s --wait && echo "send one"`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.request, err = o.requestFlags.request(cmd, global, limiter.Take, args); err != nil {
				return err
			}
			if o.patience, err = parseWait(o.wait); err != nil {
				return err
			}
			return runConsume(cmd.Context(), o)
		},
		ValidArgsFunction: completer{global}.keyOrAttributes,
	}
	o.addFlags(cmd, global)
	addOnErrorFlag(cmd, &o.onError)
	cmd.Flags().StringVar(&o.wait, "wait", "", "wait for a turn instead of failing, at most `DURATION` if one is given (--wait=30s)")
	cmd.Flags().Lookup("wait").NoOptDefVal = "forever"
	return cmd
}

func parseWait(text string) (time.Duration, error) {
	switch text {
	case "":
		return 0, nil
	case "forever":
		return forever, nil
	}
	patience, err := limiter.ParsePeriod(text)
	if err != nil || patience <= 0 {
		return 0, usagef("--wait=%s is not a positive duration; write --wait=30s, or --wait alone to wait as long as it takes", text)
	}
	return patience, nil
}

func runConsume(ctx context.Context, o *consumeOptions) error {
	store, err := openToDecide(o.globalOptions, limiter.Take, o.onError, o.request)
	if err != nil {
		return err
	}
	if store, err = withDenialLog(o.globalOptions, store); err != nil {
		return err
	}
	defer store.Close()
	s, err := o.settings()
	if err != nil {
		return err
	}
	if s.access().ReadOnly {
		o.patience = 0 // it is refused now, not after a wait
	}
	decisions, err := o.take(ctx, store)
	if err != nil {
		return err
	}
	return printDecision(o.globalOptions, &decisionAnswer{"allowed", o.request, decisions})
}

// take takes at once, or waits for its turn.
func (o *consumeOptions) take(ctx context.Context, store limiter.Store) ([]limiter.Decision, error) {
	if o.patience == 0 {
		return decide(ctx, store, limiter.Take, o.request.reqs)
	}
	turn := limiter.Waiter{Store: store, Now: o.env.Now, Sleep: o.env.Sleep, OnWait: func(wait time.Duration) {
		if !o.quiet {
			fmt.Fprintf(o.env.Err, "limitctl: waiting %s for a turn\n", output.Duration(wait))
		}
	}}
	if o.patience != forever {
		turn.Patience = o.patience
	}
	decisions, err := turn.Take(ctx, o.request.reqs...)
	if errors.Is(err, limiter.ErrNotGivenBack) {
		err = outcome.Partly(err)
	}
	return decisions, err
}
