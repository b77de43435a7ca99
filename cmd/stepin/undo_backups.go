package stepin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// keptBackups returns the backups of this machine, the newest first.
func keptBackups(ctx context.Context, g *cli.Globals) (directory string, all []auditlog.Kept, err error) {
	folder, err := cli.BackupFolder(g)
	if err != nil {
		return "", nil, err
	}
	history, err := cli.ReadJournal(ctx, g, nil, true, auditlog.Query{})
	if err != nil {
		return "", nil, err
	}
	if all, err = history.Kept(folder, g.Env.Now(), cli.Message); err != nil {
		return "", nil, cli.Usagef("the backups cannot be listed: %s", err)
	}
	return folder.Path, all, nil
}

// toPrune returns the backups older than age, and how many of these stay: the newest of each store, and those whose run
// has not ended. The newest of all comes first.
func toPrune(all []auditlog.Kept, age time.Duration, now time.Time) (gone []auditlog.Kept, spared int) {
	gone = []auditlog.Kept{} // a list in JSON, also if empty
	newest := map[string]bool{}
	for i := range all {
		b := &all[i]
		of := cmp.Or(b.StoreID, b.Store) + "\x00" + b.Prefix
		needed := b.Unended || !newest[of]
		newest[of] = true
		switch {
		case now.Sub(b.Made) <= age:
		case needed:
			spared++
		default:
			gone = append(gone, *b)
		}
	}
	return gone, spared
}

func runList(ctx context.Context, o *undoOptions) error {
	directory, all, err := keptBackups(ctx, o.Globals)
	if err != nil {
		return err
	}
	if len(all) == 0 && !o.Quiet {
		o.Note("there are no backups in %s", directory)
	}
	return o.Print(&backupsAnswer{SchemaVersion: output.SchemaVersion, Directory: directory, Bytes: sizeOf(all),
		Backups: all})
}

func runPrune(ctx context.Context, o *undoOptions) error {
	age, err := store.ParsePeriod(o.prune)
	switch {
	case err != nil:
		return cli.Usagef("--prune %q is not a duration; write it like 90d or 12h", o.prune)
	case !o.Yes && !o.dryRun && !o.Env.InIsTerminal:
		return cli.Usagef("--prune asks before it removes, and there is no terminal to ask on; give --yes, or " +
			"--dry-run to look first")
	}
	directory, all, err := keptBackups(ctx, o.Globals)
	if err != nil {
		return err
	}
	gone, spared := toPrune(all, age, o.Env.Now())
	answer := &backupsAnswer{SchemaVersion: output.SchemaVersion, Directory: directory, Bytes: sizeOf(gone),
		Backups: gone,
		Removed: new(int), DryRun: o.dryRun}
	if spared > 0 && !o.Quiet {
		o.Note("%s kept: the newest of a store, or of a reset that has not ended", output.Count(spared, "backup"))
	}
	if o.dryRun || len(gone) == 0 {
		return o.Print(answer)
	}
	if !o.Yes {
		answer.printRows(&output.Printer{Out: o.Env.Err})
		question := fmt.Sprintf("Remove %s, %s", output.Count(len(gone), "backup"), output.Bytes(answer.Bytes))
		if err := (&cli.Observer{Global: o.Globals}).Confirm(ctx, operation.Question{Text: question}); err != nil {
			return err
		}
	}
	for i := range gone {
		if failed := files.Remove(gone[i].Path); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		*answer.Removed++
	}
	if err != nil && *answer.Removed > 0 {
		err = outcome.Partly(err)
	}
	return errors.Join(err, o.Print(answer))
}

func sizeOf(backups []auditlog.Kept) (bytes int64) {
	for i := range backups {
		bytes += backups[i].Bytes
	}
	return bytes
}

// backupsAnswer is the answer of undo --list, and of undo --prune.
type backupsAnswer struct {
	SchemaVersion int             `json:"schema_version"`
	Directory     string          `json:"directory"`
	Bytes         int64           `json:"bytes"` // of all
	Backups       []auditlog.Kept `json:"backups"`
	Removed       *int            `json:"removed,omitempty"` // how many of them are removed
	DryRun        bool            `json:"dry_run,omitempty"`
}

// Items implements output.Answer.
func (a *backupsAnswer) Items() any { return a.Backups }

// Print implements output.Answer.
func (a *backupsAnswer) Print(p *output.Printer) {
	switch {
	case a.DryRun:
		a.printRows(p)
		p.Line("would remove %s (dry run)", output.Count(len(a.Backups), "backup"))
	case a.Removed != nil:
		p.Line("removed %s of %s", output.Count(*a.Removed, "backup"), output.Bytes(a.Bytes))
	case len(a.Backups) > 0:
		a.printRows(p)
		p.Line("%s, %s in %s", output.Count(len(a.Backups), "backup"), output.Bytes(a.Bytes), a.Directory)
	}
}

func (a *backupsAnswer) printRows(p *output.Printer) {
	if len(a.Backups) == 0 {
		return
	}
	columns := []output.Column{{Header: "NAME"}, {Header: "AGE", Right: true}, {Header: "BY", Shrinks: 5, Drops: 2},
		{Header: "COMMAND", Shrinks: 8, Drops: 1}, {Header: "WHERE", Shrinks: 8, Drops: 3},
		{Header: "KEYS", Right: true}, {Header: "SIZE", Right: true}}
	var rows [][]output.Cell
	for i := range a.Backups {
		b := &a.Backups[i]
		age, keys, command := "-", "-", output.Cell{Text: strings.TrimSpace(b.Command + " " + b.Selection)}
		if b.Error != "" {
			command = output.Cell{Text: "unreadable: " + b.Error, Style: output.Near}
		}
		if b.AgeMS != nil {
			age = output.Duration(time.Duration(*b.AgeMS) * time.Millisecond)
		}
		if b.Keys != nil {
			keys = cli.Number(*b.Keys)
		}
		rows = append(rows, []output.Cell{{Text: b.Name}, {Text: age}, {Text: cmp.Or(b.User, "-")}, command,
			{Text: cmp.Or(b.Context, b.Store, "-")}, {Text: keys}, {Text: output.Bytes(b.Bytes)}})
	}
	p.Table(columns, rows)
}

// clockTime is an instant for people, in UTC as in the names of backups.
func clockTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 MST") }
