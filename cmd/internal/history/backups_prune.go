package history

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/cmd/internal/backup"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type backupsPruneOptions struct {
	*cli.Globals
	olderThan, maxSize string
	keep               int
	yes, dryRun        bool
}

func newBackupsPruneCmd(global *cli.Globals) *cobra.Command {
	o := &backupsPruneOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove old backups",
		Long: `Prune removes the backups that are older than --older-than, all but the newest
--keep, and the oldest ones until all together fit into --max-size. It shows
them and asks. Without a terminal it needs --yes.

It never removes the newest backup of a store, nor the backup of a reset that
has no outcome in the audit log, because it is still running or was killed.`,
		Example: `  limitctl backups prune --older-than 30d --dry-run
  limitctl backups prune --keep 20 --yes
  limitctl backups prune --max-size 1GB --yes`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			rule, err := o.rule(cmd)
			if err != nil {
				return err
			}
			return runBackupsPrune(cmd.Context(), o, rule)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&o.olderThan, "older-than", "", "remove backups that are older than `DURATION`, such as 30d or 12h")
	cmd.Flags().IntVar(&o.keep, "keep", 0, "remove all but the newest `N` backups")
	cmd.Flags().StringVar(&o.maxSize, "max-size", "", "remove the oldest backups until all have at most `SIZE`, such as 500MB or 1GB")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be removed and remove nothing")
	return cmd
}

// pruneRule selects the backups to remove. A nil part selects none.
type pruneRule struct {
	olderThan *time.Duration
	keep      *int
	maxSize   *int64
}

// rule reads the flags.
func (o *backupsPruneOptions) rule(cmd *cobra.Command) (rule pruneRule, err error) {
	if o.olderThan != "" {
		age, err := store.ParsePeriod(o.olderThan)
		if err != nil {
			return rule, cli.Usagef("--older-than %q is not a duration; write it like 30d or 12h", o.olderThan)
		}
		rule.olderThan = &age
	}
	if cmd.Flags().Changed("keep") {
		if o.keep < 1 {
			return rule, cli.Usagef("--keep %d is not a number of backups, from 1", o.keep)
		}
		rule.keep = &o.keep
	}
	if o.maxSize != "" {
		size, err := parseSize(o.maxSize)
		if err != nil {
			return rule, cli.Usagef("--max-size %q is not a size; write it like 500MB or 1GB", o.maxSize)
		}
		rule.maxSize = &size
	}
	if rule == (pruneRule{}) {
		return rule, cli.Usagef("prune needs to know which backups to remove; give --older-than, --keep or --max-size")
	}
	return rule, nil
}

// parseSize reads a number of bytes, with a unit of powers of 1,000.
func parseSize(text string) (int64, error) {
	digits := strings.TrimRight(text, "kKMGTBib ")
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, strconv.ErrSyntax
	}
	units := map[string]float64{"": 1, "B": 1, "k": 1e3, "kB": 1e3, "KB": 1e3, "K": 1e3, "M": 1e6, "MB": 1e6, "G": 1e9, "GB": 1e9,
		"T": 1e12, "TB": 1e12, "KiB": 1 << 10, "kiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
	unit, known := units[strings.TrimSpace(text[len(digits):])]
	const most = 1e18
	if size := n * unit; known && size >= 0 && size <= most { // false for NaN
		return int64(size), nil
	}
	return 0, strconv.ErrSyntax
}

// keptBackup is a backup with what prune needs to know.
type keptBackup struct {
	backup.File
	made time.Time // when it was made, or last written to if that is unknown
	// store is the same for backups of one store.
	store string
	// unended: the audit has no end of its run.
	unended bool
}

// choose returns the backups to remove, and how many stay although the rule selects them. The newest of all comes
// first.
func (r *pruneRule) choose(all []keptBackup, now time.Time) (gone []keptBackup, spared int) {
	var total int64
	for i := range all {
		total += all[i].Size
	}
	newest := map[string]bool{}
	marked := make([]bool, len(all))
	needed := make([]bool, len(all))
	for i := range all {
		b := &all[i]
		needed[i] = b.unended || !newest[b.store]
		newest[b.store] = true
		marked[i] = r.olderThan != nil && now.Sub(b.made) > *r.olderThan || r.keep != nil && i >= *r.keep
		if marked[i] && !needed[i] {
			total -= b.Size
		}
	}
	for i := len(all) - 1; i >= 0 && r.maxSize != nil && total > *r.maxSize; i-- {
		if !marked[i] {
			if marked[i] = true; !needed[i] {
				total -= all[i].Size
			}
		}
	}
	for i := range all {
		switch {
		case marked[i] && needed[i]:
			spared++
		case marked[i]:
			gone = append(gone, all[i])
		}
	}
	return gone, spared
}

