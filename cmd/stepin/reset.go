package stepin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type resetOptions struct {
	*cli.Globals
	cli.SelectionOptions
	cli.ConsentOptions
	dryRun      bool
	toRemaining int64
	backup      string
	noBackup    bool
}

// NewResetCmd makes limitctl reset.
func NewResetCmd(global *cli.Globals) *cobra.Command {
	o := &resetOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "reset PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "Delete matching keys, so that none of their units are in use",
		Long: `Reset makes every limit whose subject matches PATTERN unused. It first shows how
many keys match, and asks; without a terminal it needs --yes, and in a protected
context --confirm. What it changes it first writes to a backup, and it prints
the command that brings it back.

The limit of --to-remaining is that of the configuration in force, else that of
the last charge.

If not all keys can be read, it changes nothing. With --layout it deletes all
keys of a limit together, and says what that does not reach, such as a cache in
the limiter's processes.

` + cli.SelectionHelp,
		Example: `  limitctl reset user:42
  limitctl reset 'tenant:acme:*' --dry-run
  limitctl reset 'tenant:acme:*' --yes
  limitctl reset --policy api tenant=acme --yes
  limitctl reset user:42 --to-remaining 100 --yes
  limitctl reset 203.0.113.9 --layout auto --dry-run`,
		Args: o.Arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := o.plan(cmd, args)
			if err != nil {
				return err
			}
			return runReset(cmd.Context(), o, plan)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.AddSelectionFlags(cmd, global)
	cli.GroupFlags(cmd, "Keys of another rate limiter", o.AddLayoutFlags)
	cli.GroupFlags(cmd, "Consent and backup", o.AddConsentFlags)
	cli.GroupFlags(cmd, "Consent and backup", func(cmd *cobra.Command) {
		cmd.Flags().StringVar(&o.backup, "backup", "",
			"write the backup to a new `FILE` (default in the state directory)")
		cmd.Flags().BoolVar(&o.noBackup, "no-backup", false, "write no backup; deleted keys cannot be restored")
		cmd.MarkFlagFilename("backup")
	})
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be changed and change nothing")
	cli.NumberFlag(cmd.Flags(), &o.toRemaining, "to-remaining", "", 0,
		"instead of deleting, leave exactly `N` units of each limit")
	return cmd
}

// plan turns the flags and arguments into what is to be done.
func (o *resetOptions) plan(cmd *cobra.Command, args []string) (plan *operation.ResetPlan, err error) {
	plan = &operation.ResetPlan{DryRun: o.dryRun, Consent: o.Given()}
	if cmd.Flags().Changed("to-remaining") {
		plan.Remaining = &operation.Remaining{Units: o.toRemaining}
	}
	if o.backup == "-" {
		return nil, cli.Usagef("--backup must be a file, which undo can read; give a path")
	}
	if o.noBackup && o.backup != "" {
		return nil, cli.Usagef("%s and --no-backup contradict each other; give one of them",
			shell.Command("--backup", o.backup))
	}
	if err := o.Use(o.Globals); err != nil {
		return nil, err
	}
	if !o.dryRun {
		err := mayChange(o.Globals, &o.ConsentOptions, "reset", "deletes", ", or --dry-run to look first")
		if err != nil {
			return nil, err
		}
	}
	if plan.Selection, err = o.Selected(cmd.Context(), o.Globals, args); err != nil {
		return nil, err
	}
	plan.Text = plan.Selection.Text
	if plan.Remaining != nil {
		c, err := o.InForce(cmd.Context())
		if err != nil || c.Doubt != nil {
			return nil, errors.Join(err, c.Doubt)
		}
		plan.Remaining.Configured = c.Configured()
		plan.Text += fmt.Sprintf(" --to-remaining %d", plan.Remaining.Units)
	}
	switch {
	case o.dryRun:
	case o.backup != "":
		plan.Backup = &operation.BackupPlan{Path: o.backup}
	case !o.noBackup:
		plan.Backup, err = cli.DefaultBackup(o.Env)
	}
	return plan, err
}

