package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

type consumeOptions struct {
	*globalOptions
	limitOptions
	onError string
	wait    string
	demand  *demand
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

With --policy the limits are those of a policy of the configuration, and who is
limited is said by attributes. They are decided together, in the order written.

With --wait a denied request waits its turn instead, for as long as it takes or,
with --wait=DURATION, no longer than that; a request allowed by a leaky bucket
waits out its delay. A wait that cannot end in time is not begun.`,
		Example: `  limitctl consume user:42 --limit 3/10s
  limitctl consume user:42 --limit 10/1m --limit sliding-log:100/1h
  limitctl consume --policy login ip=203.0.113.9 email=a@example.com
  limitctl consume llm:team-a --limit 100000/1m --cost 2300 --wait=30s
  limitctl consume mails --limit leaky-bucket:5/1s --wait && echo "send one"`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.demand, err = o.limitOptions.demand(cmd, global, limiter.Take, args); err != nil {
				return err
			}
			if o.patience, err = parseWait(o.wait); err != nil {
				return err
			}
			return runConsume(cmd.Context(), o)
		},
		ValidArgsFunction: global.completeKeyOrAttributes,
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
		return 0, usagef("--wait=%s is not a positive duration; write it like --wait=30s, or --wait alone for as long as it takes", text)
	}
	return patience, nil
}

func runConsume(ctx context.Context, o *consumeOptions) error {
	store, err := o.openGuarded(o.onError, o.demand.policy)
	if err != nil {
		return err
	}
	defer store.Close()
	if _, readOnly, _ := o.inUse(); readOnly {
		o.patience = 0 // it is refused now, not after a wait
	}
	decisions, err := o.takeTurn(ctx, store)
	if err != nil {
		return err
	}
	return o.answer(&decisionAnswer{"allowed", o.demand, decisions})
}

// takeTurn takes, as often as it is denied and patience lasts, and waits out a
// delay. Somebody else can be quicker each time, so it asks again.
func (o *consumeOptions) takeTurn(ctx context.Context, store limiter.Store) ([]limiter.Decision, error) {
	if o.patience == 0 {
		return o.decide(ctx, store, limiter.Take, o.demand.reqs)
	}
	begin := o.env.Now()
	for {
		// Looking first leaves everything as it is if the turn would come too late.
		decisions, err := o.decide(ctx, store, limiter.Peek, o.demand.reqs)
		if err != nil {
			return nil, err
		}
		sum, left := together(decisions), o.left(begin)
		if sum.Allowed && !sum.Unguarded && sum.Delay <= left {
			if decisions, err = o.decide(ctx, store, limiter.Take, o.demand.reqs); err != nil {
				return nil, err
			}
			if sum = together(decisions); sum.Allowed && sum.Delay <= left {
				return decisions, o.awaitTurn(ctx, store, decisions)
			}
			if sum.Allowed && !sum.Unguarded { // somebody was quicker, and now its turn comes too late
				if err := o.giveBack(ctx, store, decisions); err != nil {
					return nil, err
				}
				continue // to the answer of the key as it is left
			}
		}
		switch {
		case sum.Unguarded:
			return decisions, nil
		case sum.Allowed:
			return tooLate(decisions, left), nil
		case sum.RetryAfter > left:
			return decisions, nil
		}
		if !o.quiet {
			fmt.Fprintf(o.env.Err, "limitctl: waiting %s for a turn\n", output.Duration(sum.RetryAfter))
		}
		if err := o.env.Sleep(ctx, sum.RetryAfter); err != nil {
			return nil, err
		}
	}
}

// left is what remains of patience since begin.
func (o *consumeOptions) left(begin time.Time) time.Duration {
	if o.patience == forever {
		return forever
	}
	return o.patience - o.env.Now().Sub(begin)
}

// awaitTurn waits out the delay of what was taken. Who leaves before the turn
// comes does not use it, and gives it back.
func (o *consumeOptions) awaitTurn(ctx context.Context, store limiter.Store, taken []limiter.Decision) error {
	err := o.env.Sleep(ctx, together(taken).Delay)
	if err == nil {
		return nil
	}
	if refundErr := o.giveBack(ctx, store, taken); refundErr != nil {
		return refundErr
	}
	return err
}

// giveBack refunds what was taken, though the caller gives up. A shadow that would
// have denied took nothing, and neither did what a failure policy let through.
func (o *consumeOptions) giveBack(ctx context.Context, store limiter.Store, taken []limiter.Decision) error {
	var reqs []limiter.Request
	for i, d := range taken {
		if d.Allowed && !d.Unguarded {
			reqs = append(reqs, o.demand.reqs[i])
		}
	}
	if len(reqs) == 0 {
		return nil
	}
	if _, err := o.decide(context.WithoutCancel(ctx), store, limiter.Refund, reqs); err != nil {
		return &partlyError{fmt.Errorf("what was taken was not given back: %w", err)}
	}
	return nil
}

// tooLate makes a denial of a turn that is further off than the time left.
func tooLate(decisions []limiter.Decision, left time.Duration) []limiter.Decision {
	for i := range decisions {
		if d := &decisions[i]; d.Delay > left && !d.Shadow {
			d.Allowed, d.RetryAfter, d.Delay = false, d.Delay-left, 0
		}
	}
	return decisions
}