func runBackupsPrune(ctx context.Context, o *backupsPruneOptions, rule pruneRule) error {
	if !o.yes && !o.dryRun && !o.Env.InIsTerminal {
		return cli.Usagef("backups prune asks before it removes, and there is no terminal to ask on; " +
			"give --yes, or --dry-run to look first")
	}
	folder, all, err := o.keptBackups(ctx)
	if err != nil {
		return err
	}
	gone, spared := rule.choose(all, o.Env.Now())
	answer := &pruneAnswer{SchemaVersion: output.SchemaVersion, DryRun: o.dryRun, Spared: spared, Backups: []backupDocument{}}
	for i := range gone {
		answer.Backups = append(answer.Backups, describeBackup(folder, &gone[i].File, o.Env.Now()))
		answer.Matched++
	}
	if spared > 0 && !o.Quiet {
		o.Note("%s kept: the newest of a store, or of a reset that has not ended", output.Plural(spared, "backup"))
	}
	if o.dryRun || len(gone) == 0 {
		return o.Print(answer)
	}
	if !o.yes {
		question := operation.Question{Text: fmt.Sprintf("Remove %s, %s", output.Plural(len(gone), "backup"), output.Bytes(sizeOf(gone)))}
		answer.printRows(&output.Printer{Out: o.Env.Err})
		if err := (&cli.Observer{Global: o.Globals}).Confirm(ctx, question); err != nil {
			return err
		}
	}
	var failures []error
	for i := range gone {
		if err := o.Env.Remove(gone[i].Path); err != nil {
			failures = append(failures, err)
			continue
		}
		answer.Removed++
		answer.Freed += gone[i].Size
	}
	err = errors.Join(failures...)
	if err != nil && answer.Removed > 0 {
		err = outcome.Partly(err)
	}
	return errors.Join(err, o.Print(answer))
}

func sizeOf(backups []keptBackup) (bytes int64) {
	for i := range backups {
		bytes += backups[i].Size
	}
	return bytes
}

// keptBackups lists the backups, and what decides whether they may be removed.
func (o *backupsPruneOptions) keptBackups(ctx context.Context) (*backup.Folder, []keptBackup, error) {
	folder, err := cli.BackupFolder(o.Globals)
	if err != nil {
		return nil, nil, err
	}
	files, err := folder.List()
	if err != nil {
		return nil, nil, cli.Usagef("the backups cannot be listed: %s%s", err, cli.StateHint(o.Env.Getenv))
	}
	runs, err := localRuns(ctx, o.Globals)
	if err != nil {
		return nil, nil, err
	}
	ended := map[string]bool{}
	for _, e := range runs {
		if e.Backup != "" {
			ended[e.Backup] = e.Outcome != auditlog.Begun
		}
	}
	const settled = time.Hour // a reset that is not in the audit yet may be scanning
	all := make([]keptBackup, len(files))
	for i, file := range files {
		b := keptBackup{File: file, made: file.Changed}
		if header, err := folder.Header(file.Path); err == nil {
			b.made = header.Time
			if b.store = header.StoreID; b.store == "" {
				b.store = header.Store
			}
			b.store += "\x00" + header.Prefix
		}
		over, known := ended[strings.TrimSuffix(file.Path, ".gz")]
		b.unended = known && !over || !known && o.Env.Now().Sub(file.Changed) < settled
		all[i] = b
	}
	return folder, all, nil
}

// pruneAnswer is the answer of backups prune.
type pruneAnswer struct {
	SchemaVersion int              `json:"schema_version"`
	Matched       int              `json:"matched"`
	Removed       int              `json:"removed"`
	Freed         int64            `json:"freed_bytes"`
	Spared        int              `json:"spared"` // selected by the rule, and kept
	DryRun        bool             `json:"dry_run"`
	Backups       []backupDocument `json:"backups"` // those that the rule selects
}

// Lines implements output.Answer.
func (a *pruneAnswer) Lines() []any { return output.Lines(a.Backups) }

// Records implements output.Answer.
func (a *pruneAnswer) Records() [][]string { return (&backupsAnswer{Backups: a.Backups}).Records() }

// Print implements output.Answer.
func (a *pruneAnswer) Print(p *output.Printer) {
	if a.DryRun {
		a.printRows(p)
		p.Line("would remove %s (dry run)", output.Plural(a.Matched, "backup"))
		return
	}
	p.Line("removed %s, %s", output.Plural(a.Removed, "backup"), output.Bytes(a.Freed))
}

func (a *pruneAnswer) printRows(p *output.Printer) {
	var rows [][]output.Cell
	for i := range a.Backups {
		rows = append(rows, a.Backups[i].cells())
	}
	if len(rows) > 0 {
		p.Table(backupColumns(), rows)
	}
}
