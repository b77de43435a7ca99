package history

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type restoreOptions struct {
	*cli.Globals
	cli.ConsentOptions
	replace   bool
	intoOther bool
	last      bool
	dryRun    bool
}

// NewRestoreCmd makes limitctl restore.
func NewRestoreCmd(global *cli.Globals) *cobra.Command {
	o := &restoreOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "restore BACKUP | --last",
		Short: "Bring back what a reset deleted",
		Long: `Restore brings back every record of a backup that reset wrote, with its original
expiry. It does not restore keys that would have expired by now. It keeps a key
that was used since, and overwrites it with --replace; it then asks first, and
without a terminal it needs --yes. In a protected context it asks for the
context's name, or takes it from --confirm. Keys that an interrupted reset had
not reached stay as they are, unless --into-other-store is given.

BACKUP is a file, or the name of a backup as "limitctl audit" and "limitctl
backups list" print it. --last takes the last backup of this store. Records go
back into the store that they came from; another store needs --into-other-store.
A backup of other limiters' keys has their layout, so it needs no --layout.
Restore reports and leaves out lines that are damaged, or whose keys cannot be
of that layout or were not selected by that reset (exit code 5); it restores the
others.`,
		Example: `  limitctl restore backup.jsonl --dry-run
  limitctl restore 20261122T031405.120Z-4711.jsonl
  limitctl restore --last
  limitctl restore backup.jsonl --replace --yes`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.last && len(args) > 0:
				return cli.Usagef("restore takes a BACKUP or --last; give one of them")
			case !o.last && len(args) != 1:
				return cli.Usagef("restore takes one BACKUP that a reset wrote; " +
					"`limitctl backups list` shows them, --last takes the last one")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRestore(cmd.Context(), o, args)
		},
		ValidArgsFunction: cli.Offers(global).Backups,
	}
	o.AddConsentFlags(cmd)
	cmd.Flags().BoolVar(&o.replace, "replace", false, "also bring back keys that were used since, and overwrite them")
	cmd.Flags().BoolVar(&o.intoOther, "into-other-store", false, "allow another store than the one that the backup came from")
	cmd.Flags().BoolVar(&o.last, "last", false, "take the last backup of this store")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "read the backup, show what is in it, and change nothing")
	return cmd
}

// restoreAnswer is the answer of restore and undo.
type restoreAnswer struct {
	SchemaVersion int    `json:"schema_version"`
	InBackup      int    `json:"records"`
	Restored      int64  `json:"restored"`
	Already       int64  `json:"already_there"`       // equal to the backup before
	Lapsed        int64  `json:"lapsed"`              // their usage has expired since
	InUse         int64  `json:"in_use"`              // used since, and left
	Unreached     int64  `json:"unreached,omitempty"` // the interrupted reset had not reached them, and they are left
	Foreign       int64  `json:"foreign"`             // not written by limitctl, and left
	Unfit         int64  `json:"unfit,omitempty"`     // cannot be restored, and left
	DryRun        bool   `json:"dry_run"`
	Backup        string `json:"backup"` // its path
	// FirstStoreKeys and StoreKeys are the first keys of other limiters that a dry run found, and
	// how many there are.
	FirstStoreKeys []string `json:"first_store_keys,omitempty"`
	StoreKeys      int      `json:"store_keys,omitempty"`
	// FirstStoreKeysBase64 are the bytes of the first store keys if any is not UTF-8.
	FirstStoreKeysBase64 []string `json:"first_store_keys_base64,omitempty"`
}

func runRestore(ctx context.Context, o *restoreOptions, args []string) error {
	r := &restoring{Globals: o.Globals, ConsentOptions: o.ConsentOptions, command: "restore", dryRun: o.dryRun,
		plan: &operation.RestorePlan{Replace: o.replace, IntoOther: o.intoOther, Consent: o.Given()}}
	return r.run(ctx, func(_ *cli.Settings, runner *operation.Runner) (string, error) {
		if o.last {
			return o.lastBackup(ctx, runner)
		}
		return findBackup(o.Globals, args[0]), nil
	})
}

