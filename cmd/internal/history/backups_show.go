package history

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/backup"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type backupsShowOptions struct {
	*cli.Globals
	all bool
}

// shownKeys is how many keys of a backup a terminal shows without --all.
const shownKeys = 40

func newBackupsShowCmd(global *cli.Globals) *cobra.Command {
	o := &backupsShowOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "show BACKUP",
		Short: "Show what a backup holds",
		Long: `Show prints the keys of a backup, each with its limit, the units that would be
in use now, and when it expires. For keys of other limiters it prints the units
that were in use when the backup was made. BACKUP is a file or the name of a
backup. On a terminal it shows the first 40 keys; --all shows all.`,
		Example: "  limitctl backups show 20261122T031405.120Z-4711.jsonl\n  limitctl backups show backup.jsonl --all",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("backups show takes one BACKUP; `limitctl backups list` shows which there are")
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, args []string) error { return runBackupsShow(cmd.Context(), o, args[0]) },
		ValidArgsFunction: cli.Offers(global).Backups,
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "show all keys, also on a terminal")
	return cmd
}

// backupKey is a key in a backup.
type backupKey struct {
	Key   string `json:"key"`
	Name  string `json:"name"`
	Limit string `json:"limit"` // empty if it is unknown, or the key was unused
	Used  *int64 `json:"used"`  // now; 0 if it would not be restored
	// StoreKeys are those of another limiter's limit. Used is then the usage at the time of the backup, null if
	// unknown.
	StoreKeys []string `json:"store_keys,omitempty"`
	// KeyBase64 and StoreKeysBase64 are the bytes of texts that are not UTF-8.
	KeyBase64       string     `json:"key_base64,omitempty"`
	StoreKeysBase64 []string   `json:"store_keys_base64,omitempty"`
	ExpiresAt       *time.Time `json:"expires_at"`
}

