package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

type resetOptions struct {
	*globalOptions
	selection
	dryRun bool
	yes    bool
}

func newResetCmd(global *globalOptions) *cobra.Command {
	o := &resetOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "reset PATTERN",
		Short: "Delete matching keys, so that nothing of them is used",
		Long: `Reset makes every limit whose subject matches PATTERN unused. It first shows how
many keys match and a few of them, and asks; where it cannot ask it needs --yes.

PATTERN is a glob: * any characters, ? one, [abc] one of a set, \ takes the next
literally. Without any of these it is exactly that subject, all its limits; with
--exact it is, whatever it holds.`,
		Example: `  limitctl reset user:42
  limitctl reset 'tenant:acme:*' --dry-run
  limitctl reset 'tenant:acme:*' --yes
  limitctl reset --exact 'tenant:*' --yes`,
		Args: onePattern,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(args[0]); err != nil {
				return err
			}
			return runReset(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be deleted and delete nothing")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	return cmd
}

// resetAnswer is what a reset did.
type resetAnswer struct {
	SchemaVersion int  `json:"schema_version"`
	Matched       int  `json:"matched"`
	Deleted       int  `json:"deleted"`
	DryRun        bool `json:"dry_run"`
}

func runReset(ctx context.Context, o *resetOptions) error {
	if !o.dryRun && !o.yes && !o.env.InIsTerminal {
		return usagef("reset asks before it deletes, and there is no terminal to ask on; give --yes, or --dry-run to look first")
	}
	store, where, err := o.open()
	if err != nil {
		return err
	}
	defer store.Close()
	entries, foreign, err := collect(ctx, store, o.pattern)
	if err != nil {
		return err
	}
	answer := &resetAnswer{SchemaVersion: output.SchemaVersion, Matched: len(entries), DryRun: o.dryRun}
	o.showMatches(entries, where)
	if !o.dryRun && len(entries) > 0 {
		if !o.yes {
			if err := o.confirm(ctx, len(entries)); err != nil {
				return err
			}
		}
		var left error
		answer.Deleted, left, err = o.deleteAll(ctx, store, entries)
		if left != nil {
			foreign = append(foreign, left)
		}
	}
	if printErr := o.print(answer); printErr != nil {
		return printErr
	}
	if err != nil && answer.Deleted > 0 {
		return &partlyError{fmt.Errorf("%d of %s deleted, then: %w", answer.Deleted, output.Plural(answer.Matched, "key"), err)}
	}
	if err != nil {
		return err
	}
	return partly(answer.Matched, foreign)
}

// shown is how many of the matching keys are shown.
const shown = 5

func (o *resetOptions) showMatches(entries []limiter.Entry, where string) {
	if o.quiet && (o.yes || o.dryRun) { // who is asked is shown what about
		return
	}
	if len(entries) == 0 {
		fmt.Fprintf(o.env.Err, "limitctl: nothing in use matches %q in %s\n", o.pattern, where)
		return
	}
	fmt.Fprintf(o.env.Err, "%s in %s:\n", matches(len(entries), o.pattern), where)
	for _, e := range entries[:min(shown, len(entries))] {
		fmt.Fprintf(o.env.Err, "  %s  %s used\n", output.Printable(e.StoreKey), usedText(e))
	}
	if more := len(entries) - shown; more > 0 {
		fmt.Fprintf(o.env.Err, "  … and %d more\n", more)
	}
}

func matches(n int, pattern limiter.Pattern) string {
	if n == 1 {
		return fmt.Sprintf("1 key matches %q", pattern)
	}
	return fmt.Sprintf("%d keys match %q", n, pattern)
}

// confirm asks on the terminal; anything but yes is a no.
func (o *resetOptions) confirm(ctx context.Context, n int) error {
	fmt.Fprintf(o.env.Err, "Delete %s? [y/N] ", output.Plural(n, "key"))
	answers := make(chan string, 1)
	go func() { // so that Ctrl-C at the prompt is heard
		line, _ := bufio.NewReader(o.env.In).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(o.env.Err)
		return ctx.Err()
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		fmt.Fprintln(o.env.Err, "Nothing was deleted.")
		return errDenied
	}
}

// keysPerCall is how many keys are deleted within one timeout, and between two
// looks at whether the command was interrupted.
const keysPerCall = 500

// deleteAll deletes the entries' keys. left joins the errors of values that
// turned out not to be limits; err is what ended it early.
func (o *resetOptions) deleteAll(ctx context.Context, store connect.Store, entries []limiter.Entry) (deleted int, left, err error) {
	keys := make([]limiter.Key, len(entries))
	for i, e := range entries {
		keys[i] = e.Key
	}
	for len(keys) > 0 {
		if err := ctx.Err(); err != nil {
			return deleted, left, err
		}
		n := min(keysPerCall, len(keys))
		batch, cancel := context.WithTimeout(ctx, o.timeout)
		d, _, err := store.Delete(batch, limiter.Records(keys[:n]...)...)
		cancel()
		deleted += d
		switch {
		case errors.Is(err, limiter.ErrForeign):
			left = errors.Join(left, err)
		case err != nil:
			return deleted, left, err
		}
		keys = keys[n:]
	}
	return deleted, left, nil
}

// Document implements output.Answer.
func (a *resetAnswer) Document() any { return a }

// Lines implements output.Answer.
func (a *resetAnswer) Lines() []any { return []any{a} }

// Records implements output.Answer.
func (a *resetAnswer) Records() [][]string {
	return [][]string{{"matched", "deleted", "dry_run"}, {fmt.Sprint(a.Matched), fmt.Sprint(a.Deleted), fmt.Sprint(a.DryRun)}}
}

// Print implements output.Answer.
func (a *resetAnswer) Print(p *output.Printer) {
	if a.DryRun {
		fmt.Fprintf(p.Out, "would delete %s (dry run)\n", output.Plural(a.Matched, "key"))
		return
	}
	fmt.Fprintf(p.Out, "deleted %s\n", output.Plural(a.Deleted, "key"))
}