// findBackup returns the path of the backup that the command line names.
func findBackup(g *cli.Globals, name string) string {
	folder, err := cli.BackupFolder(g)
	if err != nil {
		return name
	}
	path, found := folder.Find(name)
	if !found {
		return name
	}
	if other, err := g.Env.Open(name); err == nil { // somebody may have put it there on purpose
		other.Close()
		g.Note("%s is taken from %s, and not the file of that name in this directory; give ./%s for that", name, folder.Path, name)
	}
	return path
}

// lastBackup returns the path of the newest backup of the store.
func (o *restoreOptions) lastBackup(ctx context.Context, runner *operation.Runner) (string, error) {
	folder, err := cli.BackupFolder(o.Globals)
	if err != nil {
		return "", err
	}
	files, err := folder.List()
	if err != nil {
		return "", cli.Usagef("the backups cannot be listed: %s%s", err, cli.StateHint(o.Env.Getenv))
	}
	for _, file := range files {
		if header, err := folder.Header(file.Path); err == nil && runner.IsOrigin(ctx, &header) {
			return file.Path, nil
		}
	}
	return "", cli.Usagef("%s holds no backup of %s; `limitctl backups list` shows of which stores there are", folder.Path,
		runner.Place.Store)
}

// restoring is the restore of one backup, for the commands restore and undo.
type restoring struct {
	*cli.Globals
	cli.ConsentOptions
	command string // "restore" or "undo"
	plan    *operation.RestorePlan
	dryRun  bool
}

// run restores the backup whose path choose returns.
func (r *restoring) run(ctx context.Context, choose func(*cli.Settings, *operation.Runner) (path string, err error)) error {
	s, err := r.settingsToRestore(ctx)
	if err != nil {
		return err
	}
	r.OfAnyKeys = true // the backup names the layout
	open := r.Open
	if r.dryRun {
		open = r.OpenToRead
	}
	backend, where, err := open()
	if err != nil {
		return err
	}
	defer backend.Close()
	runner := cli.NewRunner(r.Globals, s, backend, where)
	path, err := choose(s, runner)
	if err != nil {
		return err
	}
	if r.plan.Backup, err = operation.OpenBackup(&runner.Files, path, s.Prefix.Value); err != nil {
		return withRestoreHint(err, earlierRuns{})
	}
	defer r.plan.Backup.Close()
	if layout := r.plan.Backup.Layout; layout != "" {
		r.Layouts, r.LayoutsName = layouts.Sources{}, layout // the records name their keys
	}
	if s, err = r.settingsToRestore(ctx); err != nil {
		return err
	}
	if r.Layouts != nil {
		if err := backend.Close(); err != nil {
			return err
		}
		if backend, where, err = open(); err != nil {
			return err
		}
		defer backend.Close()
		runner = cli.NewRunner(r.Globals, s, backend, where)
	}
	if !r.plan.IntoOther {
		if err := runner.CheckOrigin(ctx, r.plan.Backup); err != nil {
			return withRestoreHint(err, earlierRuns{})
		}
	}
	if !r.Quiet || r.asks(s) && !r.plan.Consent.Covers(s.Access()) {
		r.showBackup(r.plan.Backup, s.Place(where))
	}
	r.warnOfBackup(r.plan.Backup)
	answer := &restoreAnswer{SchemaVersion: output.SchemaVersion, InBackup: r.plan.Backup.Records, DryRun: r.dryRun, Backup: path}
	if r.dryRun {
		if answer.FirstStoreKeys, answer.StoreKeys, err = r.plan.Backup.StoreKeys(shownKeys); err != nil {
			return err
		}
		answer.FirstStoreKeysBase64 = output.AllBase64IfNeeded(answer.FirstStoreKeys)
		return errors.Join(r.plan.Backup.DamageError(), r.Print(answer))
	}
	if r.asks(s) && !r.plan.Consent.Covers(s.Access()) {
		if err := r.showStoreKeys(); err != nil {
			return err
		}
	}
	before := r.earlier(ctx, path)
	result, err := runner.Restore(ctx, r.plan, &cli.Observer{Global: r.Globals})
	err = withRestoreHint(err, before)
	if result == nil {
		return err
	}
	answer.Restored, answer.Already, answer.Lapsed = result.Restored, result.Already, result.Lapsed
	answer.InUse, answer.Unreached, answer.Foreign, answer.Unfit = result.InUse, result.Unreached, result.Foreign, result.Unfit
	return errors.Join(err, r.Print(answer))
}

