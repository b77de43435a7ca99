package stepin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type undoOptions struct {
	*cli.Globals
	cli.ConsentOptions
	replace bool
	dryRun  bool
	list    bool
	prune   string
}

// NewUndoCmd makes limitctl undo.
func NewUndoCmd(global *cli.Globals) *cobra.Command {
	o := &undoOptions{Globals: global}
	cmd := &cobra.Command{
		Use:     "undo [RUN|FILE]",
		Aliases: []string{"restore"},
		Short:   "Bring back what a reset changed, list backups, and remove old ones",
		Long: `Undo brings back what the last reset in this store changed, if this user made it
on this machine. RUN undoes an earlier run, and FILE is a backup, both as --list
-o json has them. It shows what it will do and asks; without a terminal it needs
--yes, and in a protected context --confirm.

Keys get the expiry they had. Keys that would have expired stay away, and keys
that were used since are kept unless --replace is given; after a reset
--to-remaining they are always overwritten. Damaged lines are left out (exit
code 5). While the reset still runs there is no undo.

A backup goes back into the store that it came from, and only with --store into
another. Backups are in limitctl/backups in the state directory. Nothing removes
them but --prune, which keeps the newest of each store and what has not ended.`,
		Example: `  limitctl undo --dry-run
  limitctl undo
  limitctl undo 20261122T031405.120Z-4711.jsonl
  limitctl undo --context prod --confirm prod
  limitctl undo --list
  limitctl undo --prune 90d`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return cli.Usagef("%s given, and undo takes one RUN or FILE", cli.Several(args))
			case o.list && (len(args) > 0 || o.prune != "") || o.prune != "" && len(args) > 0:
				return cli.Usagef("--list and --prune each stand alone")
			}
			if o.list || o.prune != "" { // of this machine, whatever store they are of
				for _, flag := range []string{"store", "context", "prefix", "replace", "confirm", "reason"} {
					if cmd.Flags().Changed(flag) {
						return cli.Usagef("--%s is not for --list and --prune", flag)
					}
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.list:
				return runList(cmd.Context(), o)
			case cmd.Flags().Changed("prune"):
				return runPrune(cmd.Context(), o)
			}
			return (&undoing{undoOptions: o, plan: &operation.RestorePlan{Replace: o.replace, Consent: o.Given()}}).run(
				cmd.Context(), args)
		},
	}
	o.AddConsentFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.replace, "replace", false, "also bring back keys that were used since, and overwrite them")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would be undone, or removed, and change nothing")
	flags.BoolVar(&o.list, "list", false, "list the backups, the newest first")
	flags.StringVar(&o.prune, "prune", "", "remove backups that are older than `DURATION`, such as 90d")
	return cmd
}

// undoing is the undo of one change.
type undoing struct {
	*undoOptions
	plan   *operation.RestorePlan
	runs   []*auditlog.Entry // of this machine
	folder *backup.Folder    // where it keeps backups
	s      *cli.Settings
	runner *operation.Runner
}

