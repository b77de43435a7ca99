package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

type inspectOptions struct {
	*globalOptions
	selectionOptions
	sort     string
	limit    int
	bytes    bool
	summary  bool
	watch    string
	interval time.Duration
	keys     operation.Selection
	where    string // the open store's name
}

func newInspectCmd(global *globalOptions) *cobra.Command {
	o := &inspectOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "inspect PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "Show the state of every matching key",
		Long: `Inspect shows what is used of every limit whose subject matches PATTERN, those
closest to their limit first. It writes nothing.

` + selectionHelp + `

As jsonl or csv, without --sort and --limit-rows, keys are printed as they are
found, however many there are.`,
		Example: `  limitctl inspect user:42
  limitctl inspect 'tenant:acme:*' --denied
  limitctl inspect --policy api tenant=acme
  limitctl inspect '*' --sort bytes --limit-rows 10
  limitctl inspect '*' --summary
  limitctl inspect '*' -o csv > limits.csv`,
		Args: o.arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(args); err != nil {
				return err
			}
			return runInspect(cmd.Context(), o)
		},
		ValidArgsFunction: completer{global}.keyOrAttributes,
	}
	o.addSelectionFlags(cmd, global)
	flags := cmd.Flags()
	flags.StringVar(&o.sort, "sort", "",
		"`ORDER` of the keys: share (of the limit that is used, the default), used, remaining, bytes, reset or key")
	flags.IntVar(&o.limit, "limit-rows", 0, "show only the first `N` in that order")
	flags.BoolVar(&o.bytes, "bytes", false, "show the memory each key takes in the store, too")
	flags.BoolVar(&o.summary, "summary", false, "show how many keys each limit has, how many are at their limit, and the memory they take")
	addWatchFlag(cmd, &o.watch)
	cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(orderNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *inspectOptions) parse(args []string) (err error) {
	if o.keys, err = o.selected(o.globalOptions, args); err != nil {
		return err
	}
	if o.sort != "" && orders()[o.sort] == nil {
		return usagef("--sort %q is not an order; it is one of %s", o.sort, strings.Join(orderNames(), ", "))
	}
	if o.limit < 0 {
		return usagef("--limit-rows %d is negative; give a number of keys, or 0 for all", o.limit)
	}
	if o.summary && (o.sort != "" || o.limit > 0 || o.foreign) {
		return usagef("--summary shows no keys; it cannot be given with --sort, --limit-rows or --foreign")
	}
	if o.foreign && (o.sort != "" && o.sort != "key") {
		return usagef("--foreign shows values that are not limits; the only order they have is --sort key")
	}
	o.keys.Query.Bytes = o.bytes || o.summary || o.sort == "bytes"
	if o.interval, err = parseWatch(o.watch); err != nil {
		return err
	}
	return o.checkWatch(o.interval)
}

func runInspect(ctx context.Context, o *inspectOptions) error {
	store, where, err := o.openToRead()
	if err != nil {
		return err
	}
	defer store.Close()
	o.where = where
	if o.interval > 0 {
		return o.watchInspect(ctx, store)
	}
	if p := o.printer(); p.Streams() && !p.Quiet && !o.summary && o.sort == "" && o.limit == 0 {
		return o.stream(ctx, store, p)
	}
	answer, f, err := o.look(ctx, store, o.limit)
	if err == nil || f.Matched > 0 {
		if err := o.print(answer); err != nil {
			return err
		}
	}
	return o.conclude(ctx, store, answer.rows(), &f, err)
}

// inspection is an answer of inspect.
type inspection interface {
	output.Answer
	rows() int
}

// look scans once, for an answer of at most that many rows. 0 means all.
func (o *inspectOptions) look(ctx context.Context, store limiter.Keyspace, most int) (inspection, operation.Found, error) {
	if o.summary {
		answer := newSummaryAnswer(most)
		f, err := o.scan(ctx, store, &o.keys, func(e *limiter.Entry, _ error) error {
			answer.add(e)
			return nil
		})
		answer.finish()
		return answer, f, err
	}
	order := "share"
	if o.foreign {
		order = "key"
	}
	if o.sort != "" {
		order = o.sort
	}
	overrides := o.overridesOf(ctx, store)
	kept := newTopRows(orders()[order], most)
	f, err := o.scan(ctx, store, &o.keys, func(e *limiter.Entry, foreign error) error {
		kept.add(newInspectRow(e, foreign, overrides))
		return nil
	})
	return &inspectAnswer{inspected: kept.sorted(), bytes: o.keys.Query.Bytes, foreign: o.foreign, now: o.env.Now()}, f, err
}

func foreignText(err error) string {
	var foreign *limiter.ForeignError
	if errors.As(err, &foreign) {
		return foreign.Holds
	}
	return ""
}

// stream prints the keys as they are found.
func (o *inspectOptions) stream(ctx context.Context, store limiter.Keyspace, p *output.Printer) error {
	answer := &inspectAnswer{bytes: o.keys.Query.Bytes, foreign: o.foreign}
	stream, err := p.Stream(answer.header())
	if err != nil {
		return &outputError{err}
	}
	overrides := o.overridesOf(ctx, store)
	n := 0
	f, err := o.scan(ctx, store, &o.keys, func(e *limiter.Entry, foreign error) error {
		row := newInspectRow(e, foreign, overrides)
		n++
		if err := stream.Write(answer.line(&row), func() []string { return answer.csvRow(&row) }); err != nil {
			return &outputError{err}
		}
		return nil
	})
	if flushErr := stream.Flush(); flushErr != nil {
		return &outputError{flushErr}
	}
	warnOfFormulas(o.globalOptions, p)
	return o.conclude(ctx, store, n, &f, err)
}

// conclude says what the answer does not, and what went wrong after all.
func (o *inspectOptions) conclude(ctx context.Context, store limiter.Keyspace, rows int, f *operation.Found, err error) error {
	var printing *outputError
	switch {
	case errors.As(err, &printing):
		return err
	case err != nil && f.Matched > 0:
		return outcome.Partly(f.WithProgress(err))
	case err != nil:
		return f.WithProgress(err)
	}
	if !o.quiet {
		if o.limit > 0 && f.Matched > int64(rows) && !o.summary {
			fmt.Fprintf(o.env.Err, "limitctl: %d of %d keys shown\n", rows, f.Matched)
		}
		if f.Matched == 0 && f.Foreign.Count() == 0 {
			o.sayNothingMatches(ctx, store, &o.keys, o.where)
		}
	}
	if o.foreign {
		return nil
	}
	return f.Foreign.Err(f.Matched > 0)
}

// watchInspect looks again and again.
func (o *inspectOptions) watchInspect(ctx context.Context, store limiter.Keyspace) error {
	return o.watchAnswers(ctx, o.interval, func(rows int) (output.Answer, string, error) {
		if o.limit > 0 && (rows == 0 || o.limit < rows) {
			rows = o.limit
		}
		answer, f, err := o.look(ctx, store, rows)
		note := output.Plural(int(f.Matched), "key")
		if summary, is := answer.(*summaryAnswer); is {
			if shown, all := len(summary.shown()), summary.rows(); shown < all {
				note += fmt.Sprintf(", %d of %s", shown, output.Plural(all, "limit"))
			}
		} else if shown := answer.rows(); int64(shown) < f.Matched {
			note = fmt.Sprintf("%d of %s", shown, note)
		}
		if f.Foreign.Count() > 0 && !o.foreign {
			note += fmt.Sprintf(", %d foreign", f.Foreign.Count())
		}
		if err != nil && f.Matched == 0 {
			return nil, note, err
		}
		return answer, note, err
	})
}
