package keys

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type denialsOptions struct {
	*cli.Globals
	exact    bool
	last     string
	by       string
	limit    int
	watch    string
	interval time.Duration
	span     time.Duration
	subjects store.Pattern
}

// NewDenialsCmd makes limitctl denials.
func NewDenialsCmd(global *cli.Globals) *cobra.Command {
	o := &denialsOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "denials [PATTERN]",
		Short: "Show who is being throttled",
		Long: `Denials shows which keys were denied in the last minutes, those denied most
first. PATTERN is a glob over subjects or a network, as in inspect; the default
is all.

Services that use the library count denials if they ask for it, and consume does
if the configuration says "denials: true". They add the counts to the store once
a second. The store keeps an hour, with the 1,000 keys denied most in each
minute. It counts whole minutes, so the counts can cover up to a minute more
than --last.

BLOCKED is how many of the denials are of keys that an operator's block denies
now. These keys come last, since their denials are intended.

If more keys were denied than have counts of their own, counts are marked with
≥. With --by it counts by the values of an attribute, in limits of policies and
in subjects written like tenant:acme:user:42.`,
		Example: `  limitctl denials
  limitctl denials 'tenant:acme:*' --last 1h
  limitctl denials ip:203.0.113.0/24
  limitctl denials --by tenant --limit-rows 10
  limitctl denials -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("%s given, and denials takes one PATTERN; quote it, so that the shell does not expand it",
					cli.Several(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(cmd, args); err != nil {
				return err
			}
			return runDenials(cmd.Context(), o)
		},
		ValidArgsFunction: cli.Offers(global).Keys,
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.exact, "exact", false, "take PATTERN as a subject, even if it holds glob characters")
	flags.StringVar(&o.last, "last", "10m", "show denials of the last `DURATION`, up to 1h")
	flags.StringVar(&o.by, "by", "", "sum up by the values of `ATTRIBUTE`, such as tenant")
	flags.IntVar(&o.limit, "limit-rows", 0, "show only the first `N`")
	cli.AddWatchFlag(cmd, &o.watch)
	cmd.RegisterFlagCompletionFunc("last", cobra.FixedCompletions([]string{"1m", "10m", "1h"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("by", cli.Offers(global).AllAttributes)
	return cmd
}

func (o *denialsOptions) parse(cmd *cobra.Command, args []string) (err error) {
	text := "*"
	if len(args) > 0 {
		text = args[0]
	}
	if o.exact {
		if len(args) == 0 {
			return cli.Usagef("--exact is for a PATTERN, and none is given")
		}
		o.subjects, err = store.ExactPattern(text)
	} else {
		o.subjects, err = store.ParsePattern(text)
	}
	if err != nil {
		return err
	}
	if o.span, err = store.ParsePeriod(o.last); err != nil || o.span <= 0 || o.span > admin.DenialHistory {
		return cli.Usagef("--last %s is not a duration of up to 1h; write it like 10m", o.last)
	}
	if cmd.Flags().Changed("by") {
		if err := policy.ValidateName("attribute", o.by); err != nil {
			return cli.Usagef("--by: %s", err)
		}
	}
	if o.limit < 0 {
		return cli.Usagef("--limit-rows %d is negative; give a number of rows, or 0 for all", o.limit)
	}
	if o.interval, err = cli.ParseWatch(o.watch); err != nil {
		return err
	}
	return cli.CheckWatch(o.Globals, o.interval)
}

func runDenials(ctx context.Context, o *denialsOptions) error {
	backend, _, err := o.OpenToRead()
	if err != nil {
		return err
	}
	defer backend.Close()
	if o.interval > 0 {
		return cli.WatchAnswers(ctx, o.Globals, o.interval, func(rows int) (output.Answer, string, error) {
			answer, err := o.look(ctx, backend)
			note := answer.summary()
			if rows > 0 {
				answer.cut(rows)
			}
			return answer, note, err
		})
	}
	answer, away := o.look(ctx, backend)
	if away != nil && !cli.IsPartial(away) {
		return away
	}
	if err := o.Print(answer); err != nil {
		return errors.Join(err, away)
	}
	if !o.Quiet && away == nil {
		o.explain(answer)
	}
	return away
}

// look reads the denials once.
func (o *denialsOptions) look(ctx context.Context, backend store.Store) (*denialsAnswer, error) {
	answer := &denialsAnswer{span: o.span, by: o.by}
	table, has := admin.DenialTableOf(backend)
	if !has {
		return answer, store.Invalidf("this store keeps no denials")
	}
	ctx, cancel := store.BudgetContext(ctx, o.Timeout)
	defer cancel()
	denials, err := table.Denials(ctx, o.span)
	if err != nil && !cli.IsPartial(err) {
		return answer, err
	}
	answer.overrides, answer.withoutOverrides = cli.OverridesOf(ctx, o.Globals, backend)
	answer.add(&denials, o.subjects)
	if o.limit > 0 {
		answer.cut(o.limit)
	}
	return answer, err
}

// explain prints notes that are not in the rows.
func (o *denialsOptions) explain(a *denialsAnswer) {
	if a.withoutOverrides != nil {
		o.Note("warning: overrides cannot be read, so blocked keys are not marked: %s", cli.Message(a.withoutOverrides))
	}
	if a.total == 0 && a.others == 0 {
		who := "nobody"
		if pattern := o.subjects.String(); pattern != "*" {
			who = "nobody matching " + shell.Command(pattern)
		}
		o.Note("%s is known to have been denied in the last %s; see `limitctl denials --help` for who counts", who, output.Duration(a.span))
		return
	}
	if a.by != "" && !slices.ContainsFunc(a.rows, func(row denialRow) bool { return !row.isNone }) {
		o.Note("no key that was denied has an attribute %s", output.Printable(a.by))
	}
	if a.others > 0 {
		o.Note("%s more of keys without a count of their own: there were too many", cli.CountOf(a.others, "denial", "denials"))
	}
	if a.lost {
		o.Note("some denials may be missing: the outcome of a write is not known")
	}
	if shown := len(a.rows); shown < a.found {
		o.Note("%d of %d rows shown", shown, a.found)
	}
}