func runReset(ctx context.Context, o *resetOptions, plan *operation.ResetPlan) error {
	runner, s, err := openRunner(o.Globals, o.dryRun)
	if err != nil {
		return err
	}
	defer runner.Store.Close()
	if err := o.judge(ctx, runner, plan); err != nil {
		return err
	}
	watching := &cli.Observer{Global: o.Globals}
	if !o.Quiet || !o.dryRun && !plan.Consent.Covers(s.Access()) { // a question needs the list
		watching.Show = func(selected *operation.ResetResult) {
			o.showSelected(selected, &plan.Selection, s.Place(runner.Place.Store))
		}
	}
	result, err := runner.Reset(ctx, plan, watching)
	if result == nil {
		return err
	}
	answer := newResetAnswer(plan, result, err)
	if answer.Backup != "" {
		answer.Undo = cli.CommandHere(o.Globals, s, "undo", answer.Backup)
	}
	printErr := o.Print(answer)
	if answer.Undo != "" && (!o.Quiet || printErr != nil) {
		line := answer.Undo
		// Undo shows the last change and asks first, in case there is a later one, as after a second run for the rest.
		if plan.Backup.MakeDir && err == nil {
			line = cli.CommandHere(o.Globals, s, "undo")
		}
		o.Note("undo with: %s", line)
	}
	if result.Damaged > 0 && !o.Quiet {
		o.Note("%s with a damaged record, which no backup keeps", output.Count(int(result.Damaged), "key"))
	}
	if !o.Quiet {
		o.NoteUnsure(&result.Unsure, "left")
	}
	if err == nil && result.Matched == 0 && result.Unsure.Count == 0 && !o.Quiet {
		cli.SayNothingMatches(o.Globals, &plan.Selection, runner.Place.Store)
	}
	return errors.Join(err, printErr)
}

// judge makes --at-limit and --min-used, and what is shown, go by the limits and overrides in force, as inspect does.
func (o *resetOptions) judge(ctx context.Context, runner *operation.Runner, plan *operation.ResetPlan) error {
	if o.Layouts != nil {
		return nil
	}
	c, err := o.InForce(ctx)
	if err != nil {
		return outcome.WithProgress(err, "nothing was changed")
	}
	overrides, err := runner.Overrides(ctx)
	if err != nil && (plan.Selection.Keep != nil || plan.Remaining != nil) { // else other keys or units would be meant
		return outcome.WithProgress(err, "nothing was changed")
	}
	list := store.NewOverrideList(overrides)
	if plan.Remaining != nil {
		plan.Remaining.Overrides = list
	}
	judged := c.Judging(plan.Selection, list)
	if plan.Selection.Query.InForce = judged.Query.InForce; plan.Selection.Keep != nil {
		plan.Selection.Keep = judged.Keep
	}
	return nil
}

// showSelected shows what a reset is about to change in a place.
func (o *resetOptions) showSelected(s *operation.ResetResult, selection *operation.Selection, place string) {
	if s.Matched == 0 {
		return
	}
	o.Say("%s in %s:", output.Count(int(s.Matched), "key matches "+selection.Text, "keys match "+selection.Text),
		place)
	for i := range s.Sample {
		e := &s.Sample[i]
		storeKeys := []string{e.StoreKey}
		if several := decision.SeveralStoreKeys(e); several != nil {
			storeKeys = several
		}
		for i, key := range storeKeys {
			storeKeys[i] = output.Printable(output.Shorten(key, 2*cli.LongestKey))
		}
		o.Say("  %s  %s used", strings.Join(storeKeys, " + "), cli.UsedText(e))
	}
	if more := s.Matched - int64(len(s.Sample)); more > 0 {
		fmt.Fprintf(o.Env.Err, "  … and %s more\n", output.Thousands(more))
		showShares(o.Globals, "limit", s.Limits)
	}
	if len(s.Values) > 1 {
		showShares(o.Globals, s.By, s.Values)
	}
	if o.Layouts == nil && !selection.OfPolicy {
		noteLeft(o.Globals, selection.Query.Subjects)
	}
	if s.Remaining != nil {
		o.Say("%s", s.Effect.String())
	}
	for _, name := range s.Layouts {
		if beyond := cli.BeyondOf(name); beyond != "" {
			o.Say("%s: %s", name, beyond)
		}
	}
}