func runBackupsShow(ctx context.Context, o *backupsShowOptions, name string) error {
	path := findBackup(o.Globals, name)
	file, err := o.Env.Open(path)
	if err != nil {
		return cli.Usagef("the backup %s cannot be read: %s; `limitctl backups list` names those that are there", shell.Command(name),
			cli.Cause(err))
	}
	defer file.Close()
	contents, err := backup.Check(file)
	if err != nil {
		return cli.Usagef("%s: %s", path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return cli.Usagef("%s: %s", path, err)
	}
	answer := &backupAnswer{SchemaVersion: output.SchemaVersion, Path: path, Header: contents.Header, Bytes: info.Size(),
		Whole: !contents.Torn && contents.Damaged == 0, Damaged: contents.Damaged, Count: contents.Records, Layouts: contents.Layouts,
		Keys: []backupKey{}}
	if o.Env.OutIsTerminal && o.Format.String() == "table" && !o.all {
		answer.most = shownKeys
	}
	for _, damage := range contents.Damage {
		o.Note("warning: %s: %s", path, output.Printable(cli.Message(damage)))
	}
	if _, err := file.Seek(0, 0); err != nil {
		return cli.Usagef("%s: %s", path, err)
	}
	now := store.InstantOf(o.Env.Now())
	const batchSize = 500
	err = contents.Each(file, batchSize, func(batch backup.Batch) error {
		for i := range batch.Records {
			if answer.most == 0 || len(answer.Keys) < answer.most {
				answer.add(&batch, i, now)
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return o.Print(answer)
}

// backupAnswer is the answer of backups show.
type backupAnswer struct {
	SchemaVersion int    `json:"schema_version"`
	Path          string `json:"path"`
	backup.Header
	Bytes   int64       `json:"bytes"`
	Whole   bool        `json:"whole"`
	Damaged int         `json:"damaged_lines"`
	Count   int         `json:"records"`
	Layouts []string    `json:"layouts,omitempty"` // of other limiters
	Keys    []backupKey `json:"keys"`
	most    int         // how many keys are shown; 0 is all
}

func (a *backupAnswer) add(batch *backup.Batch, i int, now store.Instant) {
	r := &batch.Records[i]
	key := backupKey{Key: r.Key.Subject, Name: r.Key.Name, KeyBase64: output.Base64IfNeeded(r.Key.Subject)}
	expires := r.Expires
	if len(r.Members) > 0 {
		e := admin.Entry{Limit: batch.Limits[i]}
		if e.CapacityKnown() {
			key.Limit = e.LimitText()
		}
		key.Used, expires = batch.Used[i], r.Members[0].Expires
		for j := range r.Members {
			key.StoreKeys = append(key.StoreKeys, r.Members[j].StoreKey)
		}
		key.StoreKeysBase64 = output.AllBase64IfNeeded(key.StoreKeys)
	} else if none := int64(0); backup.IsUnused(r) { // which does not hold the limit
		key.Used = &none
	} else if state, err := r.Decode(); err == nil {
		used := state.Used(now)
		key.Limit, key.Used = batch.Limits[i].String(), &used
	}
	if !expires.IsZero() {
		expires = expires.UTC()
		key.ExpiresAt = &expires
	}
	a.Keys = append(a.Keys, key)
}

// used is the usage, or the text unknown.
func (k *backupKey) used(unknown string) string {
	if k.Used == nil {
		return unknown
	}
	return cli.Number(*k.Used)
}

// Lines implements output.Answer.
func (a *backupAnswer) Lines() []any { return output.Lines(a.Keys) }

// Records implements output.Answer.
func (a *backupAnswer) Records() [][]string {
	records := [][]string{{"key", "name", "limit", "used", "expires_at"}}
	if a.Layout != "" {
		records[0] = append(records[0], "store_keys")
	}
	for i := range a.Keys {
		k := &a.Keys[i]
		row := []string{k.Key, k.Name, k.Limit, k.used(""), k.expires(time.RFC3339, "")}
		if a.Layout != "" {
			row = append(row, shell.Command(k.StoreKeys...))
		}
		records = append(records, row)
	}
	return records
}

// expires is when the key expires, in a layout of time, or the text never.
func (k *backupKey) expires(layout, never string) string {
	if k.ExpiresAt == nil {
		return never
	}
	return k.ExpiresAt.Format(layout)
}

// Print implements output.Answer.
func (a *backupAnswer) Print(p *output.Printer) {
	state := "whole"
	switch {
	case a.Damaged > 0:
		state = output.Plural(a.Damaged, "damaged line")
	case !a.Whole:
		state = "torn: the last line is not whole"
	}
	p.Line("%s, %s, %s", a.Path, output.Bytes(a.Bytes), state)
	where := a.Store
	if a.Context != "" {
		where = a.Context + ", " + a.Store
	}
	if a.StoreID != "" {
		where += ", id " + a.StoreID
	}
	of := "prefix " + a.Prefix
	if a.Layout != "" {
		of = "keys of " + strings.Join(a.Layouts, ", ")
	}
	p.Line("%s at %s in %s, %s", output.Printable(strings.TrimSpace(a.Command+" "+a.Selection)), clockTime(a.Time),
		output.Printable(where), output.Printable(of))
	rows := make([][]output.Cell, 0, len(a.Keys))
	for i := range a.Keys {
		k := &a.Keys[i]
		limit := k.Limit
		if len(k.StoreKeys) > 0 {
			limit = cmp.Or(limit, cli.NotKnown)
		}
		row := []output.Cell{{Text: k.Key}, {Text: k.Name}, {Text: limit}, {Text: k.used(cli.NotKnown)},
			{Text: k.expires("2006-01-02 15:04:05", "never")}}
		if a.Layout != "" { // a restore writes these, whatever the subject
			row = append(row, output.Cell{Text: strings.Join(k.StoreKeys, " + ")})
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		columns := []output.Column{{Header: "SUBJECT", Shrinks: 20}, {Header: "NAME", Drops: 2}, {Header: "LIMIT", Drops: 1},
			{Header: "USED", Right: true}, {Header: "EXPIRES"}}
		if a.Layout != "" {
			columns = append(columns, output.Column{Header: "STORE KEYS", Shrinks: 20})
		}
		p.Table(columns, slices.Clip(rows))
	}
	if more := a.Count - len(a.Keys); more > 0 && a.most > 0 {
		p.Line("… and %s more; --all shows them", output.Plural(more, "key"))
	}
}

// clockTime is an instant for people, in UTC as in the names of backups.
func clockTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 MST") }
