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
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter"
)

type resetOptions struct {
	*globalOptions
	selection
	consent
	backupOptions
	dryRun      bool
	toRemaining int64 // -1: delete instead
}

func newResetCmd(global *globalOptions) *cobra.Command {
	o := &resetOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "reset PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "Delete matching keys, so that nothing of them is used",
		Long: `Reset makes every limit whose subject matches PATTERN unused, or with
--to-remaining leaves exactly so many units. It first shows how many keys match
and a few of them, and asks; where it cannot ask it needs --yes. In a protected
context it wants the context's name, typed or as --confirm NAME.

What it is about to change it writes to a backup first, and prints the command
that brings it back. It also writes a line to the audit (see limitctl audit).

` + selectionHelp,
		Example: `  limitctl reset user:42
  limitctl reset 'tenant:acme:*' --dry-run
  limitctl reset 'tenant:acme:*' --yes
  limitctl reset --policy api tenant=acme --yes
  limitctl reset --exact 'tenant:*' --yes
  limitctl reset user:42 --to-remaining 100 --yes`,
		Args: o.arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(cmd, args); err != nil {
				return err
			}
			return runReset(cmd.Context(), o)
		},
		ValidArgsFunction: completer{global}.keyOrAttributes,
	}
	o.selection.addFlags(cmd, global)
	o.consent.addFlags(cmd)
	o.backupOptions.addFlags(cmd)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be changed and change nothing")
	cmd.Flags().Int64Var(&o.toRemaining, "to-remaining", 0, "instead of deleting, leave exactly `N` units remaining of each limit")
	return cmd
}

func (o *resetOptions) parse(cmd *cobra.Command, args []string) error {
	switch {
	case !cmd.Flags().Changed("to-remaining"):
		o.toRemaining = -1
	case o.toRemaining < 0:
		return usagef("--to-remaining %d is negative; give the units to leave, from 0", o.toRemaining)
	}
	if o.foreign {
		return usagef("reset never touches values that limitctl did not write; see them with `limitctl inspect --foreign`")
	}
	if o.noBackup && o.backup != "" {
		return usagef("%s and --no-backup contradict each other; give one of them", shell.Command("--backup", o.backup))
	}
	known, err := o.knownPolicies(&o.selection)
	if err != nil {
		return err
	}
	if err := o.selection.parse(args, known); err != nil {
		return err
	}
	if o.dryRun {
		return nil
	}
	return o.consent.check(o.globalOptions, "reset", "deletes", ", or --dry-run to look first")
}

// resetAnswer is what a reset did.
type resetAnswer struct {
	SchemaVersion int    `json:"schema_version"`
	Matched       int64  `json:"matched"`
	Deleted       int64  `json:"deleted"`
	DryRun        bool   `json:"dry_run"`
	ToRemaining   *int64 `json:"to_remaining,omitempty"`
	Adjusted      int64  `json:"adjusted,omitempty"`
	Backup        string `json:"backup,omitempty"`
	Undo          string `json:"undo,omitempty"` // the command that brings it back
}

func runReset(ctx context.Context, o *resetOptions) error {
	open := o.open
	if o.dryRun {
		open = o.openToRead
	}
	store, where, err := open()
	if err != nil {
		return err
	}
	defer store.Close()
	answer, err := o.reset(ctx, store, where)
	if answer == nil {
		return err
	}
	printErr := o.print(answer)
	if answer.Undo != "" && (!o.quiet || printErr != nil) {
		fmt.Fprintf(o.env.Err, "limitctl: undo with: %s\n", answer.Undo)
	}
	return errors.Join(err, printErr)
}