// shownShares is how many limits or values of a reset are shown at most.
const shownShares = 5

// showShares shows how the keys divide into limits, or into the values of an attribute.
func showShares(g *cli.Globals, by string, shares []operation.Share) {
	var parts []string
	for _, share := range shares[:min(shownShares, len(shares))] {
		parts = append(parts, output.Printable(share.Name)+" "+output.Thousands(int64(share.Keys)))
	}
	if more := len(shares) - shownShares; more > 0 {
		parts = append(parts, "and "+output.Thousands(int64(more))+" more")
	}
	g.Say("by %s: %s", output.Printable(by), strings.Join(parts, ", "))
}

// noteLeft says that a pattern such as tenant:acme:* does not match tenant:acme, whose own limits may be meant, too.
func noteLeft(g *cli.Globals, subjects store.Pattern) {
	subject, below := strings.CutSuffix(subjects.String(), ":*")
	if _, is := policy.ParseSubject(subject); below && is && !strings.ContainsAny(subject, `*?[\`) && subject != "" {
		g.Note("%s does not match %s", shell.Command(subjects.String()), shell.Command(subject))
	}
}

// resetAnswer is what a reset did.
type resetAnswer struct {
	SchemaVersion int   `json:"schema_version"`
	Matched       int64 `json:"matched"`
	// Changed counts keys that were deleted, or adjusted to something else, for sure.
	Changed int64 `json:"changed"`
	// Left counts keys that are as they were: not reached, gone before, foreign, or with the units already.
	Left int64 `json:"left"`
	// Unknown is the most keys whose outcome is unknown.
	Unknown int64 `json:"unknown"`
	DryRun  bool  `json:"dry_run"`
	// Complete: the scan saw all keys, and all that matched were handled.
	Complete    bool   `json:"complete"`
	ToRemaining *int64 `json:"to_remaining,omitempty"`
	// Gained and Lost count keys that gained and lost units, in a dry run as they would.
	Gained *int64 `json:"gained,omitempty"`
	Lost   *int64 `json:"lost,omitempty"`
	Backup string `json:"backup,omitempty"`
	Undo   string `json:"undo,omitempty"` // the command that undoes it
	// Layouts are those of other limiters whose keys matched, and Unsure are keys that look like another limiter's and
	// were left.
	Layouts []string          `json:"layouts,omitempty"`
	Unsure  *operation.Unsure `json:"unsure,omitempty"`
	result  *operation.ResetResult
}

// newResetAnswer is the answer for the result of a plan, which ended with err.
func newResetAnswer(plan *operation.ResetPlan, result *operation.ResetResult, err error) *resetAnswer {
	a := &resetAnswer{SchemaVersion: output.SchemaVersion, Matched: result.Matched, Changed: result.Changed,
		Unknown: result.Unknown, DryRun: plan.DryRun, Complete: err == nil, Backup: result.Backup,
		Layouts: result.Layouts, result: result}
	if !plan.DryRun {
		a.Left = result.Left()
	}
	if result.Unsure.Count > 0 {
		a.Unsure = &result.Unsure
	}
	if plan.Remaining != nil {
		a.ToRemaining, a.Gained, a.Lost = &plan.Remaining.Units, &result.Effect.Gain, &result.Effect.Lose
	}
	return a
}

// Print implements output.Answer.
func (a *resetAnswer) Print(p *output.Printer) {
	keys := func(n int64) string { return output.Count(int(n), "key") }
	remaining, effect, text := a.result.Remaining, &a.result.Effect, "deleted "+keys(a.Changed)
	switch {
	case remaining != nil && a.DryRun:
		text = fmt.Sprintf("would leave %d remaining of %s (dry run)", remaining.Units, keys(a.Matched))
	case remaining != nil:
		text = fmt.Sprintf("left %d remaining of %s", remaining.Units, keys(effect.Gain+effect.Lose+effect.Stay))
	case a.DryRun:
		text = fmt.Sprintf("would delete %s (dry run)", keys(a.Matched))
	}
	if words := effect.String(); remaining != nil && words != "" {
		text += ": " + words
	}
	p.Line("%s", text)
}
