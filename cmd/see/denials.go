package see

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type denialsOptions struct {
	*cli.Globals
	exact    bool
	last     string
	sort     string
	by       string
	over     int64
	failIf   bool
	limit    int
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
first. PATTERN is a glob over subjects or a network; the default is all. A
request counts once: for the first limit that denied it, or a block.

Consume, run and serve count denials, unless the configuration says "denials:
false"; services that use the library do if they ask for it. The store keeps an
hour by the minute and 24 hours by ten minutes, so the counts can cover up to
one step more than --last.

  LIMIT    the limit in force that denied last
  DENIED   how often the limit denied
  BLOCKED  how often an operator's block denied: one row for a block, with its
           pattern; these come last
  SHARE    the share of the requests that was denied between the first and the
           last denial, in the processes that denied
  SINCE    when this run of denials began: no five minutes without one since;
           new: in the last ten minutes

Counts of more keys than a process can track are marked with ≥. Attributes are
those of policies, and of subjects written like tenant:acme:user:42. Networks
are /24 of IPv4 and /64 of IPv6.

For alerts: --over N --fail-if-any exits with 1 if a limit denied a key more
than N times. Denials by a block do not count.`,
		Example: `  limitctl denials
  limitctl denials 'tenant:acme:*' --last 24h
  limitctl denials ip:203.0.113.0/24
  limitctl denials --by tenant --limit-rows 10
  limitctl denials 'ip:*' --by network
  limitctl denials -q 'tenant:*' --over 100 --fail-if-any
  limitctl denials -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("%s given, and denials takes one PATTERN; quote it, so that the shell does not "+
					"expand it",
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
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.exact, "exact", false, "take PATTERN as a subject, as it is typed")
	flags.StringVar(&o.last, "last", "10m", "show denials of the last `DURATION`, up to 24h")
	flags.StringVar(&o.by, "by", "", "sum up by the values of `ATTRIBUTE`, such as tenant, by limit, or by network")
	flags.StringVar(&o.sort, "sort", byDenied, "`ORDER`: denied (most first), since (what began last), or key")
	cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions([]string{byDenied, bySince, byKey},
		cobra.ShellCompDirectiveNoFileComp))
	cli.NumberFlag(flags, &o.over, "over", "", 0, "show only what a limit denied more than `N` times")
	flags.BoolVar(&o.failIf, "fail-if-any", false, "exit with 1 if anything is shown that a limit denied, for alerts")
	cli.NumberFlag(flags, &o.limit, "limit-rows", "n", 0, "show only the first `N`")
	cmd.RegisterFlagCompletionFunc("last", cobra.FixedCompletions([]string{"1m", "10m", "1h", "24h"},
		cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("by", cobra.NoFileCompletions)
	return cmd
}

func (o *denialsOptions) parse(cmd *cobra.Command, args []string) (err error) {
	if o.exact && len(args) == 0 {
		return cli.Usagef("--exact is for a PATTERN, and none is given")
	}
	if len(args) == 0 {
		args = []string{"*"}
	}
	if args, err = o.NameClients(cmd.Context(), o.exact, "", args); err != nil {
		return err
	}
	if o.subjects, err = cli.ParseSubjects(args[0], o.exact); err != nil {
		return err
	}
	if o.span, err = store.ParsePeriod(o.last); err != nil || o.span <= 0 || o.span > admin.DenialHistory {
		return cli.Usagef("--last %s is not a duration of up to 24h, which is how long denials are kept; write it "+
			"like 10m or 24h", o.last)
	}
	if cmd.Flags().Changed("by") {
		if err := policy.ValidateName("attribute", o.by); err != nil {
			return cli.Usagef("--by: %s", err)
		}
	}
	if !slices.Contains([]string{byDenied, bySince, byKey}, o.sort) {
		return cli.Usagef("--sort %q is none of denied, since and key", o.sort)
	}
	if o.over < 0 {
		return cli.Usagef("--over %d is negative; give a number of denials", o.over)
	}
	if o.limit < 0 {
		return cli.Usagef("--limit-rows %d is negative; give a number of rows, or 0 for all", o.limit)
	}
	return nil
}

func runDenials(ctx context.Context, o *denialsOptions) error {
	backend, _, err := o.OpenToRead()
	if err != nil {
		return err
	}
	defer backend.Close()
	table, has := admin.TablesOf(backend)
	if !has {
		return store.Invalidf("this store keeps no denials")
	}
	within, cancel := store.BudgetContext(ctx, o.Timeout)
	defer cancel()
	denials, away := table.Denials(within, o.span)
	if away != nil && !cli.IsPartial(away) {
		return away
	}
	answer := &denialsAnswer{span: o.span, by: o.by, sort: o.sort, over: o.over}
	answer.add(&denials, o.subjects)
	if o.limit > 0 {
		answer.rows = answer.rows[:min(o.limit, answer.found)]
	}
	if err := o.Print(answer); err != nil {
		return errors.Join(err, away)
	}
	if !o.Quiet && away == nil {
		o.explain(ctx, answer)
	}
	if away == nil && o.failIf && answer.total > 0 {
		return cli.ErrDenied
	}
	return away
}

// explain prints notes that are not in the rows.
func (o *denialsOptions) explain(ctx context.Context, a *denialsAnswer) {
	switch {
	case a.found == 0 && o.over > 0:
		o.Note("no key has a count of its own above %s in the last %s", output.Thousands(o.over),
			output.Duration(a.span))
		return
	case a.found == 0 && a.others == 0:
		if text := o.NotCounted(ctx); text != "" {
			o.Note("%s", text)
			return
		}
		who := ""
		if pattern := o.subjects.String(); pattern != "*" {
			who = " of " + shell.Command(pattern)
		}
		o.Note("no denial%s was counted in the last %s", who, output.Duration(a.span))
		return
	}
	if a.others > 0 {
		o.Note("%s more of keys without a count of their own: there were too many",
			cli.CountOf(a.others, "denial", "denials"))
	}
	if a.lost {
		o.Note("some denials may be missing: the outcome of a write is not known")
	}
	if shown := len(a.rows); shown < a.found {
		o.Note("%d of %d rows shown", shown, a.found)
	}
}
