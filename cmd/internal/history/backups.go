package history

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/backup"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// NewBackupsCmd makes limitctl backups.
func NewBackupsCmd(global *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backups",
		Short: "List, show and remove the backups of this machine",
		Long: `Before a reset changes keys, it writes them to a backup, in limitctl/backups in
the state directory ($XDG_STATE_HOME, else ~/.local/state). "limitctl undo" and
"limitctl restore" bring them back. They also read backups that you compressed
with gzip.`,
		Example: `  limitctl backups list
  limitctl backups show 20261122T031405.120Z-4711.jsonl
  limitctl backups prune --older-than 30d --yes`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBackupsListCmd(global), newBackupsShowCmd(global), newBackupsPruneCmd(global))
	return cmd
}

func newBackupsListCmd(global *cli.Globals) *cobra.Command {
	return cli.ListsNames(&cobra.Command{
		Use:   "list",
		Short: "List the backups, the newest first",
		Long: `List shows the backups of this user on this machine, the newest first: the
command and the store of each, its number of keys and its size. STATE is
"whole", or "torn" if the reset was stopped while it wrote the last line. All
other lines can be restored.`,
		Example:           "  limitctl backups list\n  limitctl backups list -o json",
		Args:              cli.NoArguments,
		RunE:              func(cmd *cobra.Command, args []string) error { return runBackupsList(cmd.Context(), global) },
		ValidArgsFunction: cobra.NoFileCompletions,
	})
}

// backupDocument is a backup in an answer.
type backupDocument struct {
	Name      string     `json:"name"`
	Path      string     `json:"path"`
	Time      *time.Time `json:"time"` // null if it cannot be read
	AgeMS     *int64     `json:"age_ms"`
	Command   string     `json:"command,omitempty"`
	Selection string     `json:"selection,omitempty"`
	Context   string     `json:"context,omitempty"`
	Store     string     `json:"store,omitempty"`
	StoreID   string     `json:"store_id,omitempty"`
	Prefix    string     `json:"prefix,omitempty"`
	Keys      int64      `json:"keys"`
	Bytes     int64      `json:"bytes"`
	Whole     bool       `json:"whole"`
	Error     string     `json:"error,omitempty"` // why it cannot be read
}

// describeBackup reads a backup through for its document.
func describeBackup(folder *backup.Folder, file *backup.File, now time.Time) backupDocument {
	d := backupDocument{Name: file.Name, Path: file.Path, Bytes: file.Size}
	survey, err := folder.Survey(file.Path)
	if err != nil {
		d.Error = cli.Message(err)
		return d
	}
	made, age := survey.Time, max(0, now.Sub(survey.Time)).Milliseconds()
	d.Time, d.AgeMS = &made, &age
	d.Command, d.Selection, d.Context, d.Store = survey.Command, survey.Selection, survey.Context, survey.Store
	d.StoreID, d.Prefix, d.Keys, d.Whole = survey.StoreID, survey.Prefix, survey.Keys, !survey.Torn
	return d
}

// state is the word for its completeness.
func (d *backupDocument) state() string {
	switch {
	case d.Error != "":
		return "unreadable: " + d.Error
	case !d.Whole:
		return "torn"
	}
	return "whole"
}

// cells are a row of a table without the state.
func (d *backupDocument) cells() []output.Cell {
	age, keys := "-", "-"
	if d.AgeMS != nil {
		age, keys = ageText(time.Duration(*d.AgeMS)*time.Millisecond), cli.Number(d.Keys)
	}
	return []output.Cell{{Text: d.Name}, {Text: age}, {Text: strings.TrimSpace(d.Command + " " + d.Selection)},
		{Text: cmp.Or(d.Context, d.Store, "-")}, {Text: keys}, {Text: output.Bytes(d.Bytes)}}
}

// ageText is an age in its largest unit.
func ageText(age time.Duration) string {
	switch {
	case age < time.Minute:
		return fmt.Sprintf("%ds", int(age.Seconds()))
	case age < time.Hour:
		return fmt.Sprintf("%dm", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf("%dh", int(age.Hours()))
	}
	return fmt.Sprintf("%dd", int(age.Hours()/24))
}

// backupColumns are the columns of cells.
func backupColumns() []output.Column {
	return []output.Column{{Header: "NAME"}, {Header: "AGE", Right: true}, {Header: "COMMAND", Shrinks: 8, Drops: 2},
		{Header: "WHERE", Shrinks: 8, Drops: 1}, {Header: "KEYS", Right: true}, {Header: "SIZE", Right: true}}
}

func runBackupsList(ctx context.Context, g *cli.Globals) error {
	folder, err := cli.BackupFolder(g)
	if err != nil {
		return err
	}
	listed, err := folder.List()
	if err != nil {
		return cli.Usagef("the backups cannot be listed: %s%s", err, cli.StateHint(g.Env.Getenv))
	}
	answer := &backupsAnswer{SchemaVersion: output.SchemaVersion, Directory: folder.Path, Backups: []backupDocument{}}
	for i := range listed {
		if err := ctx.Err(); err != nil {
			return err
		}
		answer.Backups = append(answer.Backups, describeBackup(folder, &listed[i], g.Env.Now()))
		answer.Bytes += listed[i].Size
	}
	if len(listed) == 0 && !g.Quiet {
		g.Note("there are no backups in %s", folder.Path)
	}
	return g.Print(answer)
}

// backupsAnswer is the answer of backups list.
type backupsAnswer struct {
	SchemaVersion int              `json:"schema_version"`
	Directory     string           `json:"directory"`
	Bytes         int64            `json:"bytes"` // of all
	Backups       []backupDocument `json:"backups"`
}

// Lines implements output.Answer.
func (a *backupsAnswer) Lines() []any { return output.Lines(a.Backups) }

// Records implements output.Answer.
func (a *backupsAnswer) Records() [][]string {
	records := [][]string{{"name", "time", "command", "selection", "context", "store", "store_id", "prefix", "keys", "bytes", "whole",
		"error", "path"}}
	for i := range a.Backups {
		d := &a.Backups[i]
		made := ""
		if d.Time != nil {
			made = d.Time.Format(time.RFC3339)
		}
		records = append(records, []string{d.Name, made, d.Command, d.Selection, d.Context, d.Store, d.StoreID, d.Prefix,
			cli.Number(d.Keys),
			cli.Number(d.Bytes), fmt.Sprint(d.Whole), d.Error, d.Path})
	}
	return records
}

// Print implements output.Answer.
func (a *backupsAnswer) Print(p *output.Printer) {
	if len(a.Backups) == 0 {
		return
	}
	var rows [][]output.Cell
	for i := range a.Backups {
		style := output.Calm
		if !a.Backups[i].Whole {
			style = output.Near
		}
		rows = append(rows, append(a.Backups[i].cells(), output.Cell{Text: a.Backups[i].state(), Style: style}))
	}
	p.Table(append(backupColumns(), output.Column{Header: "STATE", Shrinks: 5}), rows)
	p.Line("%s, %s in %s", output.Plural(len(a.Backups), "backup"), output.Bytes(a.Bytes), a.Directory)
}
