package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/backup"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/files"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/cmd/internal/storeurl"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// consent is how a command that changes what others have comes to be allowed to.
type consent struct {
	yes     bool
	confirm string
}

func (c *consent) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&c.confirm, "confirm", "", "the `NAME` of the protected context, instead of typing it")
	cmd.RegisterFlagCompletionFunc("confirm", cobra.NoFileCompletions)
}

// consented reports whether nobody needs to be asked.
func (c *consent) consented(g *globalOptions) bool {
	_, _, protected := g.inUse()
	return c.confirm != "" || c.yes && !protected
}

// check reports early if the command would have to ask and cannot, or if nothing may
// be changed at all.
func (c *consent) check(g *globalOptions, command, does, otherwise string) error {
	if _, err := g.settings(); err != nil {
		return err
	}
	name, readOnly, protected := g.inUse()
	switch {
	case readOnly:
		return usagef("context %q is read-only; a %s writes, so it was not done", name, command)
	case c.confirm != "" && name == "":
		return usagef("%s names a context, and none is in use; nothing was done", shell.Command("--confirm", c.confirm))
	case c.confirm != "" && c.confirm != name:
		return usagef("%s is not the name of the context in use, which is %s; nothing was done", shell.Command("--confirm", c.confirm), name)
	case c.confirm != "":
		return nil
	case protected && !g.env.InIsTerminal:
		return usagef("context %s is protected, and there is no terminal to type its name on; give %s%s", name, shell.Command("--confirm", name), otherwise)
	case !protected && !c.yes && !g.env.InIsTerminal:
		return usagef("%s asks before it %s, and there is no terminal to ask on; give --yes%s", command, does, otherwise)
	}
	return nil
}

// ask asks the question on the terminal unless that was answered by a flag; anything
// but a clear yes is a no.
func (c *consent) ask(ctx context.Context, g *globalOptions, question string) error {
	name, _, protected := g.inUse()
	switch {
	case c.confirm != "" || c.yes && !protected:
		return nil
	case protected:
		fmt.Fprintf(g.env.Err, "Context %s is protected. %s? Type its name to go on: ", output.Escape(name), output.Escape(question))
	default:
		fmt.Fprintf(g.env.Err, "%s? [y/N] ", output.Escape(question))
	}
	var line string
	answered := make(chan error, 1)
	panics.Go(func() error { // so that Ctrl-C at the prompt is heard
		line, _ = bufio.NewReader(g.env.In).ReadString('\n')
		return nil
	}, func(err error) { answered <- err })
	select {
	case <-ctx.Done():
		fmt.Fprintln(g.env.Err)
		return &progressError{ctx.Err(), "nothing was changed"}
	case err := <-answered:
		if err != nil {
			return err
		}
		if !strings.HasSuffix(line, "\n") { // Ctrl-D, which leaves the cursor behind the question
			fmt.Fprintln(g.env.Err)
		}
		answer := strings.TrimSpace(line)
		if protected && answer == name || !protected && (strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")) {
			return nil
		}
		fmt.Fprintln(g.env.Err, "Nothing was changed.")
		return errDenied
	}
}

// backupOptions say where to write what is about to be changed.
type backupOptions struct {
	backup   string
	noBackup bool
}

func (o *backupOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.backup, "backup", "", "write the backup to a new `FILE` (default in the state directory)")
	cmd.Flags().BoolVar(&o.noBackup, "no-backup", false, "write no backup; what is deleted is gone")
	cmd.MarkFlagFilename("backup")
}

// backupFile is a backup being written. It is also where a reset keeps the list of
// what it will change.
type backupFile struct {
	file   files.File
	writer *backup.Writer
	path   string
	remove func(path string) error
	kept   bool
}