// reset finds the selected keys, asks, and deletes or adjusts them. Without an answer
// nothing was changed.
func (o *resetOptions) reset(ctx context.Context, store connect.Store, where string) (answer *resetAnswer, err error) {
	entry := &auditEntry{Store: where, Command: "reset", Selection: o.text}
	if o.toRemaining >= 0 {
		entry.Selection += fmt.Sprintf(" --to-remaining %d", o.toRemaining)
	}
	targets := &targets{toRemaining: o.toRemaining, dryRun: o.dryRun}
	if !o.noBackup && !o.dryRun {
		if targets.backup, err = o.createBackup(o.globalOptions, entry); err != nil {
			return nil, err
		}
		defer targets.backup.discard() // unless it is kept
	}
	o.query.Records = targets.backup != nil || o.toRemaining >= 0
	f, scanErr := o.scan(ctx, store, &o.selection, targets.add)
	if scanErr != nil && (targets.count == 0 || ctx.Err() != nil || targets.refused) {
		return nil, nothingChanged(&f, scanErr)
	}
	answer = &resetAnswer{SchemaVersion: output.SchemaVersion, Matched: f.matched, DryRun: o.dryRun}
	if o.toRemaining >= 0 {
		answer.ToRemaining = &o.toRemaining
	}
	o.showTargets(targets, o.place(where), scanError(&f, scanErr))
	if o.dryRun || targets.count == 0 {
		return answer, o.outcome(&f, scanErr, nil)
	}
	audit, err := o.openAudit()
	if err != nil {
		return nil, err
	}
	defer audit.Close()
	question := "Delete " + output.Plural(targets.count, "key")
	if o.toRemaining >= 0 {
		question = fmt.Sprintf("Leave %d remaining of %s", o.toRemaining, output.Plural(targets.count, "key"))
	}
	if err := o.ask(ctx, o.globalOptions, question); err != nil {
		return nil, err
	}
	changes, err := o.change(ctx, store, targets)
	f.foreign.merge(&changes.foreign)
	if targets.backup != nil && changes.any(err) {
		entry.Backup, err = targets.backup.keep(err)
		answer.Backup, answer.Undo = entry.Backup, o.undoCommand(entry.Backup, o.toRemaining >= 0)
	}
	if answer.Deleted = changes.done; o.toRemaining >= 0 {
		answer.Deleted, answer.Adjusted = 0, changes.done
	}
	if err != nil {
		done := "done"
		if errors.Is(err, limiter.ErrOutcomeUnknown) {
			done = "known to be done"
		}
		err = &progressError{err, fmt.Sprintf("%d of %s %s", changes.done, output.Plural(targets.count, "key"), done)}
		if changes.done > 0 {
			err = &partlyError{err}
		}
	}
	entry.Matched, entry.Changed = f.matched, changes.done
	return answer, o.record(ctx, audit, entry, o.outcome(&f, scanErr, err))
}

// nothingChanged says of the error of a scan that nothing came after it.
func nothingChanged(f *found, err error) error {
	if f.looked == 0 {
		return &progressError{err, "nothing was changed"}
	}
	return &progressError{err, fmt.Sprintf("%d of about %d keys looked at, nothing was changed", f.looked, f.total)}
}

// outcome is the error that a reset ends with: that of the change, of the scan
// before it, or of the foreign values it met.
func (o *resetOptions) outcome(f *found, scanErr, changeErr error) error {
	switch {
	case changeErr != nil:
		return changeErr
	case scanErr != nil:
		return &partlyError{scanError(f, scanErr)}
	}
	return f.foreign.err(f.matched > 0)
}

// targets are the keys that a reset is about. They are listed in its backup, so that
// there may be any number, and in memory only if there is none.
type targets struct {
	toRemaining int64
	dryRun      bool // they are only counted
	count       int
	backup      *backupFile
	held        []limiter.Record
	sample      []string
	names       map[string]int // how many keys have each name
	refused     bool           // what is asked for cannot be
}

// shown is how many of the matching keys, and of their names, are shown.
const shown = 5

func (t *targets) add(e *limiter.Entry, _ error) error {
	if capacity := e.Limit.Capacity(); t.toRemaining > capacity {
		t.refused = true
		return usagef("--to-remaining %d is more than limit %s of key %q holds; give at most %d, or select fewer keys",
			t.toRemaining, e.Limit, e.StoreKey, capacity)
	}
	switch {
	case t.dryRun:
	case t.backup != nil:
		if err := t.backup.write(false, e.Record); err != nil {
			t.refused = true
			return err
		}
	default:
		t.held = append(t.held, limiter.Record{Key: e.Key, Value: e.Record.Value})
	}
	t.count++
	if len(t.sample) < shown {
		t.sample = append(t.sample, fmt.Sprintf("%s  %s used", output.Printable(e.StoreKey), usedText(e)))
	}
	if t.names == nil {
		t.names = map[string]int{}
	}
	t.names[limitName(e.Key)]++
	return nil
}

// each calls do with the targets, so many at a time.
func (t *targets) each(size int, do func([]limiter.Record) error) error {
	if t.backup != nil {
		return t.backup.each(size, do)
	}
	for batch := range slices.Chunk(t.held, size) {
		if err := do(batch); err != nil {
			return err
		}
	}
	return nil
}

func (o *resetOptions) showTargets(t *targets, where string, incomplete error) {
	if o.quiet && (o.consented(o.globalOptions) || o.dryRun) { // who is asked is shown what about
		return
	}
	if t.count == 0 {
		o.note("nothing in use matches %s in %s", o.text, where)
		return
	}
	verb := "match"
	if t.count == 1 {
		verb = "matches"
	}
	o.say("%s %s %s in %s:", output.Plural(t.count, "key"), verb, o.text, where)
	for _, line := range t.sample {
		o.say("  %s", line)
	}
	if more := t.count - shown; more > 0 {
		fmt.Fprintf(o.env.Err, "  … and %d more\n", more)
		t.showNames(o)
	}
	if incomplete != nil {
		fmt.Fprintf(o.env.Err, "limitctl: warning: not all keys could be looked at: %s\n", message(incomplete))
	}
}

