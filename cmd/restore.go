package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
)

type restoreOptions struct {
	*globalOptions
	consentOptions
	replace bool
	dryRun  bool
}

func newRestoreCmd(global *globalOptions) *cobra.Command {
	o := &restoreOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Bring back what a reset deleted",
		Long: `Restore brings back every record of a backup that reset wrote, with its original
expiry. Keys that would have expired by now are not restored. A key that has
been used since is left as it is. With --replace it is overwritten; restore then
asks first, and without a terminal it needs --yes. In a protected context it
asks for the context's name, or takes it from --confirm.`,
		Example: `  limitctl restore backup.jsonl --dry-run
  limitctl restore backup.jsonl
  limitctl restore backup.jsonl --replace --yes`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("restore takes one FILE, the backup that a reset wrote; `limitctl audit` shows where they are")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRestore(cmd.Context(), o, args[0])
		},
	}
	o.addConsentFlags(cmd)
	cmd.Flags().BoolVar(&o.replace, "replace", false, "bring back keys that have been used since, too, over what they hold now")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "read the backup through and show what it holds, and change nothing")
	return cmd
}

// restoreAnswer is what a restore did.
type restoreAnswer struct {
	SchemaVersion int   `json:"schema_version"`
	InBackup      int   `json:"records"`
	Restored      int64 `json:"restored"`
	Lapsed        int64 `json:"lapsed"`  // nothing of them would be in use by now
	InUse         int64 `json:"in_use"`  // used since, and left
	Foreign       int64 `json:"foreign"` // hold what limitctl did not write, and left
	DryRun        bool  `json:"dry_run"`
}

func runRestore(ctx context.Context, o *restoreOptions, path string) error {
	s, err := o.settings()
	if err != nil {
		return err
	}
	plan := &operation.RestorePlan{Replace: o.replace, Consent: o.given()}
	asks := !o.dryRun && plan.MustAsk(s.access())
	if asks || !o.dryRun && (o.confirm != "" || s.access().ReadOnly) {
		if err := o.check(s.access(), o.env.InIsTerminal, "restore", "overwrites", ""); err != nil {
			return err
		}
	}
	files := o.operationFiles()
	if plan.Backup, err = operation.OpenBackup(&files, path, s.prefix.value); err != nil {
		return withPrefixHint(err)
	}
	defer plan.Backup.Close()
	store, where, err := o.open()
	if err != nil {
		return err
	}
	defer store.Close()
	if !o.quiet || asks && !plan.Consent.Covers(s.access()) {
		o.showBackup(plan.Backup, s.place(where))
	}
	o.warnOfBackup(plan.Backup, where)
	answer := &restoreAnswer{SchemaVersion: output.SchemaVersion, InBackup: plan.Backup.Records, DryRun: o.dryRun}
	if o.dryRun {
		return errors.Join(plan.Backup.DamageError(), o.print(answer))
	}
	result, err := o.runner(s, store, where).Restore(ctx, plan, &observer{global: o.globalOptions})
	if result == nil {
		return err
	}
	answer.Restored, answer.Lapsed, answer.InUse, answer.Foreign = result.Restored, result.Lapsed, result.InUse, result.Foreign
	return errors.Join(withReplaceHint(err), o.print(answer))
}

// showBackup shows what is about to be restored, and where.
func (o *restoreOptions) showBackup(b *operation.Backup, place string) {
	o.say("%s of %s (%s %s at %s), into %s", output.Plural(b.Records, "record"), output.Printable(b.Store), // the file may be anybody's
		output.Printable(b.Command), output.Printable(b.Selection), b.Time.UTC().Format("2006-01-02 15:04:05 MST"), place)
}

// warnOfBackup warns of a backup of another store, and of lines that are left out.
func (o *restoreOptions) warnOfBackup(b *operation.Backup, where string) {
	if withoutLogin(b.Store) != withoutLogin(where) {
		o.note("warning: %s is of another store, %s, and this is %s", b.Path, output.Printable(b.Store), where)
	}
	if b.Torn {
		o.note("warning: the last line of %s is not whole and is left out; its writer was stopped in the middle", b.Path)
	}
	for _, damage := range b.Damage {
		fmt.Fprintf(o.env.Err, "limitctl: warning: %s: %s; the line is left out\n", b.Path, message(damage))
	}
}

// withoutLogin is the name of a store without the user that goes there.
func withoutLogin(where string) string {
	scheme, rest, _ := strings.Cut(where, "://")
	return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
}

// withPrefixHint adds to the error of a backup of another prefix which flag helps.
func withPrefixHint(err error) error {
	var other *operation.PrefixError
	if errors.As(err, &other) {
		return usagef("%s; give %s", other, shell.Command("--prefix", other.Backup))
	}
	return err
}

// withReplaceHint adds to the error about keys that were left which flag helps.
func withReplaceHint(err error) error {
	var left *operation.UsedSinceError
	if errors.As(err, &left) {
		return fmt.Errorf("%w; --replace brings them back, too", err)
	}
	return err
}

// Document implements output.Answer.
func (a *restoreAnswer) Document() any { return a }

// Lines implements output.Answer.
func (a *restoreAnswer) Lines() []any { return []any{a} }

// Records implements output.Answer.
func (a *restoreAnswer) Records() [][]string {
	return [][]string{{"records", "restored", "lapsed", "in_use", "foreign", "dry_run"},
		{fmt.Sprint(a.InBackup), number(a.Restored), number(a.Lapsed), number(a.InUse), number(a.Foreign), fmt.Sprint(a.DryRun)}}
}

// Print implements output.Answer.
func (a *restoreAnswer) Print(p *output.Printer) {
	if a.DryRun {
		fmt.Fprintf(p.Out, "would restore up to %s (dry run)\n", output.Plural(a.InBackup, "key"))
		return
	}
	text := "restored " + output.Plural(int(a.Restored), "key")
	for _, other := range []struct {
		n    int64
		what string
	}{{a.Lapsed, "lapsed meanwhile"}, {a.InUse, "used since and left"}, {a.Foreign, "foreign and left"}} {
		if other.n > 0 {
			text += fmt.Sprintf(", %d %s", other.n, other.what)
		}
	}
	fmt.Fprintln(p.Out, text)
}
