package cmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/backup"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/files"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter"
)

type restoreOptions struct {
	*globalOptions
	consent
	replace bool
	dryRun  bool
	path    string
	// only, if set, are the keys that are brought back, and left gets those that were
	// not, as they have been used since.
	only, left map[limiter.Key]bool
}

func newRestoreCmd(global *globalOptions) *cobra.Command {
	o := &restoreOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Bring back what a reset deleted",
		Long: `Restore brings back every record of a backup that reset wrote, with the TTL that
it would have by now; what would have lapsed meanwhile stays away. A key that
has been used since is left as it is, unless --replace is given: then it asks
first, and where it cannot ask it needs --yes. In a protected context it wants
the context's name, typed or as --confirm NAME.`,
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
			o.path = args[0]
			return runRestore(cmd.Context(), o)
		},
	}
	o.addFlags(cmd)
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

func runRestore(ctx context.Context, o *restoreOptions) error {
	if _, err := o.settings(); err != nil {
		return err
	}
	_, readOnly, protected := o.inUse()
	mustAsk := !o.dryRun && (o.replace || protected || o.confirm != "")
	if mustAsk || readOnly && !o.dryRun {
		if err := o.check(o.globalOptions, "restore", "overwrites", ""); err != nil {
			return err
		}
	}
	file, contents, err := o.readBackup()
	if err != nil {
		return err
	}
	defer file.Close()
	store, where, err := o.open()
	if err != nil {
		return err
	}
	defer store.Close()
	if !o.quiet || mustAsk && !o.consented(o.globalOptions) {
		// The file may be anybody's.
		o.say("%s of %s (%s %s at %s), into %s", output.Plural(contents.Records, "record"), output.Printable(contents.Store),
			output.Printable(contents.Command), output.Printable(contents.Selection), contents.Time.UTC().Format("2006-01-02 15:04:05 MST"), o.place(where))
	}
	if withoutLogin(contents.Store) != withoutLogin(where) {
		o.note("warning: %s is of another store, %s, and this is %s", o.path, output.Printable(contents.Store), where)
	}
	if contents.Torn {
		o.note("warning: the last line of %s is not whole and is left out; its writer was stopped in the middle", o.path)
	}
	for _, damage := range contents.Damage {
		fmt.Fprintf(o.env.Err, "limitctl: warning: %s: %s; the line is left out\n", o.path, message(damage))
	}
	if o.dryRun {
		answer := &restoreAnswer{SchemaVersion: output.SchemaVersion, InBackup: contents.Records, DryRun: true}
		return errors.Join(damageError(contents), o.print(answer))
	}
	answer, err := o.restore(ctx, store, where, file, contents, mustAsk)
	if answer == nil {
		return err
	}
	return errors.Join(err, o.print(answer))
}

// readBackup opens the backup and reads it through. The caller closes the file.
func (o *restoreOptions) readBackup() (files.File, *backup.Contents, error) {
	file, err := o.env.Open(o.path)
	if err != nil {
		return nil, nil, usagef("the backup cannot be read: %s", err)
	}
	contents, err := backup.Check(file)
	switch {
	case err != nil:
		err = usagef("%s: %s; nothing was restored", o.path, err)
	case contents.Records == 0 && contents.Damaged > 0:
		err = usagef("%s holds no record that can be read: %s; nothing was restored", o.path, message(contents.Damage[0]))
	case contents.Prefix != o.chosen.prefix.value:
		err = usagef("%s holds keys of the prefix %q, and the prefix here is %q; give %s", o.path, contents.Prefix, o.chosen.prefix.value,
			shell.Command("--prefix", contents.Prefix))
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, contents, nil
}

// restore brings back what a backup holds, asking first if it must. Without an answer
// nothing was changed.
func (o *restoreOptions) restore(ctx context.Context, store connect.Store, where string, file files.File, contents *backup.Contents,
	mustAsk bool) (*restoreAnswer, error) {
	audit, err := o.openAudit()
	if err != nil {
		return nil, err
	}
	defer audit.Close()
	if mustAsk {
		if err := o.ask(ctx, o.globalOptions, "Restore "+output.Plural(contents.Records, "key")); err != nil {
			return nil, err
		}
	}
	if _, err := file.Seek(0, 0); err != nil {
		return nil, usagef("the backup cannot be read again: %s", err)
	}
	answer := &restoreAnswer{SchemaVersion: output.SchemaVersion, InBackup: contents.Records}
	bar := o.progress("restoring", "")
	err = contents.Each(file, keysPerBatch, func(records []limiter.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if o.only != nil {
			records = slices.DeleteFunc(records, func(r limiter.Record) bool { return !o.only[r.Key] })
		}
		if len(records) == 0 {
			return nil
		}
		batch, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.timeout)
		defer cancel()
		outcomes, err := store.Import(batch, o.replace, records...)
		for i, outcome := range outcomes {
			answer.count(outcome)
			if o.left != nil && outcome == limiter.InUse {
				o.left[records[i].Key] = true
			}
		}
		if err != nil {
			return err
		}
		bar.Set(answer.Restored+answer.left(), int64(contents.Records), 0)
		return nil
	})
	bar.Close()
	absolute, absErr := filepath.Abs(o.path)
	if absErr != nil {
		absolute = o.path
	}
	entry := &auditEntry{Store: where, Command: "restore", Selection: absolute,
		Matched: int64(contents.Records), Changed: answer.Restored}
	if err = answer.err(err); err == nil {
		err = damageError(contents)
	}
	return answer, o.record(ctx, audit, entry, err)
}

// damageError says how many lines of a backup could not be brought back; nil if all could.
func damageError(contents *backup.Contents) error {
	if contents.Damaged == 0 {
		return nil
	}
	return &partlyError{fmt.Errorf("%s of the backup damaged: what they held was left out", output.Plural(contents.Damaged, "line"))}
}

// withoutLogin is the name of a store, whoever goes there.
func withoutLogin(where string) string {
	scheme, rest, _ := strings.Cut(where, "://")
	return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
}

func (a *restoreAnswer) count(outcome limiter.ImportOutcome) {
	switch outcome {
	case limiter.Imported:
		a.Restored++
	case limiter.Lapsed:
		a.Lapsed++
	case limiter.InUse:
		a.InUse++
	case limiter.Foreign:
		a.Foreign++
	}
}

func (a *restoreAnswer) left() int64 { return a.Lapsed + a.InUse + a.Foreign }

// err is the error a restore ends with: what ended it early, or that not all of it
// could be done.
func (a *restoreAnswer) err(err error) error {
	switch {
	case err != nil:
		done := "restored"
		if errors.Is(err, limiter.ErrOutcomeUnknown) {
			done = "known to be restored"
		}
		err = &progressError{err, fmt.Sprintf("%d of %s %s", a.Restored, output.Plural(a.InBackup, "record"), done)}
		if a.Restored+a.left() > 0 {
			return &partlyError{err}
		}
		return err
	case a.Foreign > 0:
		return &partlyError{fmt.Errorf("%s with values that limitctl did not write: left unchanged", output.Plural(int(a.Foreign), "key"))}
	case a.InUse > 0:
		return &partlyError{usedSinceError(a.InUse)}
	}
	return nil
}

// usedSinceError says how many keys were left, as they have been used since.
type usedSinceError int64

func (n usedSinceError) Error() string {
	return output.Plural(int(n), "key") + " used since: left unchanged; --replace brings them back, too"
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
