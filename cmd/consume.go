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
	subject string
	reqs    []limiter.Request
	// patience is how long to wait for a turn: nothing, a while, or for ever.
	patience time.Duration
}

const forever = time.Duration(1<<63 - 1)

func newConsumeCmd(global *globalOptions) *cobra.Command {
	o := &consumeOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "consume KEY --limit [ALGORITHM:]COUNT/PERIOD",
		Short: "Take units, if they fit",
		Long: `Consume takes --cost units of KEY if they fit all its limits, and none otherwise.
The exit code is the answer: 0 taken, 1 denied.

With --wait a denied request waits its turn instead, for as long as it takes or,
with --wait=DURATION, no longer than that; a request allowed by a leaky bucket
waits out its delay. A wait that cannot end in time is not begun.`,
		Example: `  limitctl consume user:42 --limit 3/10s
  limitctl consume user:42 --limit 10/1m --limit sliding-log:100/1h
  limitctl consume llm:team-a --limit 100000/1m --cost 2300 --wait=30s
  limitctl consume mails --limit leaky-bucket:5/1s --wait && echo "send one"`,
		Args: oneSubject,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.subject = args[0]
			if o.reqs, err = o.requests(cmd, limiter.Take, o.subject); err != nil {
				return err
			}
			if o.patience, err = parseWait(o.wait); err != nil {
				return err
			}
			return runConsume(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.addFlags(cmd)
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
	store, err := o.openGuarded(o.onError)
	if err != nil {
		return err
	}
	defer store.Close()
	decisions, err := o.takeTurn(ctx, store)
	if err != nil {
		return err
	}
	return o.answer(&decisionAnswer{"allowed", o.subject, o.reqs, decisions})
}

// takeTurn takes, as often as it is denied and patience lasts, and waits out a
// delay. Somebody else can be quicker each time, so it asks again.
func (o *consumeOptions) takeTurn(ctx context.Context, store limiter.Store) ([]limiter.Decision, error) {
	begin := o.env.Now()
	for {
		decisions, err := o.decide(ctx, store, limiter.Take, o.reqs)
		if err != nil || o.patience == 0 {
			return decisions, err
		}
		sum := together(decisions)
		left := o.patience
		if left != forever {
			left -= o.env.Now().Sub(begin)
		}
		wait := max(sum.RetryAfter, sum.Delay)
		switch {
		case sum.Unguarded:
			return decisions, nil
		case sum.Allowed && wait <= left:
			return decisions, o.env.Sleep(ctx, wait)
		case sum.Allowed: // taken, but its turn comes too late: give it back
			return o.giveBack(ctx, store, decisions, wait)
		case wait > left:
			return decisions, nil
		}
		if !o.quiet {
			fmt.Fprintf(o.env.Err, "limitctl: waiting %s for a turn\n", output.Duration(wait))
		}
		if err := o.env.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// giveBack turns an allowed take, whose turn to leave is too far off, into a
// denial that says when to come back.
func (o *consumeOptions) giveBack(ctx context.Context, store limiter.Store, taken []limiter.Decision, wait time.Duration) ([]limiter.Decision, error) {
	decisions, err := o.decide(ctx, store, limiter.Refund, o.reqs)
	if err != nil {
		return nil, fmt.Errorf("giving back what was taken, its turn being %s away: %w", output.Duration(wait), err)
	}
	for i := range decisions {
		if taken[i].Delay == wait {
			decisions[i].Allowed, decisions[i].RetryAfter = false, wait-o.patience
		}
	}
	return decisions, nil
}
