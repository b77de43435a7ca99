package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/limitctl/limitctl/internal/readfile"
)

// errMissing: the file does not exist yet, so all keys are unused.
var errMissing = errors.New("no file yet")

// openDatabase opens the file, and creates it if create is set. Without create, a missing file is an errMissing.
func (s *Store) openDatabase(ctx context.Context, create bool) (*sql.DB, error) {
	if create {
		if err := s.create(); err != nil {
			return nil, err
		}
	} else if info, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() &&
		info.Size() == 0 {
		return nil, errMissing // an empty file is a database without anything in it
	}
	if err := s.checkKinds(); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dataSource(s.path))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := prepare(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// create makes the file for its owner alone, even if the umask allows more. An existing file keeps its mode: to
// share a file, create it beforehand. SQLite gives its other files the same mode.
func (s *Store) create() error {
	if s.makesDirectory {
		if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) { // SQLite would make what it points to
			return &fs.PathError{Op: "open", Path: s.path, Err: errors.New("it is a link to nothing")}
		}
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no directory %s; make it, or correct the path", filepath.Dir(s.path))
		return &fs.PathError{Op: "open", Path: s.path, Err: err}
	}
	if err != nil {
		return err
	}
	return file.Close()
}

// checkKinds returns an error if the file or one of those beside it is not a regular file. SQLite would open
// anything, and wait for it. The path of the file itself may be a link.
func (s *Store) checkKinds() error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		look := os.Lstat
		if suffix == "" {
			look = os.Stat
		}
		info, err := look(s.path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = readfile.CheckKind(info.Mode())
		}
		if err != nil {
			return &fs.PathError{Op: "open", Path: s.path + suffix, Err: err}
		}
	}
	return nil
}

// checkpointAfter is the number of pages in the log of changes, 16 MB, at which SQLite moves them into the database.
// All writers wait for the disk meanwhile: with SQLite's default of 1,000 pages, a busy file loses up to half of its
// time.
const checkpointAfter = 4000

// synchronous is when SQLite waits for the disk: at checkpoints. A failure of power loses the last changes at most.
var synchronous = "normal"

// dataSource names the file for the driver. Transactions take the write lock when they begin, so that nothing changes
// between reading and writing.
func dataSource(path string) string {
	options := url.Values{"_txlock": {"immediate"}}
	options.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()))
	options.Add("_pragma", "synchronous("+synchronous+")")
	options.Add("_pragma", fmt.Sprintf("wal_autocheckpoint(%d)", checkpointAfter))
	// The file may be damaged or hostile.
	options.Add("_pragma", "trusted_schema(off)")
	options.Add("_pragma", "cell_size_check(on)")
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + options.Encode()
}
