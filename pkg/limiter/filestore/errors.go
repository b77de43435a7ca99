package filestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// busyTimeout is how long SQLite itself waits for the lock of another process, before it returns and we can look at
	// the context. Each of its tries keeps others from the processor: with 50 processes, 5 ms cost four fifths of the
	// takes.
	busyTimeout = time.Millisecond
	// mostPause is the longest pause between tries, and how late a call can learn that its time is over.
	mostPause = 20 * time.Millisecond
)

// retryBusy calls do, which needs SQLite's lock, until it gets the lock, ctx ends or the Store is closed. Nothing has
// been written when SQLite says busy.
func (s *Store) retryBusy(ctx context.Context, do func() error) error {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, mostPause) {
		err := do()
		if !hasCode(err, sqlite3.SQLITE_BUSY) || ctx.Err() != nil {
			return err
		}
		if s.isClosed() {
			return s.errClosed()
		}
		time.Sleep(rand.N(pause)) // a random pause, so that processes do not stay in step
	}
}

// late returns the error of a call for which nothing was done until ctx ended.
func (s *Store) late(ctx context.Context) error {
	if gaveUp := store.GaveUp(ctx); gaveUp != nil {
		return fmt.Errorf("file %s had not answered when %w", s.path, gaveUp)
	}
	return fmt.Errorf("%w: file %s is busy or locked by another process: %w", store.ErrUnavailable, s.path,
		cmp.Or(ctx.Err(), context.DeadlineExceeded))
}

// hasCode reports whether err is an SQLite error of that code, or of that primary code.
func hasCode(err error, codes ...int) bool {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return false
	}
	for _, code := range codes {
		if failure.Code() == code || failure.Code()&0xff == code {
			return true
		}
	}
	return false
}

// isOwn reports whether err is about one call, and not about the file.
func isOwn(err error) bool {
	return errors.Is(err, store.ErrForeign) || errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrUnknownToken)
}

// translate turns an error of the file into one of package store. committing: the error came during the commit. ctx
// is the caller's.
func (s *Store) translate(ctx context.Context, err error, committing bool) error {
	isBusy := hasCode(err, sqlite3.SQLITE_BUSY)
	isLate := isBusy || hasCode(err, sqlite3.SQLITE_INTERRUPT) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
	path, isPath := errors.AsType[*fs.PathError](err)
	kind := store.ErrRefused
	switch {
	case err == nil, isOwn(err), errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrGaveUp), store.IsAway(err):
		return err // it is already one of package store
	case committing && (isLate && !isBusy || hasCode(err, sqlite3.SQLITE_IOERR)):
		kind = store.ErrOutcomeUnknown
	case isLate:
		return s.late(ctx)
	case hasCode(err, sqlite3.SQLITE_NOTADB):
		return fmt.Errorf("%w: file %s is not a limits file (it is not an SQLite database); it was left as it is", store.ErrForeign, s.path)
	case hasCode(err, sqlite3.SQLITE_CANTOPEN):
		return fmt.Errorf("%w: file %s cannot be opened; is its directory there and writable?", kind, s.path)
	case hasCode(err, sqlite3.SQLITE_READONLY):
		return fmt.Errorf("%w: file %s is not writable", kind, s.path)
	case isPath && path.Path == s.path:
		return fmt.Errorf("%w: file %s: %w", kind, s.path, path.Err)
	}
	if hasCode(err, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE) {
		return fmt.Errorf("%w: file %s cannot grow; is its disk full? %w", kind, s.path, shortened{err})
	}
	return fmt.Errorf("%w: file %s: %w", kind, s.path, shortened{err})
}

// shortened is an SQLite error that does not repeat the description of its code.
type shortened struct{ error }

func (e shortened) Error() string {
	return strings.TrimSpace(strings.TrimPrefix(e.error.Error(), "SQL logic error: "))
}

func (e shortened) Unwrap() error { return e.error }
