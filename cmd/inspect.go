package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

type inspectOptions struct {
	*globalOptions
	selection
}

// selection is which keys an operator means.
type selection struct {
	exact   bool
	pattern limiter.Pattern
}

func (s *selection) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.exact, "exact", false, "take PATTERN as a subject, whatever glob characters it holds")
}

func (s *selection) parse(text string) (err error) {
	if s.exact {
		s.pattern, err = limiter.ExactPattern(text)
	} else {
		s.pattern, err = limiter.ParsePattern(text)
	}
	return err
}

func newInspectCmd(global *globalOptions) *cobra.Command {
	o := &inspectOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "inspect PATTERN",
		Short: "Show the state of every matching key",
		Long: `Inspect shows what is used of every limit whose subject matches PATTERN, those
closest to their limit first. It writes nothing.

PATTERN is a glob: * any characters, ? one, [abc] one of a set, \ takes the next
literally. Without any of these it is exactly that subject, all its limits.`,
		Example: `  limitctl inspect user:42
  limitctl inspect 'tenant:acme:*'
  limitctl inspect '*' -o csv > limits.csv`,
		Args: onePattern,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(args[0]); err != nil {
				return err
			}
			return runInspect(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.addFlags(cmd)
	return cmd
}

func onePattern(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usagef("no PATTERN given; write a subject or a glob, or '*' for all, as in `%s '*'`", cmd.CommandPath())
	case len(args) > 1:
		return usagef("%d arguments given (%q, %q, …), and %s takes one PATTERN; quote it, lest the shell expands it",
			len(args), args[0], args[1], cmd.Name())
	}
	return nil
}

func runInspect(ctx context.Context, o *inspectOptions) error {
	store, _, err := o.open()
	if err != nil {
		return err
	}
	defer store.Close()
	entries, foreign, err := collect(ctx, store, o.pattern)
	if err != nil {
		return err
	}
	// Those closest to their limit first; equals in the order of their names.
	slices.SortFunc(entries, func(a, b limiter.Entry) int {
		return cmp.Or(
			cmp.Compare(share(b), share(a)),
			cmp.Compare(a.Key.Subject, b.Key.Subject),
			cmp.Compare(a.Key.Name, b.Key.Name))
	})
	if err := o.print(&inspectAnswer{entries}); err != nil {
		return err
	}
	if len(entries) == 0 && len(foreign) == 0 && !o.quiet {
		fmt.Fprintf(o.env.Err, "limitctl: nothing in use matches %q\n", o.pattern)
	}
	return partly(len(entries), foreign)
}

// share is how much of its limit an entry has used: 1 is all.
func share(e limiter.Entry) float64 {
	return float64(e.Decision.Used) / float64(e.Limit.Capacity())
}

// collect scans for all entries; keys with foreign values are told apart.
func collect(ctx context.Context, store connect.Store, pattern limiter.Pattern) (entries []limiter.Entry, foreign []error, err error) {
	for entry, err := range store.Scan(ctx, limiter.Query{Subjects: pattern}) {
		switch {
		case errors.Is(err, limiter.ErrForeign):
			foreign = append(foreign, err)
		case err != nil:
			return nil, nil, err
		default:
			entries = append(entries, entry)
		}
	}
	return entries, foreign, nil
}

// partly makes of what could not be done an error: that of the foreign values if
// there was nothing else, and partly done otherwise.
func partly(done int, foreign []error) error {
	err := errors.Join(foreign...)
	if err != nil && done > 0 {
		return &partlyError{err}
	}
	return err
}

// inspectAnswer is the state of keys.
type inspectAnswer struct{ entries []limiter.Entry }

type entryDocument struct {
	Key      string `json:"key"`
	StoreKey string `json:"store_key"`
	TTLMS    int64  `json:"ttl_ms"` // -1: it never expires, which is somebody's doing
	limitDocument
}

func newEntryDocument(e limiter.Entry) entryDocument {
	ttl := output.Milliseconds(e.TTL)
	if e.TTL < 0 {
		ttl = -1
	}
	return entryDocument{e.Key.Subject, e.StoreKey, ttl, newLimitDocument(e.Key.Name, e.Limit, e.Decision)}
}

// Document implements output.Answer.
func (a *inspectAnswer) Document() any {
	document := struct {
		SchemaVersion int             `json:"schema_version"`
		Keys          []entryDocument `json:"keys"`
	}{output.SchemaVersion, []entryDocument{}}
	for _, e := range a.entries {
		document.Keys = append(document.Keys, newEntryDocument(e))
	}
	return document
}

// Lines implements output.Answer.
func (a *inspectAnswer) Lines() []any {
	var lines []any
	for _, e := range a.entries {
		lines = append(lines, newEntryDocument(e))
	}
	return lines
}

// Records implements output.Answer.
func (a *inspectAnswer) Records() [][]string {
	records := [][]string{{"key", "store_key", "ttl_ms", "name", "algorithm", "count", "period_ms", "burst",
		"used", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"}}
	for _, e := range a.entries {
		d := newEntryDocument(e)
		records = append(records, []string{d.Key, d.StoreKey, number(d.TTLMS), d.Name, d.Algorithm, number(d.Count), number(d.PeriodMS),
			number(d.Burst), number(d.Used), number(d.Remaining), number(d.RetryAfterMS), number(d.ResetAfterMS), number(d.DelayMS)})
	}
	return records
}

// barWidth is the bar's columns in the table.
const barWidth = 10

// Print implements output.Answer.
func (a *inspectAnswer) Print(p *output.Printer) {
	if len(a.entries) == 0 {
		return
	}
	columns := []output.Column{{Header: "KEY", Shrinks: 8}, {Header: "NAME", Shrinks: 6, Drops: 1}, {Header: "LIMIT", Shrinks: 8, Drops: 3},
		{Drops: 4}, {Header: "USED", Right: true}, {Header: "REMAINING", Right: true, Drops: 2}, {Header: "RESETS IN", Right: true}}
	var rows [][]output.Cell
	for _, e := range a.entries {
		style := closeness(e)
		rows = append(rows, []output.Cell{{Text: output.Printable(e.Key.Subject)}, {Text: output.Printable(e.Key.Name)}, {Text: limitText(e)},
			{Text: output.Bar(e.Decision.Used, e.Limit.Capacity(), barWidth), Style: style}, {Text: usedText(e), Style: style},
			{Text: number(e.Decision.Remaining)}, {Text: orDash(e.Decision.ResetAfter)}})
	}
	p.Table(columns, rows)
}

// limitText is the limit, without the algorithm where the key's name says it.
func limitText(e limiter.Entry) string {
	if e.Key.Name != e.Limit.DefaultName() {
		return e.Limit.String()
	}
	text := fmt.Sprintf("%d/%s", e.Limit.Count, limiter.FormatPeriod(e.Limit.Period))
	if e.Limit.Burst != e.Limit.Count {
		text += fmt.Sprintf(",burst=%d", e.Limit.Burst)
	}
	return text
}

func usedText(e limiter.Entry) string {
	return fmt.Sprintf("%d/%d", e.Decision.Used, e.Limit.Capacity())
}

// closeness is the colour of an entry: calm, near the limit, or at it.
func closeness(e limiter.Entry) output.Style {
	switch {
	case e.Decision.Remaining == 0:
		return output.AtEnd
	case share(e) >= 0.8:
		return output.Near
	}
	return output.Calm
}