// showNames says how the keys divide into limits, so that one sees at once if a
// selection goes too far.
func (t *targets) showNames(o *resetOptions) {
	names := make([]string, 0, len(t.names))
	for name := range t.names {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(t.names[b]-t.names[a], cmp.Compare(a, b)) })
	fmt.Fprintf(o.env.Err, "by limit:")
	for i, name := range names[:min(shown, len(names))] {
		if i > 0 {
			fmt.Fprint(o.env.Err, ",")
		}
		fmt.Fprintf(o.env.Err, " %s %d", output.Printable(name), t.names[name])
	}
	if more := len(names) - shown; more > 0 {
		fmt.Fprintf(o.env.Err, ", and %d other limits", more)
	}
	fmt.Fprintln(o.env.Err)
}

// changes is what a reset came to.
type changes struct {
	tried   bool // the store was asked for some
	done    int64
	foreign foreignKeys
}

// any reports whether something may be changed, after the error that ended it: not
// if the store was never asked, or not reached.
func (c *changes) any(err error) bool {
	neverReached := limiter.IsAway(err) && !errors.Is(err, limiter.ErrOutcomeUnknown)
	return c.done > 0 || c.tried && !neverReached
}

// keysPerBatch is how many keys are changed between two looks at whether the
// command was interrupted. What has begun is finished, so that the count is right.
const keysPerBatch = 500

// change deletes or adjusts the targets, a batch at a time. done counts what is
// changed for sure.
func (o *resetOptions) change(ctx context.Context, store connect.Store, t *targets) (c changes, err error) {
	bar := o.progress("resetting", "")
	defer bar.Close()
	tried := 0
	err = t.each(keysPerBatch, func(records []limiter.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.tried = true
		if err := o.changeBatch(ctx, store, t, records, &c); err != nil {
			return err
		}
		tried += len(records)
		bar.Set(int64(tried), int64(t.count), 0)
		return nil
	})
	return c, err
}

func (o *resetOptions) changeBatch(ctx context.Context, store connect.Store, t *targets, records []limiter.Record, c *changes) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.timeout)
	defer cancel()
	if t.toRemaining >= 0 {
		reqs := make([]limiter.Request, len(records))
		for i := range records {
			limit, err := limiter.DecodeRecordLimit(records[i].Value)
			if err != nil {
				return err
			}
			reqs[i] = limiter.Request{Key: records[i].Key, Limit: limit, Cost: limit.Capacity() - t.toRemaining}
		}
		adjusted, err := adjust(ctx, store, reqs)
		c.done += int64(adjusted)
		return c.foreign.take(err)
	}
	deleted, late, err := store.Delete(ctx, records...)
	c.done += int64(deleted)
	// A record that was damaged since cannot be brought back, and a backup with it could
	// not be restored at all. What it was before is in there.
	late = slices.DeleteFunc(late, func(r limiter.Record) bool { return r.Check() != nil })
	if t.backup != nil && len(late) > 0 {
		if err := t.backup.write(true, late...); err != nil {
			return err
		}
	}
	return c.foreign.take(err)
}

// Document implements output.Answer.
func (a *resetAnswer) Document() any { return a }

// Lines implements output.Answer.
func (a *resetAnswer) Lines() []any { return []any{a} }

// Records implements output.Answer.
func (a *resetAnswer) Records() [][]string {
	return [][]string{{"matched", "deleted", "dry_run", "adjusted", "backup"},
		{number(a.Matched), number(a.Deleted), fmt.Sprint(a.DryRun), number(a.Adjusted), a.Backup}}
}

// Print implements output.Answer.
func (a *resetAnswer) Print(p *output.Printer) {
	keys := func(n int64) string { return output.Plural(int(n), "key") }
	switch {
	case a.ToRemaining != nil && a.DryRun:
		fmt.Fprintf(p.Out, "would leave %d remaining of %s (dry run)\n", *a.ToRemaining, keys(a.Matched))
	case a.ToRemaining != nil:
		fmt.Fprintf(p.Out, "left %d remaining of %s\n", *a.ToRemaining, keys(a.Adjusted))
	case a.DryRun:
		fmt.Fprintf(p.Out, "would delete %s (dry run)\n", keys(a.Matched))
	default:
		fmt.Fprintf(p.Out, "deleted %s\n", keys(a.Deleted))
	}
}
