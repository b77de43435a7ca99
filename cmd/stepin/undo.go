package stepin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/cli"
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
			return (&undoing{undoOptions: o, plan: &operation.RestorePlan{Replace: o.replace, Consent: o.Given()}}).run(cmd.Context(), args)
		},
		ValidArgsFunction: cli.Offers(global).Backups,
	}
	o.AddConsentFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.replace, "replace", false, "also bring back keys that were used since, and overwrite them")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would be undone, or removed, and change nothing")
	flags.BoolVar(&o.list, "list", false, "list the backups, the newest first")
	flags.StringVar(&o.prune, "prune", "", "remove backups that are older than `DURATION`, such as 90d")
	cmd.RegisterFlagCompletionFunc("prune", cobra.FixedCompletions([]string{"30d", "90d", "365d"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// undoing is the undo of one change.
type undoing struct {
	*undoOptions
	plan *operation.RestorePlan
	runs []*auditlog.Entry // of this machine
	// backups are those of this machine.
	backups *backup.Folder
	// told: the run that made the backup was named already.
	told bool
}

func (u *undoing) run(ctx context.Context, args []string) error {
	s, err := u.settings()
	if err != nil {
		return err
	}
	u.OfAnyKeys = true // the backup names the layout
	open := u.Open
	if u.dryRun {
		open = u.OpenToRead
	}
	backend, where, err := open()
	if err != nil {
		return err
	}
	defer backend.Close()
	runner := cli.NewRunner(u.Globals, s, backend, where)
	path, err := u.choose(ctx, runner, args)
	if err != nil {
		return err
	}
	if !u.dryRun && u.Env.BeingWritten(path) { // what it deletes after this would stay deleted
		return cli.Usagef("the change that keeps %s still runs%s; wait for its end, or end it", output.Printable(path),
			u.processOf(path))
	}
	if u.plan.Backup, err = operation.OpenBackup(&runner.Files, path, s.Prefix.Value); err != nil {
		return err
	}
	b := u.plan.Backup
	defer b.Close()
	if _, maker := u.earlier(where); b.Torn && maker != nil && maker.Outcome != auditlog.Begun {
		b.Damaged++ // its last line was whole when the run ended
	}
	if b.Layout != "" {
		u.Layouts, u.LayoutsName = layouts.Sources{}, b.Layout // the records name their keys
	}
	if s, err = u.settings(); err != nil {
		return err
	}
	if b.Layout != "" {
		backend.Close()
		if backend, where, err = open(); err != nil {
			return err
		}
		defer backend.Close()
		runner = cli.NewRunner(u.Globals, s, backend, where)
	}
	if err := u.checkOrigin(ctx, runner); err != nil {
		return err
	}
	if asks := !u.dryRun && !u.plan.Consent.Covers(s.Access()); asks || !u.Quiet {
		if err := u.show(s.Place(where), asks); err != nil {
			return err
		}
	}
	answer := &undoAnswer{SchemaVersion: output.SchemaVersion, InBackup: b.Records, DryRun: u.dryRun, Backup: path}
	if u.dryRun {
		if answer.FirstStoreKeys, answer.StoreKeys, err = b.StoreKeys(shownKeys); err != nil {
			return err
		}
		answer.FirstStoreKeysBase64 = output.AllBase64IfNeeded(answer.FirstStoreKeys)
		return errors.Join(b.DamageError(), u.Print(answer))
	}
	result, err := runner.Restore(ctx, u.plan, &cli.Observer{Global: u.Globals})
	if err = u.withHint(err, where); result == nil {
		return err
	}
	answer.Restored, answer.Already, answer.Lapsed = result.Changed, result.Already, result.Lapsed
	answer.InUse, answer.Unreached, answer.Failed = result.InUse, result.Unreached, result.Failed
	return errors.Join(err, u.Print(answer))
}

// processOf names the process that writes a backup, in parentheses. The name of a file says it only where limitctl chose that.
func (u *undoing) processOf(path string) string {
	folder, err := cli.BackupFolder(u.Globals)
	name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
	process := name[strings.LastIndex(name, "-")+1:]
	if _, wrong := strconv.Atoi(process); err != nil || wrong != nil || filepath.Dir(path) != folder.Path {
		return ""
	}
	return " (pid " + process + ")"
}

// settings finds the store, and reports what forbids an undo there. If the backup holds keys of other limiters, more contexts
// can protect them, and --confirm can name one of these.
func (u *undoing) settings() (*cli.Settings, error) {
	if u.dryRun {
		return u.Settings()
	}
	s, err := u.SettingsToChange()
	if err != nil || u.Confirm != "" && u.plan.Backup == nil && s.Access().Context == "" {
		return s, err
	}
	return s, u.Check(s.Access(), u.Env.InIsTerminal, "undo", "restores", "")
}

// choose returns the path of the backup to restore.
func (u *undoing) choose(ctx context.Context, runner *operation.Runner, args []string) (path string, err error) {
	history, err := cli.ReadJournal(ctx, u.Globals, nil, true, auditlog.Query{})
	if err == nil {
		u.runs = history.Runs
	}
	u.backups = &backup.Folder{Open: u.Env.Open}
	switch {
	case len(args) == 0 && err != nil:
		return "", err
	case len(args) == 0:
		return u.lastChange(ctx, runner)
	}
	name := args[0] // without the audit log it can be a file all the same
	for _, e := range u.runs {
		if e.Run != name {
			continue
		}
		if e.Backup == "" {
			return "", &nothingToUndo{"nothing to undo: " + describeRun(e) + " kept no backup"}
		}
		_, path, err := e.BackupOf(u.backups)
		if err != nil {
			return "", cli.Usagef("%s; that of %s is gone", err, describeRun(e))
		}
		u.tell(e)
		return cmp.Or(path, e.Backup), nil
	}
	folder, err := cli.BackupFolder(u.Globals)
	if err != nil {
		return name, nil
	}
	path, found := folder.Find(name)
	if !found {
		return name, nil
	}
	if other, err := u.Env.Open(name); err == nil { // somebody may have put it there on purpose
		other.Close()
		u.Note("%s is taken from %s, and not the file of that name in this directory; give ./%s for that", name, folder.Path, name)
	}
	return path, nil
}

// checkOrigin refuses a backup of another store, unless --store names the one to restore into.
func (u *undoing) checkOrigin(ctx context.Context, runner *operation.Runner) error {
	err := runner.CheckOrigin(ctx, u.plan.Backup)
	switch {
	case err == nil || store.IsAway(err):
		return err
	case u.Changed("store"):
		u.plan.IntoOther = err
		return nil
	}
	return cli.Usagef("%s; to restore it here all the same, name this store with --store", err)
}

// shownKeys is how many keys a dry run names, and shownBefore how many a question.
const shownKeys, shownBefore = 40, 10

// show shows what is about to be restored, and where, and what of the backup cannot be. The file may be anybody's.
func (u *undoing) show(place string, asks bool) error {
	b, made := u.plan.Backup, ""
	if !u.told {
		made = fmt.Sprintf(" (%s %s begun at %s)", output.Printable(b.Command), output.Printable(b.Selection), clockTime(b.Time))
	}
	u.Say("%s of %s%s, into %s", output.Plural(b.Records, "record"), output.Printable(b.Store), made, place)
	if b.Torn {
		u.Note("warning: the last line of %s is not whole and is left out", b.Path)
	}
	for _, damage := range b.Damage {
		u.Note("warning: %s: %s; the line is left out", b.Path, output.Printable(cli.Message(damage)))
	}
	if b.Layout == "" || !asks {
		return nil
	}
	first, count, err := b.StoreKeys(shownBefore)
	if err != nil {
		return err
	}
	u.Say("%s of the store:", output.Plural(count, "key"))
	for _, storeKey := range first {
		u.Say("  %s", output.Printable(output.Shorten(storeKey, cli.LongestKey)))
	}
	if more := count - len(first); more > 0 {
		u.Say("  … and %s more; --dry-run shows more of them", output.Thousands(int64(more)))
	}
	return nil
}

// withHint adds the flag that helps to an error.
func (u *undoing) withHint(err error, where string) error {
	if left := (*operation.UsedSinceError)(nil); !errors.As(err, &left) {
		return err
	}
	again, maker := u.earlier(where)
	switch {
	case again: // these may be keys that it brought back
		return fmt.Errorf("%w; an earlier run has brought back keys of this backup, and --replace would forget what was used since then",
			err)
	case maker != nil && maker.Outcome == auditlog.Begun: // between the deletion of some keys of a batch and others
		return fmt.Errorf("%w; the reset was killed, so some of these may never have been deleted; --replace brings back what the "+
			"backup has of them, and forgets what was used since", err)
	}
	return fmt.Errorf("%w; --replace brings back what the backup has of them, and forgets what was used since", err)
}

// earlier reports what this machine knows of the runs about the backup: whether one has brought back keys of it into this
// store, and which one made it, or nil.
func (u *undoing) earlier(where string) (again bool, maker *auditlog.Entry) {
	path := u.plan.Backup.Path
	if whole, err := filepath.Abs(path); err == nil { // as the audit has it
		path = whole
	}
	path = auditlog.PlainName(path)
	for _, e := range u.runs {
		switch {
		case e.BringsBack() && auditlog.PlainName(e.Selection) == path && withoutLogin(e.Store) == withoutLogin(where):
			again = again || e.Changed+e.Unknown > 0
		case auditlog.PlainName(e.Backup) == path && e.MadeBackup(&u.plan.Backup.Header):
			maker = e
		}
	}
	return again, maker
}

// nothingToUndo is the reason why nothing is undone. It is an answer, with exit code 1.
type nothingToUndo struct{ reason string }

func (e *nothingToUndo) Error() string { return e.reason }

func (e *nothingToUndo) Is(target error) bool { return target == cli.ErrNothing }

// lastChange returns the backup of the last change in the store.
func (u *undoing) lastChange(ctx context.Context, runner *operation.Runner) (path string, err error) {
	paths := map[*auditlog.Entry]string{}
	here := func(e *auditlog.Entry) bool {
		if e.Prefix != runner.Place.Prefix && e.Layout == "" {
			return false
		}
		if header, path, _ := e.BackupOf(u.backups); header != nil {
			paths[e] = path
			return runner.IsOrigin(ctx, header)
		}
		return withoutLogin(e.Store) == withoutLogin(runner.Place.Store)
	}
	last := lastChange(u.runs, here)
	if last.run == nil {
		return "", &nothingToUndo{"nothing to undo: the audit of this machine has no change of " + runner.Place.Store +
			" that kept a backup; `limitctl override revoke ID` ends a block or another override"}
	}
	what := describeRun(last.run)
	switch {
	case last.undoneBy != nil:
		return "", &nothingToUndo{fmt.Sprintf("nothing to undo: the last change, %s, was undone at %s; limitctl undo --list has "+
			"the backups of earlier ones", what, clockTime(last.undoneBy.Time))}
	case paths[last.run] == "":
		return "", cli.Usagef("the last change, %s, cannot be undone: its backup %s is not there any more, cannot be read, "+
			"or is of another run", what, output.Printable(last.run.Backup))
	}
	u.tell(last.run)
	for _, e := range last.after {
		if !u.Quiet {
			u.Note("warning: %s came later, has no backup and stays", describeRun(e))
		}
	}
	return paths[last.run], nil
}

// tell names the run that is undone.
func (u *undoing) tell(e *auditlog.Entry) {
	if u.Quiet {
		return
	}
	u.told = true
	u.Note("undo %s by %s: %s of %s changed", describeRun(e), output.Printable(e.User), e.ChangedText(),
		output.Plural(int(e.Matched), "key"))
}

// describeRun names a run for people, with the time that the audit shows.
func describeRun(e *auditlog.Entry) string {
	word := "ended"
	if e.Outcome == auditlog.Begun {
		word = "begun"
	}
	return fmt.Sprintf("%s (%s at %s)", output.Printable(e.CommandText()), word, clockTime(e.Time))
}

// shownAfter is how many later changes, which undo cannot bring back, it names at most.
const shownAfter = 5

// lastRun is the last change that can be undone, in one store.
type lastRun struct {
	run *auditlog.Entry // nil if there is none
	// undoneBy is the run that has already brought all of it back, or nil.
	undoneBy *auditlog.Entry
	// after are the first changes after it that have no backup.
	after []*auditlog.Entry
}

// lastChange finds the last change among runs, which are in order of time. here reports whether a run was in this
// store.
func lastChange(runs []*auditlog.Entry, here func(*auditlog.Entry) bool) (last lastRun) {
	changed := func(e *auditlog.Entry) bool { return e.Backup != "" && e.MayHaveChanged() && here(e) }
	for at, e := range slices.Backward(runs) {
		if !changed(e) {
			continue
		}
		last.run = e
		for _, e := range runs[at+1:] {
			switch {
			case !e.BringsBack() && e.Changed > 0 && len(last.after) < shownAfter && here(e):
				last.after = append(last.after, e)
			case e.BringsBack() && e.Outcome == auditlog.Done &&
				auditlog.PlainName(e.Selection) == auditlog.PlainName(last.run.Backup) && here(e):
				last.undoneBy = e
			}
		}
		break
	}
	return last
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
	// FirstStoreKeysBase64 are the bytes of the first store keys if any is not UTF-8.
	FirstStoreKeysBase64 []string `json:"first_store_keys_base64,omitempty"`
}

// Print implements output.Answer.
func (a *undoAnswer) Print(p *output.Printer) {
	if a.DryRun {
		p.Line("would restore up to %s (dry run)", output.Plural(a.InBackup, "key"))
		for _, storeKey := range a.FirstStoreKeys {
			p.Line("  %s", output.Printable(output.Shorten(storeKey, cli.LongestKey)))
		}
		if more := a.StoreKeys - len(a.FirstStoreKeys); more > 0 {
			p.Line("… and %s more", output.Plural(more, "key"))
		}
		return
	}
	text := "restored " + output.Plural(int(a.Restored), "key")
	for _, other := range []struct {
		n    int64
		what string
	}{{a.Already, "already there"}, {a.Lapsed, "expired meanwhile"}, {a.InUse, "used since and left"},
		{a.Unreached, "not reached by the reset and left"}, {a.Failed, "not fit to be restored and left"}} {
		if other.n > 0 {
			text += fmt.Sprintf(", %d %s", other.n, other.what)
		}
	}
	fmt.Fprintln(p.Out, text)
}
