package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

type resetOptions struct {
	*globalOptions
	selectionOptions
	consentOptions
	backupOptions
	dryRun      bool
	toRemaining int64
}

func newResetCmd(global *globalOptions) *cobra.Command {
	o := &resetOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "reset PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "Delete matching keys, so that nothing of them is used",
		Long: `Reset makes every limit whose subject matches PATTERN unused. With
--to-remaining N it leaves exactly N units instead. It first shows how many keys
match and a few of them, and asks. Without a terminal it needs --yes. In a
protected context it asks for the context's name, or takes it from --confirm.

It first writes the keys that it is about to change to a backup, and prints the
command that brings them back. It also writes a line to the audit (see
limitctl audit).

` + selectionHelp,
		Example: `  limitctl reset user:42
  limitctl reset 'tenant:acme:*' --dry-run
  limitctl reset 'tenant:acme:*' --yes
  limitctl reset --policy api tenant=acme --yes
  limitctl reset --exact 'tenant:*' --yes
  limitctl reset user:42 --to-remaining 100 --yes`,
		Args: o.arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := o.plan(cmd, args)
			if err != nil {
				return err
			}
			return runReset(cmd.Context(), o, plan)
		},
		ValidArgsFunction: completer{global}.keyOrAttributes,
	}
	o.addSelectionFlags(cmd, global)
	o.addConsentFlags(cmd)
	o.addBackupFlags(cmd)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be changed and change nothing")
	cmd.Flags().Int64Var(&o.toRemaining, "to-remaining", 0, "instead of deleting, leave exactly `N` units remaining of each limit")
	return cmd
}

// plan turns the flags and arguments into what is to be done.
func (o *resetOptions) plan(cmd *cobra.Command, args []string) (plan *operation.ResetPlan, err error) {
	plan = &operation.ResetPlan{DryRun: o.dryRun, Consent: o.given()}
	if cmd.Flags().Changed("to-remaining") {
		if o.toRemaining < 0 {
			return nil, usagef("--to-remaining %d is negative; give the units to leave, from 0", o.toRemaining)
		}
		plan.Remaining = &o.toRemaining
	}
	if o.foreign {
		return nil, usagef("reset never touches values that limitctl did not write; see them with `limitctl inspect --foreign`")
	}
	if err := o.checkBackup(); err != nil {
		return nil, err
	}
	if plan.Selection, err = o.selected(o.globalOptions, args); err != nil {
		return nil, err
	}
	plan.Text = plan.Selection.Text
	if plan.Remaining != nil {
		plan.Text += fmt.Sprintf(" --to-remaining %d", *plan.Remaining)
	}
	if o.dryRun {
		return plan, nil
	}
	s, err := o.settingsToChange(cmd.Context())
	if err != nil {
		return nil, err
	}
	if err := o.check(s.access(), o.env.InIsTerminal, "reset", "deletes", ", or --dry-run to look first"); err != nil {
		return nil, err
	}
	plan.Backup, err = o.backupPlan(o.env)
	return plan, err
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

func runReset(ctx context.Context, o *resetOptions, plan *operation.ResetPlan) error {
	open := o.open
	if o.dryRun {
		open = o.openToRead
	}
	s, err := o.settings()
	if err != nil {
		return err
	}
	store, where, err := open()
	if err != nil {
		return err
	}
	defer store.Close()
	runner := o.runner(s, store, where)
	watching := &observer{global: o.globalOptions}
	if !o.quiet || !o.dryRun && !plan.Consent.Covers(s.access()) { // who is asked is shown what about
		watching.show = func(selected *operation.Selected) { o.showSelected(selected, plan.Selection.Text, s.place(where)) }
	}
	result, err := runner.Reset(ctx, plan, watching)
	if result == nil {
		return o.withHint(err)
	}
	answer := &resetAnswer{SchemaVersion: output.SchemaVersion, Matched: result.Matched, Deleted: result.Changed, DryRun: o.dryRun,
		ToRemaining: plan.Remaining}
	if plan.Remaining != nil {
		answer.Deleted, answer.Adjusted = 0, result.Changed
	}
	if result.Undo != nil {
		answer.Backup, answer.Undo = result.Undo.Backup, o.restoreCommand(s, *result.Undo)
	}
	printErr := o.print(answer)
	if answer.Undo != "" && (!o.quiet || printErr != nil) {
		fmt.Fprintf(o.env.Err, "limitctl: undo with: %s\n", o.undoLine(s, *result.Undo))
	}
	return errors.Join(err, printErr)
}

// showSelected shows what a reset is about to change; selection and place are words.
func (o *resetOptions) showSelected(s *operation.Selected, selection, place string) {
	if s.Count == 0 {
		o.note("nothing in use matches %s in %s", selection, place)
		return
	}
	verb := "match"
	if s.Count == 1 {
		verb = "matches"
	}
	o.say("%s %s %s in %s:", output.Plural(s.Count, "key"), verb, selection, place)
	for i := range s.Sample {
		e := &s.Sample[i]
		o.say("  %s  %s used", output.Printable(e.StoreKey), usedText(e))
	}
	if more := s.Count - len(s.Sample); more > 0 {
		fmt.Fprintf(o.env.Err, "  … and %d more\n", more)
		o.showLimits(s.Limits)
	}
	if s.Incomplete != nil {
		fmt.Fprintf(o.env.Err, "limitctl: warning: not all keys could be looked at: %s\n", message(s.Incomplete))
	}
}

// shownLimits is how many limits are shown of those that a reset is about.
const shownLimits = 5

// showLimits shows how the keys divide into limits.
func (o *resetOptions) showLimits(limits []operation.LimitCount) {
	fmt.Fprintf(o.env.Err, "by limit:")
	for i, limit := range limits[:min(shownLimits, len(limits))] {
		if i > 0 {
			fmt.Fprint(o.env.Err, ",")
		}
		fmt.Fprintf(o.env.Err, " %s %d", output.Printable(limit.Name), limit.Keys)
	}
	if more := len(limits) - shownLimits; more > 0 {
		fmt.Fprintf(o.env.Err, ", and %d other limits", more)
	}
	fmt.Fprintln(o.env.Err)
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
