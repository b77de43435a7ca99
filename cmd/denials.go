package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type denialsOptions struct {
	*globalOptions
	exact    bool
	last     string
	by       string
	limit    int
	watch    string
	interval time.Duration
	span     time.Duration
	subjects store.Pattern
}

func newDenialsCmd(global *globalOptions) *cobra.Command {
	o := &denialsOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "denials [PATTERN]",
		Short: "Show who is being throttled",
		Long: `Denials shows which keys were denied in the last minutes, those denied most
first. PATTERN is a glob over subjects or a network, as of inspect; without it
all are shown.

Services that use the library count whom they deny, if they say so, and so does
consume if the configuration says "denials: true". They add it to the store once
a second. The store keeps an hour: of each minute the 1,000 keys denied most.
Whole minutes are added up, so up to a minute more than --last may be counted.

BLOCKED is how many of these are of keys that an operator's block denies now.
They come last: they are denied as they should be.

Where more keys were denied than can be told apart, counts are marked with ≥.
With --by the counts are those of an attribute's values: of limits of policies,
and of subjects written like tenant:acme:user:42.`,
		Example: `  limitctl denials
  limitctl denials 'tenant:acme:*' --last 1h
  limitctl denials ip:203.0.113.0/24
  limitctl denials --by tenant --limit-rows 10
  limitctl denials -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s given, and denials takes one PATTERN; quote it, so that the shell does not expand it", several(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(cmd, args); err != nil {
				return err
			}
			return runDenials(cmd.Context(), o)
		},
		ValidArgsFunction: completer{global}.keys,
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.exact, "exact", false, "take PATTERN as a subject, even if it holds glob characters")
	flags.StringVar(&o.last, "last", "10m", "denials of the last `DURATION`, up to 1h")
	flags.StringVar(&o.by, "by", "", "sum up by the values of `ATTRIBUTE`, such as tenant")
	flags.IntVar(&o.limit, "limit-rows", 0, "show only the first `N`")
	addWatchFlag(cmd, &o.watch)
	cmd.RegisterFlagCompletionFunc("last", cobra.FixedCompletions([]string{"1m", "10m", "1h"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("by", completer{global}.allAttributes)
	return cmd
}

func (o *denialsOptions) parse(cmd *cobra.Command, args []string) (err error) {
	text := "*"
	if len(args) > 0 {
		text = args[0]
	}
	if o.exact {
		if len(args) == 0 {
			return usagef("--exact is for a PATTERN, and none is given")
		}
		o.subjects, err = store.ExactPattern(text)
	} else {
		o.subjects, err = store.ParsePattern(text)
	}
	if err != nil {
		return err
	}
	if o.span, err = store.ParsePeriod(o.last); err != nil || o.span <= 0 || o.span > admin.DenialHistory {
		return usagef("--last %s is not a duration of up to 1h; write it like 10m", o.last)
	}
	if cmd.Flags().Changed("by") {
		if err := policy.ValidateName("attribute", o.by); err != nil {
			return usagef("--by: %s", err)
		}
	}
	if o.limit < 0 {
		return usagef("--limit-rows %d is negative; give a number of rows, or 0 for all", o.limit)
	}
	if o.interval, err = parseWatch(o.watch); err != nil {
		return err
	}
	return o.checkWatch(o.interval)
}

func runDenials(ctx context.Context, o *denialsOptions) error {
	backend, _, err := o.openToRead()
	if err != nil {
		return err
	}
	defer backend.Close()
	if o.interval > 0 {
		return o.watchAnswers(ctx, o.interval, func(rows int) (output.Answer, string, error) {
			answer, err := o.look(ctx, backend)
			note := answer.summary()
			if rows > 0 {
				answer.cut(rows)
			}
			return answer, note, err
		})
	}
	answer, away := o.look(ctx, backend)
	if away != nil && !isPartial(away) {
		return away
	}
	if err := o.print(answer); err != nil {
		return errors.Join(err, away)
	}
	if !o.quiet && away == nil {
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
	ctx, cancel := store.BudgetContext(ctx, o.timeout)
	defer cancel()
	denials, err := table.Denials(ctx, o.span)
	if err != nil && !isPartial(err) {
		return answer, err
	}
	answer.overrides, answer.withoutOverrides = o.overridesOf(ctx, backend)
	answer.add(&denials, o.subjects)
	if o.limit > 0 {
		answer.cut(o.limit)
	}
	return answer, err
}

// explain says what the rows do not.
func (o *denialsOptions) explain(a *denialsAnswer) {
	if a.withoutOverrides != nil {
		o.note("warning: overrides cannot be read, so what they block is not told apart: %s", message(a.withoutOverrides))
	}
	if a.total == 0 && a.others == 0 {
		who := "nobody"
		if pattern := o.subjects.String(); pattern != "*" {
			who = "nobody matching " + shell.Command(pattern)
		}
		o.note("%s is known to have been denied in the last %s; see `limitctl denials --help` for who counts", who, output.Duration(a.span))
		return
	}
	if a.by != "" && !slices.ContainsFunc(a.rows, func(row denialRow) bool { return !row.isNone }) {
		o.note("no key that was denied has an attribute %s", output.Printable(a.by))
	}
	if a.others > 0 {
		o.note("%s more of keys that are not told apart: there were too many", plural(a.others, "denial"))
	}
	if a.lost {
		o.note("some denials are not counted: it is not known what became of a write")
	}
	if shown := len(a.rows); shown < a.found {
		o.note("%d of %d rows shown", shown, a.found)
	}
}

func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%s %s", output.Thousands(n), noun)
}

// denialLayer returns the layer that counts who is denied by a command that takes, if the
// configuration wants to know that. What was denied is written to backend when the result is closed. A
// command does not count whom a local file denies: it ends at once, and should not wait a second
// time for a store that is away.
func denialLayer(g *globalOptions, backend store.Store) (func(store.Store) store.Store, error) {
	c, err := g.config()
	if err != nil || !c.Denials {
		return nil, err
	}
	return layers.CollectDenials(backend, layers.DenialLog{WithoutLocal: true, OnError: func(err error) {
		fmt.Fprintf(g.env.Err, "limitctl: warning: %s\n", message(err))
	}}).Wrap, nil
}