func (u *undoing) run(ctx context.Context, args []string) error {
	if err := u.open(); err != nil {
		return err
	}
	defer func() { u.runner.Store.Close() }()
	path, err := u.choose(ctx, args)
	if err != nil {
		return err
	}
	if !u.dryRun && files.IsBeingWritten(path) { // what it deletes after this would stay deleted
		process := "" // of the names that limitctl chooses
		if filepath.Dir(path) == u.folder.Path {
			process = " (pid " + strings.TrimSuffix(path[strings.LastIndex(path, "-")+1:], ".jsonl") + ")"
		}
		return cli.Usagef("the change that keeps %s still runs%s; wait for its end, or end it",
			output.Printable(path), process)
	}
	if u.plan.Backup, err = operation.OpenBackup(path, u.s.Prefix); err != nil {
		return err
	}
	b := u.plan.Backup
	defer b.Close()
	if b.Layout != "" {
		u.Layouts, u.LayoutsName = layouts.Sources{}, b.Layout // the records name their keys
		if err := u.open(); err != nil {
			return err
		}
	} else if err := u.consent(u.s); err != nil {
		return err
	}
	if err := u.checkOrigin(ctx); err != nil {
		return err
	}
	asks := !u.dryRun && !u.plan.Consent.Covers(u.s.Access())
	if asks || !u.Quiet {
		by := "" // another user of this account
		for _, e := range u.runs {
			if e.Backup == path && e.User != u.runner.User {
				by = " by " + output.Printable(e.User)
			}
		}
		u.Say("%s of %s (%s %s begun at %s%s), into %s", output.Count(b.Records, "record"), output.Printable(b.Store),
			output.Printable(b.Command), output.Printable(b.Selection), clockTime(b.Time), by,
			u.s.Place(u.runner.Place.Store))
		for _, damage := range b.Damage {
			u.Note("warning: %s: %s; the line is left out", b.Path, output.Printable(cli.Message(damage)))
		}
	}
	answer := &undoAnswer{SchemaVersion: output.SchemaVersion, InBackup: b.Records, DryRun: u.dryRun, Backup: path}
	if u.dryRun || asks && b.Layout != "" {
		if answer.FirstStoreKeys, answer.StoreKeys, err = b.StoreKeys(shownKeys); err != nil {
			return err
		}
	}
	if u.dryRun {
		return errors.Join(b.DamageError(), u.Print(answer))
	}
	answer.printKeys(&output.Printer{Out: u.Env.Err})
	answer.FirstStoreKeys, answer.StoreKeys = nil, 0
	result, err := u.runner.Restore(ctx, u.plan, &cli.Observer{Global: u.Globals})
	if left := (*operation.UsedSinceError)(nil); errors.As(err, &left) {
		err = fmt.Errorf("%w; --replace brings back what the backup has of them, and forgets what was used since", err)
	}
	if result == nil {
		return err
	}
	answer.Restored, answer.Already, answer.Lapsed = result.Changed, result.Already, result.Lapsed
	answer.InUse, answer.Unreached, answer.Failed = result.InUse, result.Unreached, result.Failed
	return errors.Join(err, u.Print(answer))
}

// open finds and opens the store, and reports what forbids an undo there. More contexts can protect the keys of other
// limiters.
func (u *undoing) open() (err error) {
	settings, open := u.SettingsToChange, u.Open
	if u.dryRun {
		settings, open = u.Settings, u.OpenToRead
	}
	s, err := settings()
	if err != nil {
		return err
	}
	if u.plan.Backup != nil || u.Confirm == "" || s.Access().Context != "" { // else --confirm may name one of these
		if err := u.consent(s); err != nil {
			return err
		}
	}
	backend, where, err := open()
	if err != nil {
		return err
	}
	if u.runner != nil {
		u.runner.Store.Close()
	}
	u.s, u.runner = s, cli.NewRunner(u.Globals, s, backend, where)
	return nil
}

func (u *undoing) consent(s *cli.Settings) error {
	if u.dryRun {
		return nil
	}
	return u.Check(s.Access(), u.Env.InIsTerminal, "undo", "restores", "")
}

// choose returns the path of the backup to restore.
func (u *undoing) choose(ctx context.Context, args []string) (path string, err error) {
	history, err := cli.ReadJournal(ctx, u.Globals, nil, true, auditlog.Query{})
	if err == nil {
		u.runs = history.Runs
	}
	u.folder, _ = cli.BackupFolder(u.Globals)
	switch {
	case len(args) == 0 && err != nil:
		return "", err
	case len(args) == 0:
		return u.lastBackup(ctx)
	}
	name := args[0] // without the audit log it can be a file all the same
	for _, e := range u.runs {
		if e.Run != name {
			continue
		}
		if e.Backup == "" {
			return "", fmt.Errorf("%w: %s kept no backup", cli.ErrNothing, describeRun(e))
		}
		if _, err := e.BackupOf(); err != nil {
			return "", cli.Usagef("%s; that of %s is gone", err, describeRun(e))
		}
		return e.Backup, nil
	}
	if path, found := u.folder.Find(name); found {
		return path, nil
	}
	return name, nil
}

// checkOrigin refuses a backup of another store, unless --store names the one to restore into.
func (u *undoing) checkOrigin(ctx context.Context) error {
	err := u.runner.CheckOrigin(ctx, u.plan.Backup)
	switch {
	case !errors.Is(err, store.ErrInvalid):
		return err
	case u.Changed("store"):
		u.plan.IntoOther = err
		return nil
	}
	return cli.Usagef("%s; to restore it here all the same, name this store with --store", err)
}

