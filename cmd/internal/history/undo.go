package history

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/cmd/internal/backup"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type undoOptions struct {
	*cli.Globals
	cli.ConsentOptions
	replace bool
	dryRun  bool
}

// NewUndoCmd makes limitctl undo.
func NewUndoCmd(global *cli.Globals) *cobra.Command {
	o := &undoOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "undo",
		Short: "Undo the last reset that was made from this machine",
		Long: `Undo brings back what the last reset in this store changed, if this user made it
on this machine and it kept a backup. It shows what it will do, and asks.
Without a terminal it needs --yes. In a protected context it asks for the
context's name, or takes it from --confirm.

Undo keeps keys that were used since a reset deleted them; with --replace it
overwrites them. After a reset --to-remaining it always overwrites the keys.
Keys that an interrupted reset had not reached stay as they are.

A second undo does not go further back: it says that the last change is already
undone (exit code 1). For an older change, give "limitctl restore" the name of
its backup from "limitctl audit" or "limitctl backups list".`,
		Example: `  limitctl undo --dry-run
  limitctl undo
  limitctl undo --context prod --confirm prod`,
		Args:              cli.NoArguments,
		RunE:              func(cmd *cobra.Command, args []string) error { return runUndo(cmd.Context(), o) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.AddConsentFlags(cmd)
	cmd.Flags().BoolVar(&o.replace, "replace", false, "also bring back keys that were used since, and overwrite them")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be undone and change nothing")
	return cmd
}

func runUndo(ctx context.Context, o *undoOptions) error {
	r := &restoring{Globals: o.Globals, ConsentOptions: o.ConsentOptions, command: "undo", dryRun: o.dryRun,
		plan: &operation.RestorePlan{Command: "undo", Ask: true, Replace: o.replace, Consent: o.Given()}}
	return r.run(ctx, func(s *cli.Settings, runner *operation.Runner) (string, error) {
		path, adjusts, err := o.lastChange(ctx, s, runner)
		r.plan.Replace = r.plan.Replace || adjusts
		return path, err
	})
}

// nothingToUndo is the reason why nothing is undone. It is an answer, with exit code 1.
type nothingToUndo struct{ reason string }

func (e *nothingToUndo) Error() string { return e.reason }

func (e *nothingToUndo) Is(target error) bool { return target == cli.ErrNothing }

// lastChange returns the backup of the last change in the store, and whether the keys are in use after the change.
func (o *undoOptions) lastChange(ctx context.Context, s *cli.Settings, runner *operation.Runner) (path string, adjusts bool, err error) {
	runs, err := localRuns(ctx, o.Globals)
	if err != nil {
		return "", false, err
	}
	headers := map[*auditlog.Entry]*backup.Header{}
	paths := map[*auditlog.Entry]string{}
	here := func(e *auditlog.Entry) bool {
		if e.Prefix != runner.Place.Prefix && e.Layout == "" {
			return false
		}
		if header, path := o.headerOf(e.Backup); header != nil {
			headers[e], paths[e] = header, path
			return runner.IsOrigin(ctx, header)
		}
		return withoutLogin(e.Store) == withoutLogin(runner.Place.Store)
	}
	last := lastChange(runs, here)
	if last.run == nil {
		return "", false, &nothingToUndo{"nothing to undo: the audit of this machine has no change of " + runner.Place.Store +
			" that kept a backup; " + o.overrideToEnd(ctx, s, runner, runs, here)}
	}
	what := describeRun(last.run)
	header := headers[last.run]
	switch {
	case last.undoneBy != nil:
		text := fmt.Sprintf("nothing to undo: the last change, %s, was undone at %s", what, clockTime(last.undoneBy.Time))
		if last.before != nil {
			text += "; for the one before it, " + describeRun(last.before) + ", give " +
				shell.Command("limitctl", "restore", filepath.Base(last.before.Backup))
		}
		return "", false, &nothingToUndo{text}
	case header == nil:
		return "", false, cli.Usagef("the last change, %s, cannot be undone: its backup %s is not there any more, or cannot be read",
			what, output.Printable(last.run.Backup))
	}
	if !o.Quiet {
		o.Note("undo %s by %s: %s of %s changed", what, output.Printable(last.run.User), changedText(last.run),
			output.Plural(int(last.run.Matched), "key"))
		for _, e := range last.after {
			o.Note("warning: %s came later, has no backup and stays", describeRun(e))
		}
	}
	return paths[last.run], header.Adjusts || adjusted().MatchString(header.Selection), nil
}

// overrideToEnd says how to end the override that this machine has set last, if it is in force, or else any override.
func (o *undoOptions) overrideToEnd(ctx context.Context, s *cli.Settings, runner *operation.Runner, runs []*auditlog.Entry,
	here func(*auditlog.Entry) bool) string {
	inForce, _ := runner.Overrides(ctx) // without the right to read them no command can be named
	for _, e := range slices.Backward(runs) {
		for _, set := range e.Overrides {
			at := slices.IndexFunc(inForce, func(o store.Override) bool { return o.ID == set.ID })
			if at >= 0 && here(e) {
				return "the last override, " + output.Printable(allowance.All(&inForce[at])) + ", ends with: " +
					cli.CommandHere(o.Globals, s, "override", "revoke", set.ID)
			}
		}
	}
	return "a block, an exemption or another override ends with limitctl override revoke ID"
}

// adjusted matches the selection that an earlier limitctl wrote for a reset --to-remaining.
var adjusted = texts.Regexp(` --to-remaining \d+$`)

// describeRun names a run for people, with the time that the audit shows.
func describeRun(e *auditlog.Entry) string {
	word := "ended"
	if e.Outcome == auditlog.Begun {
		word = "begun"
	}
	return fmt.Sprintf("%s (%s at %s)", output.Printable(commandText(e)), word, clockTime(e.Time))
}

// headerOf reads the header of a backup, which may be compressed by now, and returns its path. The header is nil if it
// cannot be read.
func (o *undoOptions) headerOf(path string) (*backup.Header, string) {
	if path == "" {
		return nil, ""
	}
	folder := &backup.Folder{Open: o.Env.Open}
	for _, at := range []string{path, path + ".gz"} {
		if header, err := folder.Header(at); err == nil {
			return &header, at
		}
	}
	return nil, ""
}

// shownAfter is how many later changes, which undo cannot bring back, it names at most.
const shownAfter = 5

// lastRun is the last change that can be undone, in one store.
type lastRun struct {
	run *auditlog.Entry // nil if there is none
	// undoneBy is the run that has already brought all of it back, or nil.
	undoneBy *auditlog.Entry
	// before is the change before it that kept a backup, or nil.
	before *auditlog.Entry
	// after are the first changes after it that have no backup.
	after []*auditlog.Entry
}

// lastChange finds the last change among runs, which are in order of time. here reports whether a run was in this
// store.
func lastChange(runs []*auditlog.Entry, here func(*auditlog.Entry) bool) lastRun {
	var last lastRun
	at := len(runs) - 1
	for ; at >= 0; at-- {
		if e := runs[at]; e.Backup != "" && e.MayHaveChanged() && here(e) {
			last.run = e
			break
		}
	}
	if last.run == nil {
		return last
	}
	for _, e := range runs[at+1:] {
		switch {
		case !e.BringsBack() && e.Changed > 0 && here(e):
			if len(last.after) < shownAfter {
				last.after = append(last.after, e)
			}
		case e.BringsBack() && e.Outcome == auditlog.Done &&
			auditlog.PlainName(e.Selection) == auditlog.PlainName(last.run.Backup) && here(e):
			last.undoneBy = e
		}
	}
	for at--; at >= 0; at-- {
		if e := runs[at]; e.Backup != "" && e.MayHaveChanged() && e.Backup != last.run.Backup && here(e) {
			last.before = e
			break
		}
	}
	return last
}

// localRuns are the runs of this machine's audit in all contexts, the latest last.
func localRuns(ctx context.Context, g *cli.Globals) ([]*auditlog.Entry, error) {
	path, err := cli.AuditFile(g.Env.Getenv)
	if err != nil {
		return nil, err
	}
	history, err := readAuditLog(ctx, g, path, auditlog.Query{})
	if err != nil {
		return nil, cli.Usagef("the audit log cannot be read: %s", err)
	}
	return history.Runs, nil
}
