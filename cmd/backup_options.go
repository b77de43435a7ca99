package cmd

import (
	"errors"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/backup"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/cmd/internal/storeurl"
)

// backupOptions say where to write what is about to be changed.
type backupOptions struct {
	backup   string
	noBackup bool
}

func (o *backupOptions) addBackupFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.backup, "backup", "", "write the backup to a new `FILE` (default in the state directory)")
	cmd.Flags().BoolVar(&o.noBackup, "no-backup", false, "write no backup; what is deleted is gone")
	cmd.MarkFlagFilename("backup")
}

// checkBackup reports flags that contradict each other.
func (o *backupOptions) checkBackup() error {
	if o.noBackup && o.backup != "" {
		return usagef("%s and --no-backup contradict each other; give one of them", shell.Command("--backup", o.backup))
	}
	return nil
}

// backupPlan is where the flags want the backup; nil for no backup.
func (o *backupOptions) backupPlan(env *Env) (*operation.BackupPlan, error) {
	switch {
	case o.noBackup:
		return nil, nil
	case o.backup != "":
		return &operation.BackupPlan{Path: o.backup}, nil
	}
	return defaultBackup(env)
}

// defaultBackup is a new file in the state directory.
func defaultBackup(env *Env) (*operation.BackupPlan, error) {
	dir := stateDir(env.Getenv)
	if dir == "" {
		return nil, errNoState
	}
	name := backup.Name(env.Now(), strconv.Itoa(env.Process))
	return &operation.BackupPlan{Path: filepath.Join(dir, "backups", name), MakeDir: true}, nil
}

// backupFolder is where backups are kept.
func (g *globalOptions) backupFolder() (*backup.Folder, error) {
	dir := stateDir(g.env.Getenv)
	if dir == "" {
		return nil, errNoState
	}
	return &backup.Folder{Path: filepath.Join(dir, "backups"), Entries: g.env.List, Open: g.env.Open}, nil
}

// withHint adds to the error of a backup that cannot be created which flags help.
func (o *backupOptions) withHint(err error) error {
	var none *operation.NoBackupError
	if !errors.As(err, &none) {
		return err
	}
	if o.backup == "" {
		return usagef("no backup can be kept: %s; give --backup FILE, or --no-backup to do without. Nothing was changed", none.Err)
	}
	return usagef("%s; give another --backup FILE, or --no-backup to do without. Nothing was changed", none)
}

// restoreCommand is the command that undoes a change in the store it was made in, whatever is
// done meanwhile. It holds no password: that has to be given again, as LIMITCTL_PASSWORD.
func (g *globalOptions) restoreCommand(s *settings, undo operation.Undo) string {
	words := []string{"restore", undo.Backup}
	if undo.Replace {
		words = append(words, "--replace")
	}
	return g.commandHere(s, words...)
}

// undoLine is the command to show to people for that. It is "limitctl undo" if the backup is
// where that looks; undo shows and asks before it does anything, should something else have
// become the last change. A backup somewhere else may be for another machine.
func (g *globalOptions) undoLine(s *settings, undo operation.Undo) string {
	folder, err := g.backupFolder()
	if err != nil || filepath.Dir(undo.Backup) != folder.Path {
		return g.restoreCommand(s, undo)
	}
	return g.commandHere(s, "undo")
}

// commandHere is a command for the store that is chosen.
func (g *globalOptions) commandHere(s *settings, words ...string) string {
	words = append([]string{"limitctl"}, words...)
	if s.context != nil {
		words = append(words, "--context", s.context.Name)
	} else if s.store.origin != byDefault { // it may be pasted where the environment is another
		words = append(words, "--store", storeurl.WithoutPasswords(s.store.value))
	}
	if g.configFile != "" {
		words = append(words, "--config", g.configFile)
	}
	if g.changed("prefix") {
		words = append(words, "--prefix", g.prefix)
	}
	return shell.Command(words...)
}