// lastBackup returns the backup of the last change in the store.
func (u *undoing) lastBackup(ctx context.Context) (path string, err error) {
	isOrigin, err := u.runner.IsOrigin(ctx)
	place, there := u.runner.Place, map[*auditlog.Entry]bool{}
	run, undoneBy := lastChange(u.runs, func(e *auditlog.Entry) bool {
		if e.Prefix != place.Prefix && e.Layout == "" {
			return false
		}
		header, _ := e.BackupOf()
		if there[e] = header != nil; header != nil {
			return isOrigin(header)
		}
		return withoutLogin(e.Store) == withoutLogin(place.Store)
	})
	switch {
	case run == nil && err != nil: // a wrong password, for example
		return "", err
	case run == nil:
		return "",
			fmt.Errorf("%w: the audit of this machine has no change of %s that kept a backup; `limitctl override "+
				"revoke ID` ends a block or another override", cli.ErrNothing, place.Store)
	case undoneBy != nil:
		return "",
			fmt.Errorf("%w: the last change, %s, was undone at %s; limitctl undo --list has the backups of earlier "+
				"ones", cli.ErrNothing, describeRun(run), clockTime(undoneBy.Time))
	case !there[run]:
		return "", cli.Usagef("the last change, %s, cannot be undone: its backup %s is not there any more, cannot be "+
			"read, or is of another run", describeRun(run), output.Printable(run.Backup))
	}
	return run.Backup, nil
}

// describeRun names a run for people, with the time that the audit shows.
func describeRun(e *auditlog.Entry) string {
	word := "ended"
	if e.Outcome == auditlog.Begun {
		word = "begun"
	}
	return fmt.Sprintf("%s (%s at %s)", output.Printable(e.CommandText()), word, clockTime(e.Time))
}

// lastChange finds the last change with a backup among runs, which are in order of time, and the run that has already
// brought all of it back. Both may be nil. here reports whether a run was in this store.
func lastChange(runs []*auditlog.Entry, here func(*auditlog.Entry) bool) (last, undoneBy *auditlog.Entry) {
	for at, e := range slices.Backward(runs) {
		if e.Backup == "" || !e.MayHaveChanged() || !here(e) {
			continue
		}
		for _, later := range runs[at+1:] {
			if later.BringsBack() && later.Outcome == auditlog.Done && later.Selection == e.Backup && here(later) {
				undoneBy = later
			}
		}
		return e, undoneBy
	}
	return nil, nil
}

// withoutLogin is the name of a store without its user.
func withoutLogin(where string) string {
	scheme, rest, _ := strings.Cut(where, "://")
	return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
}

// undoAnswer is the answer of undo.
type undoAnswer struct {
	SchemaVersion int    `json:"schema_version"`
	InBackup      int    `json:"records"`
	Restored      int64  `json:"restored"`
	Already       int64  `json:"already_there"` // equal to the backup before
	Lapsed        int64  `json:"lapsed"`        // their usage has expired since
	InUse         int64  `json:"in_use"`        // used since, and left
	Unreached     int64  `json:"unreached"`     // the interrupted reset had not reached them, and they are left
	Failed        int64  `json:"failed"`        // cannot be restored, and left
	DryRun        bool   `json:"dry_run"`
	Backup        string `json:"backup"` // its path
	// FirstStoreKeys and StoreKeys are the first keys that a dry run found, and how many there are.
	FirstStoreKeys []string `json:"first_store_keys,omitempty"`
	StoreKeys      int      `json:"store_keys,omitempty"`
}

// shownKeys is how many keys a dry run names.
const shownKeys = 40

// Print implements output.Answer.
func (a *undoAnswer) Print(p *output.Printer) {
	if a.DryRun {
		p.Line("would restore up to %s (dry run)", output.Count(a.InBackup, "key"))
		a.printKeys(p)
		return
	}
	text := "restored " + output.Count(int(a.Restored), "key")
	for _, other := range []struct {
		n    int64
		what string
	}{{a.Already, "already there"}, {a.Lapsed, "expired meanwhile"}, {a.InUse, "used since and left"},
		{a.Unreached, "not reached by the reset and left"}, {a.Failed, "not fit to be restored and left"}} {
		if other.n > 0 {
			text += ", " + output.Thousands(other.n) + " " + other.what
		}
	}
	p.Line("%s", text)
}

func (a *undoAnswer) printKeys(p *output.Printer) {
	for _, storeKey := range a.FirstStoreKeys {
		p.Line("  %s", output.Printable(output.Shorten(storeKey, cli.LongestKey)))
	}
	if more := a.StoreKeys - len(a.FirstStoreKeys); more > 0 {
		p.Line("… and %s more", output.Count(more, "key"))
	}
}
