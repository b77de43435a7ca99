package decide

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type consumeOptions struct {
	options
	denials bool // as --count-denials says
	counts  *bool
	wait    string
	force   bool
	upTo    int64
	op      store.Op // as force and upTo say
	// maxWait is how long to wait for a turn: nothing, a while, or for ever.
	maxWait time.Duration
}

const forever = time.Duration(1<<63 - 1)

// NewConsumeCmd makes limitctl consume.
func NewConsumeCmd(global *cli.Globals) *cobra.Command {
	o := &consumeOptions{options: options{Globals: global}}
	cmd := &cobra.Command{
		Use:   "consume KEY --limit [ALGORITHM:]COUNT/PERIOD | consume --policy NAME ATTRIBUTE=VALUE...",
		Short: "Take units, if they fit",
		Long: `Consume takes --cost units of KEY if they fit all its limits, else none. The
exit code is the answer: 0 taken, 1 denied. With --policy the limits are those
of a policy, attributes say who is limited, and a limit can have a cost of its
own, such as --cost tokens=3000.

With --token a retry is safe: the same request with the same token is allowed
again, and nothing more is charged. If you know the real cost only afterwards,
take an estimate, and correct it with "limitctl settle". In a Cluster a token is
known in the slot of its key only.

With --force requests are denied until enough has come back. With --up-to the
exit code is 0 if at least one unit fits.

A request for at least half of what a limit holds, and for more than one unit,
needs --confirm in a protected context, and is written to the audit log.`,
		Example: `  limitctl consume user:42 --limit 3/10s
  limitctl consume user:42 --limit 10/1m --limit sliding-log:100/1h
  limitctl consume --policy login ip=203.0.113.9 email=a@example.com
  limitctl consume llm:team-a --limit 100000/1m --cost 2300 --wait=30s
  limitctl consume --policy llm team=search --cost tokens=3000
  limitctl consume mails --limit leaky-bucket:5/1s --wait && echo "send one"
  limitctl consume orders --limit 100/1h --token order-4711
  limitctl consume egress:team-a --limit 1000000/1h --cost 734003 --force
  limitctl consume batch --limit 500/1m --up-to 200 -o json`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.op, err = o.chooseOp(cmd); err != nil {
				return err
			}
			if o.request, err = o.requestFlags.Request(cmd, global, o.op, args); err != nil {
				return err
			}
			if err = o.readWait(cmd); err != nil {
				return err
			}
			return runConsume(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.AddFlags(cmd, global)
	o.AddChargeConsentFlags(cmd)
	addOnErrorFlag(cmd, &o.onError)
	o.addWaitFlags(cmd)
	o.addTokenFlag(cmd, "charge a request once, however often it is sent with the same `TEXT`, such as the number of "+
		"an order")
	cmd.Flags().BoolVar(&o.force, "force", false, "take the units even if they do not fit")
	cli.NumberFlag(cmd.Flags(), &o.upTo, "up-to", "", 0, "take as many of `N` units as fit, and say how many")
	return cmd
}

// chooseOp returns the operation for --force and --up-to.
func (o *consumeOptions) chooseOp(cmd *cobra.Command) (store.Op, error) {
	flags := cmd.Flags()
	op, flag := store.Take, ""
	switch {
	case o.force && flags.Changed("up-to"):
		return 0, cli.Usagef("--force takes all units and --up-to those that fit; give one of them")
	case o.force:
		op, flag = store.Charge, "--force"
	case flags.Changed("up-to"):
		if flags.Changed("cost") {
			return 0, cli.Usagef("--cost and --up-to both say how many units; give one of them")
		}
		if o.upTo < 1 || o.upTo > store.MaxCount {
			return 0, cli.Usagef("--up-to %d is out of range; it must be from 1 to %d", o.upTo, store.MaxCount)
		}
		op, flag, o.Cost.Units = store.TakeUpTo, "--up-to", o.upTo
	}
	switch {
	case op != store.Take && flags.Changed("wait"):
		return 0, cli.Usagef("%s does not wait for a turn; leave out --wait or %s", flag, flag)
	case op != store.Take && flags.Changed("on-error"):
		return 0, cli.Usagef("--on-error is for a yes or no; with %s an unreachable store is an error, so leave it out",
			flag)
	}
	return op, nil
}

// addWaitFlags adds the flags about a denial: --wait and --count-denials.
func (o *consumeOptions) addWaitFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.wait, "wait", "",
		"wait for a turn instead of a denial, for at most `DURATION` if given (--wait=30s)")
	cmd.Flags().Lookup("wait").NoOptDefVal = "forever"
	cmd.Flags().BoolVar(&o.denials, "count-denials", true, "count a denial in the store "+
		"(default yes, unless the configuration says denials: false)")
}