// createBackup creates the file of a backup, which must be new.
func (o *backupOptions) createBackup(g *globalOptions, entry *auditEntry) (*backupFile, error) {
	path, now := o.backup, g.env.Now().UTC()
	if path == "" {
		dir := stateDir(g.env.Getenv)
		if dir == "" {
			return nil, errNoState
		}
		dir = filepath.Join(dir, "backups")
		if err := g.env.MakeDir(dir); err != nil {
			return nil, usagef("no backup can be kept: %s; give --backup FILE, or --no-backup to do without. Nothing was changed", err)
		}
		path = filepath.Join(dir, fmt.Sprintf("%s-%d.jsonl", now.Format("20060102T150405.000Z"), g.env.Process))
	}
	file, err := g.env.Create(path)
	if err != nil {
		return nil, usagef("the backup cannot be written: %s; give another --backup FILE, or --no-backup to do without. Nothing was changed", err)
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	b := &backupFile{file: file, path: path, remove: g.env.Remove}
	name, _, _ := g.inUse()
	b.writer, err = backup.NewWriter(file, backup.Header{Time: now, Store: entry.Store, Context: name, Prefix: g.chosen.prefix.value,
		Command: entry.Command, Selection: bounded(entry.Selection)})
	if err != nil {
		b.discard()
		return nil, b.failed(err)
	}
	return b, nil
}

func (b *backupFile) failed(err error) error {
	return usagef("the backup %s cannot be written: %s", b.path, err)
}

// write writes records. Those that amend others reach the file before it returns.
func (b *backupFile) write(amends bool, records ...limiter.Record) error {
	err := b.writer.Write(amends, records...)
	if err == nil && amends {
		err = b.writer.Flush()
	}
	if err != nil {
		return b.failed(err)
	}
	return nil
}

// each makes sure that all is written and calls do with what was written so far, a
// batch at a time. do may write more.
func (b *backupFile) each(size int, do func([]limiter.Record) error) error {
	if err := errors.Join(b.writer.Flush(), b.file.Sync()); err != nil {
		return b.failed(err)
	}
	end, err := b.file.Seek(0, io.SeekEnd)
	if err != nil {
		return b.failed(err)
	}
	return new(backup.Contents).Each(io.NewSectionReader(b.file, 0, end), size, do)
}

// keep ends the backup of a change that ended with err, and returns its path and
// that error, to which its own may come.
func (b *backupFile) keep(err error) (string, error) {
	b.kept = true
	if closeErr := errors.Join(b.writer.Flush(), b.file.Sync(), b.file.Close()); closeErr != nil {
		err = errors.Join(err, &partlyError{fmt.Errorf("the backup %s may not be whole: %w", b.path, closeErr)})
	}
	return b.path, err
}

// discard removes the backup, unless it was kept.
func (b *backupFile) discard() {
	if !b.kept {
		b.file.Close()
		b.remove(b.path)
	}
}

// undoCommand is the command that brings back what a backup holds, in the store it
// is from. A password is left to be given again, as LIMITCTL_PASSWORD.
func (g *globalOptions) undoCommand(path string, replace bool) string {
	words := []string{"limitctl", "restore", path}
	if replace {
		words = append(words, "--replace")
	}
	if name, _, _ := g.inUse(); name != "" {
		words = append(words, "--context", name)
	} else if g.chosen.store.origin != byDefault { // it may be pasted where the environment is another
		words = append(words, "--store", storeurl.WithoutPasswords(g.chosen.store.value))
	}
	if g.configFile != "" {
		words = append(words, "--config", g.configFile)
	}
	if g.changed("prefix") {
		words = append(words, "--prefix", g.prefix)
	}
	return shell.Command(words...)
}

// adjustWorkers is how many adjustments go on at once; their calls share pipelines.
const adjustWorkers = 64

// adjust brings the usage of keys to what reqs say, and returns of how many.
func adjust(ctx context.Context, store connect.Store, reqs []limiter.Request) (adjusted int, err error) {
	var working panics.Group
	free := make(chan struct{}, adjustWorkers)
	errs := make([]error, len(reqs))
	for i := range reqs {
		free <- struct{}{}
		working.Go(func() {
			defer func() { <-free }()
			var decision [1]limiter.Decision
			errs[i] = store.Decide(ctx, limiter.Adjust, reqs[i:i+1], decision[:])
		})
	}
	panicked := working.Wait()
	for _, err := range errs {
		if err == nil {
			adjusted++
		}
	}
	return adjusted, errors.Join(append(errs, panicked)...)
}

// limitName is the name of a key's limit, without the attributes that can follow it.
func limitName(key limiter.Key) string {
	if parts, ok := policy.ParseKey(key); ok {
		return parts.Policy + "/" + parts.Limit
	}
	return key.Name
}
