package cli

import (
	"errors"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/operation"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/shell"
)

// BackupOptions are the flags that say where the backup of a change goes.
type BackupOptions struct {
	backup   string
	noBackup bool
}

// AddBackupFlags adds --backup and --no-backup.
func (o *BackupOptions) AddBackupFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.backup, "backup", "", "write the backup to a new `FILE` (default in the state directory)")
	cmd.Flags().BoolVar(&o.noBackup, "no-backup", false, "write no backup; deleted keys cannot be restored")
	cmd.MarkFlagFilename("backup")
}

// CheckBackup reports flags that contradict each other.
func (o *BackupOptions) CheckBackup() error {
	if o.noBackup && o.backup != "" {
		return Usagef("%s and --no-backup contradict each other; give one of them", shell.Command("--backup", o.backup))
	}
	return nil
}

// BackupPlan is where the flags want the backup; nil for no backup.
func (o *BackupOptions) BackupPlan(env *Env) (*operation.BackupPlan, error) {
	switch {
	case o.noBackup:
		return nil, nil
	case o.backup != "":
		return &operation.BackupPlan{Path: o.backup}, nil
	}
	return DefaultBackup(env)
}

// DefaultBackup is a new file in the state directory.
func DefaultBackup(env *Env) (*operation.BackupPlan, error) {
	dir := StateDir(env.Getenv)
	if dir == "" {
		return nil, errNoState
	}
	name := backup.Name(env.Now(), strconv.Itoa(env.Process))
	return &operation.BackupPlan{Path: filepath.Join(dir, "backups", name), MakeDir: true}, nil
}

// BackupFolder is where backups are kept.
func BackupFolder(g *Globals) (*backup.Folder, error) {
	dir := StateDir(g.Env.Getenv)
	if dir == "" {
		return nil, errNoState
	}
	return &backup.Folder{Path: filepath.Join(dir, "backups"), Entries: g.Env.List, Open: g.Env.Open}, nil
}

// WithHint adds the flags that help to the error of a backup that cannot be created.
func (o *BackupOptions) WithHint(err error) error {
	var none *operation.NoBackupError
	if !errors.As(err, &none) {
		return err
	}
	if o.backup == "" {
		return Usagef("no backup can be kept: %s; give --backup FILE, or --no-backup to do without. Nothing was changed", none.Err)
	}
	return Usagef("%s; give another --backup FILE, or --no-backup to do without. Nothing was changed", none)
}

// UndoCommand is the command that undoes a change in its store, whatever happens in between.
// It holds no password; the user gives that again, as LIMITCTL_PASSWORD.
func UndoCommand(g *Globals, s *Settings, backup string) string {
	return CommandHere(g, s, "undo", backup)
}

// UndoLine is the command that undoes a change, as people see it: "limitctl undo" if the backup is
// where undo looks. Undo shows the last change and asks first, in case there is a later one.
// A backup somewhere else may be for another machine.
func UndoLine(g *Globals, s *Settings, backup string) string {
	folder, err := BackupFolder(g)
	if err != nil || filepath.Dir(backup) != folder.Path {
		return UndoCommand(g, s, backup)
	}
	return CommandHere(g, s, "undo")
}

// CommandHere is a command for the store that is chosen.
func CommandHere(g *Globals, s *Settings, words ...string) string {
	words = append([]string{"limitctl"}, words...)
	if s.Context != nil {
		words = append(words, "--context", s.Context.Name)
	} else if s.Store.Origin != byDefault { // it may be pasted where the environment is another
		words = append(words, "--store", redisserver.WithoutPasswords(s.Store.Value))
	}
	if g.ConfigFile != "" {
		words = append(words, "--config", g.ConfigFile)
	}
	if _, given := g.GivenBy("prefix"); given { // it may be pasted where the environment is another
		words = append(words, "--prefix", g.Prefix)
	}
	return shell.Command(words...)
}