// readWait reads the flags of addWaitFlags.
func (o *consumeOptions) readWait(cmd *cobra.Command) (err error) {
	if cmd.Flags().Changed("count-denials") {
		o.counts = &o.denials
	}
	if cmd.Flags().Changed("wait") {
		o.maxWait, err = parseWait(o.wait)
	}
	return err
}

func parseWait(text string) (time.Duration, error) {
	if text == "forever" {
		return forever, nil
	}
	maxWait, err := store.ParsePeriod(text)
	if err != nil || maxWait <= 0 {
		return 0, cli.Usagef("--wait=%s is not a positive duration; write --wait=30s, or --wait alone to wait as "+
			"long as it takes", text)
	}
	return maxWait, nil
}

func runConsume(ctx context.Context, o *consumeOptions) error {
	if err := o.charge(ctx, "consume"); err != nil {
		return err
	}
	return printDecision(o.Globals, &decisionAnswer{verb: o.verb(), LimitRequest: o.request,
		again: "already decided: nothing more was charged"})
}

// charge asks the store to take the units, for the command of that name, and closes it.
func (o *consumeOptions) charge(ctx context.Context, command string) (err error) {
	asked := operation.IsLarge(o.request.Requests) || o.Confirm != ""
	s, err := o.Settings()
	if asked {
		s, err = o.SettingsToChange()
	}
	if err != nil {
		return err
	}
	if asked {
		if err := o.CheckCharge(s.Access(), o.Env.InIsTerminal, command); err != nil {
			return err
		}
	}
	backend, err := openToDecide(ctx, o.Globals, store.Take, o.onError, o.counts, o.request)
	if err != nil {
		return err
	}
	defer backend.Close()
	if s.Access().ReadOnly {
		o.maxWait = 0 // it is refused now, not after a wait
	}
	take := func(ctx context.Context) ([]store.Decision, error) { return o.take(ctx, backend) }
	if keyspace, has := store.As[connect.Store](backend); asked && has {
		plan := &operation.ChargePlan{Command: "consume", Requests: o.request.Requests, Text: o.Words(o.request),
			Consent: o.Given()}
		o.request.Decisions, err = cli.NewRunner(o.Globals, s, keyspace, o.request.Where).Charge(
			ctx, plan, &cli.Observer{Global: o.Globals}, take)
	} else {
		o.request.Decisions, err = take(ctx)
	}
	o.request.Charges = true
	return err
}

// verb is the word for what the command did, if it did it.
func (o *consumeOptions) verb() string {
	sum := store.Summarize(o.request.Decisions)
	switch o.op {
	case store.Charge:
		if o.request.OwnCosts() { // the table has the cost of each
			return "charged"
		}
		return fmt.Sprintf("charged %d", sum.Granted)
	case store.TakeUpTo:
		return fmt.Sprintf("granted %d of %d", sum.Granted, o.upTo)
	default:
		return "allowed"
	}
}

// take takes at once with --force and --up-to, and else waits for its turn.
func (o *consumeOptions) take(ctx context.Context, backend store.Store) ([]store.Decision, error) {
	if o.maxWait == 0 {
		return decide(ctx, backend, o.op, o.request.Requests)
	}
	turn := layers.Waiter{Store: backend, Now: o.Env.Now, Sleep: o.Env.Sleep, OnWait: func(wait time.Duration) {
		if !o.Quiet {
			fmt.Fprintf(o.Env.Err, "limitctl: waiting %s for a turn\n", output.Duration(wait))
		}
	}}
	take := func() ([]store.Decision, error) { return turn.TakeWithin(ctx, o.maxWait, o.request.Requests...) }
	if o.maxWait == forever {
		take = func() ([]store.Decision, error) { return turn.Take(ctx, o.request.Requests...) }
	}
	decisions, err := take()
	if errors.Is(err, layers.ErrNotGivenBack) {
		err = outcome.Partly(err)
	}
	return decisions, err
}