// earlierRuns is what this machine knows of the runs that are about a backup.
type earlierRuns struct {
	again  bool // one has brought back some of its keys
	killed bool // nothing says how the one ended that made it
}

// earlier returns what this machine knows of the runs that are about a backup.
func (r *restoring) earlier(ctx context.Context, path string) (is earlierRuns) {
	if whole, err := filepath.Abs(path); err == nil { // as the audit has it
		path = whole
	}
	runs, _ := localRuns(ctx, r.Globals) // without them the hints say less
	for _, e := range runs {
		switch {
		case e.BringsBack() && auditlog.PlainName(e.Selection) == auditlog.PlainName(path):
			is.again = is.again || e.Changed+e.Unknown > 0
		case auditlog.PlainName(e.Backup) == auditlog.PlainName(path):
			is.killed = e.Outcome == auditlog.Begun
		}
	}
	return is
}

// settingsToRestore finds the store, and reports what forbids a restore there. It runs again when the backup is open:
// if the backup holds keys of other limiters, more contexts can protect them, and --confirm can name one of these.
func (r *restoring) settingsToRestore(ctx context.Context) (*cli.Settings, error) {
	if r.dryRun {
		return r.Settings()
	}
	if r.Chosen != nil && r.Chosen.Guard == nil && r.Layouts != nil {
		r.Chosen.Looked = false
	}
	s, err := r.SettingsToChange(ctx)
	if err != nil {
		return s, err
	}
	mayBeGuarded := r.plan.Backup == nil && s.Access().Context == ""
	if r.Confirm != "" && mayBeGuarded || r.Confirm == "" && !r.asks(s) && !s.Access().ReadOnly {
		return s, nil
	}
	does := "overwrites"
	if r.plan.Ask {
		does = "restores"
	}
	return s, r.Check(s.Access(), r.Env.InIsTerminal, r.command, does, "")
}

// asks reports whether the user has to confirm the restore.
func (r *restoring) asks(s *cli.Settings) bool { return !r.dryRun && r.plan.MustAsk(s.Access()) }

// showBackup shows what is about to be restored, and where. An undo has already named the run that made the backup,
// unless it is quiet.
func (r *restoring) showBackup(b *operation.Backup, place string) {
	made := ""
	if r.command != "undo" || r.Quiet {
		made = fmt.Sprintf(" (%s %s begun at %s)", output.Printable(b.Command), output.Printable(b.Selection), clockTime(b.Time))
	}
	r.Say("%s of %s%s, into %s", output.Plural(b.Records, "record"), output.Printable(b.Store), made, place) // the file may be of anybody
}

// showStoreKeys shows the keys of other limiters that are about to be written, before the question.
func (r *restoring) showStoreKeys() error {
	const shown = 10
	first, count, err := r.plan.Backup.StoreKeys(shown)
	if err != nil || count == 0 {
		return err
	}
	what := "those in use since then are left as they are"
	if r.plan.Replace {
		what = "whatever they hold now is overwritten"
	}
	r.Say("%s of the store; %s:", output.Plural(count, "key"), what)
	for _, storeKey := range first {
		r.Say("  %s", output.Printable(output.Shorten(storeKey, cli.LongestKey)))
	}
	if more := count - len(first); more > 0 {
		r.Say("  … and %s more; --dry-run shows more of them", output.Thousands(int64(more)))
	}
	return nil
}

