package operation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// BackupPlan says where a backup is written to.
type BackupPlan struct {
	// Path is that of a file that must not be there yet.
	Path string
	// MakeDir makes its directory, which is one of limitctl's own.
	MakeDir bool
}

// backupFile is a backup that is being written. It is also the list of what a reset has
// to do: the scan writes all keys into it and the reset reads them back from it, so that
// a reset of any number of keys holds only one batch of them in memory.
type backupFile struct {
	file   files.File
	writer *backup.Writer
	path   string
	kept   bool
}

// createBackup creates the file of a backup, and names it in entry: whoever finds that the run has begun and never
// ended has to find the backup, too. It is whole before the first key is changed. The header has what the change says
// of itself, and which store it is of, as far as that is known. Without a plan there is no backup: it is nil.
func (r *Runner) createBackup(ctx context.Context, plan *BackupPlan, entry *auditlog.Entry, header backup.Header) (
	*backupFile, error) {
	if plan == nil {
		return nil, nil
	}
	if plan.MakeDir {
		if err := files.MakeDir(filepath.Dir(plan.Path)); err != nil {
			return nil, noBackup(err)
		}
	}
	file, err := files.Create(plan.Path)
	if err != nil {
		return nil, noBackup(err)
	}
	b := &backupFile{file: file, path: absolute(plan.Path)}
	header.Time, header.Store, header.Context, header.Prefix = r.Now().UTC(), entry.Store, entry.Context, entry.Prefix
	header.Command, header.Selection, header.Layout = entry.Command, auditlog.Bounded(entry.Selection), r.Place.Layout
	header.Address, header.StoreID = r.Address, r.ensureStoreID(ctx)
	b.writer, err = backup.NewWriter(file, header)
	if err != nil {
		b.discard()
		return nil, b.failed(err)
	}
	entry.Backup = b.path
	return b, nil
}

// noBackup says why the file of a backup could not be created.
func noBackup(err error) error {
	return store.Invalidf("no backup can be kept: %s; nothing was changed. Reset takes another --backup FILE, or "+
		"--no-backup", err)
}

// absolute is a path that means the same in every directory, as far as that can be known.
func absolute(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

func (b *backupFile) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the backup %s cannot be written: %w", b.path, err)
}

// add writes the record of a key that is to be changed.
func (b *backupFile) add(e *admin.Entry) error { return b.failed(b.writer.Write(false, e.Record)) }

// amend writes records that replace those of the same keys. They are in the file when it returns.
func (b *backupFile) amend(records []admin.Record) error {
	return b.failed(errors.Join(b.writer.Write(true, records...), b.writer.Flush()))
}

// exclude says that keys were left as they are, so that a restore leaves them, too. It is in the file when it returns.
func (b *backupFile) exclude(records []admin.Record) error {
	return b.failed(errors.Join(b.writer.Exclude(records...), b.writer.Flush()))
}

// begin says that the change of all records up to a line begins. It is on the disk when it returns, since a restore
// leaves what is not marked.
func (b *backupFile) begin(last int64) error {
	return b.failed(errors.Join(b.writer.WriteBegun(last), b.writer.Flush(), b.file.Sync()))
}

// each makes sure that all is on the disk, and calls do with what was written so far, a
// batch at a time. do may amend records.
func (b *backupFile) each(size int, do func(backup.Batch) error) error {
	if err := errors.Join(b.writer.Flush(), b.file.Sync()); err != nil {
		return b.failed(err)
	}
	end, err := b.file.Seek(0, io.SeekEnd)
	if err != nil {
		return b.failed(err)
	}
	return new(backup.Contents).Each(io.NewSectionReader(b.file, 0, end), size, do)
}

// keep ends the backup of a change that ended with err. It returns err, joined with its
// own error if the file may not be whole.
func (b *backupFile) keep(err error) error {
	b.kept = true
	if closeErr := errors.Join(b.writer.Flush(), b.file.Sync(), b.file.Close()); closeErr != nil {
		return errors.Join(err, outcome.Partly(fmt.Errorf("the backup %s may not be whole: %w", b.path, closeErr)))
	}
	return err
}

// discard removes the file, unless it was kept.
func (b *backupFile) discard() {
	if b != nil && !b.kept {
		b.file.Close()
		files.Remove(b.path)
	}
}