// warnOfBackup warns of lines that are left out.
func (r *restoring) warnOfBackup(b *operation.Backup) {
	if b.Torn {
		r.Note("warning: the last line of %s is not whole and is left out; its writer was stopped in the middle", b.Path)
	}
	for _, damage := range b.Damage {
		fmt.Fprintf(r.Env.Err, "limitctl: warning: %s: %s; the line is left out\n", b.Path, cli.Message(damage))
	}
}

// withRestoreHint adds the flag that helps to the error of a restore of a backup with such earlier runs.
func withRestoreHint(err error, before earlierRuns) error {
	var prefix *operation.PrefixError
	var left *operation.UsedSinceError
	var origin *operation.OtherStoreError
	var unknown *operation.OriginUnknownError
	switch {
	case errors.As(err, &prefix):
		return cli.Usagef("%s; give %s", prefix, shell.Command("--prefix", prefix.Backup))
	case errors.As(err, &origin):
		return cli.Usagef("%s; to restore it here all the same, give --into-other-store", origin)
	case errors.As(err, &unknown) && !store.IsAway(err): // such as a user without the right to ask
		return fmt.Errorf("%w; to restore it here all the same, give --into-other-store", err)
	case errors.As(err, &left) && before.again: // these may be keys that it brought back
		return fmt.Errorf("%w; an earlier run has brought back keys of this backup, and --replace would forget what was used since then",
			err)
	case errors.As(err, &left) && before.killed: // between the deletion of some keys of a batch and others
		return fmt.Errorf("%w; the reset was killed, so some of these may never have been deleted; --replace brings back what the "+
			"backup has of them, and forgets what was used since", err)
	case errors.As(err, &left):
		return fmt.Errorf("%w; --replace brings back what the backup has of them, and forgets what was used since", err)
	}
	return err
}

// Records implements output.Answer.
func (a *restoreAnswer) Records() [][]string {
	return [][]string{{"records", "restored", "lapsed", "in_use", "foreign", "dry_run", "already_there", "backup", "unreached"},
		{fmt.Sprint(a.InBackup), cli.Number(a.Restored), cli.Number(a.Lapsed), cli.Number(a.InUse), cli.Number(a.Foreign),
			fmt.Sprint(a.DryRun),
			cli.Number(a.Already), a.Backup, cli.Number(a.Unreached)}}
}

// Print implements output.Answer.
func (a *restoreAnswer) Print(p *output.Printer) {
	if a.DryRun {
		p.Line("would restore up to %s (dry run)", output.Plural(a.InBackup, "key"))
		for _, storeKey := range a.FirstStoreKeys {
			p.Line("  %s", output.Printable(output.Shorten(storeKey, cli.LongestKey)))
		}
		if more := a.StoreKeys - len(a.FirstStoreKeys); more > 0 {
			p.Line("… and %s more; limitctl backups show %s -o jsonl shows them", output.Plural(more, "key"),
				output.Printable(shell.Command(a.Backup)))
		}
		return
	}
	text := "restored " + output.Plural(int(a.Restored), "key")
	for _, other := range []struct {
		n    int64
		what string
	}{{a.Already, "already there"}, {a.Lapsed, "expired meanwhile"}, {a.InUse, "used since and left"},
		{a.Unreached, "not reached by the reset and left"}, {a.Foreign, "foreign and left"},
		{a.Unfit, "unfit and left"}} {
		if other.n > 0 {
			text += fmt.Sprintf(", %d %s", other.n, other.what)
		}
	}
	fmt.Fprintln(p.Out, text)
}

// withoutLogin is the name of a store without its user.
func withoutLogin(where string) string {
	scheme, rest, _ := strings.Cut(where, "://")
	return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
}
