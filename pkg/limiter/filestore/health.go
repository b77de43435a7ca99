package filestore

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Health describes the file for operators.
type Health struct {
	Path   string
	Exists bool  // the first take creates the file
	Bytes  int64 // with its log of changes
	// JournalMode is "wal" in a file that limitctl made.
	JournalMode string
	// Damage is what SQLite finds wrong; empty for a sound file.
	Damage string
	// NotWritable says why the file cannot be written; nil if it can.
	NotWritable error
	// Keys is the number of keys of this prefix. Lapsed is the number of those that are unused now and wait to be
	// reclaimed.
	Keys, Lapsed int64
	// Free is the number of free bytes in the file. Shrinks says that they return to the file system.
	Free    int64
	Shrinks bool
}

// Health examines the file. It writes nothing, and waits for the write lock.
func (s *Store) Health(ctx context.Context) (Health, error) {
	h := Health{Path: s.path}
	ctx, cancel := limited(ctx)
	defer cancel()
	if err := s.takeTurn(ctx, &s.reader); err != nil {
		return h, err
	}
	defer s.reader.giveTurn()
	for _, path := range []string{s.path, s.path + "-wal"} {
		if info, err := os.Stat(path); err == nil {
			h.Bytes += info.Size()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return h, s.translate(ctx, err, false)
		}
	}
	if err := s.open(ctx, &s.reader, false); errors.Is(err, errMissing) {
		return h, nil
	} else if err != nil {
		return h, s.translate(ctx, err, false)
	}
	h.Exists = true
	err := s.retryBusy(ctx, func() error {
		return errors.Join(
			s.reader.conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&h.JournalMode),
			s.reader.conn.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&h.Damage),
			s.reader.conn.QueryRowContext(ctx, `SELECT freelist_count * page_size, auto_vacuum = 2
				FROM pragma_freelist_count, pragma_page_size, pragma_auto_vacuum`).Scan(&h.Free, &h.Shrinks),
			s.reader.conn.QueryRowContext(ctx, "SELECT count(*), count(CASE WHEN unused_at <= ? THEN 1 END) FROM limits WHERE prefix = ?",
				int64(store.InstantOf(s.clock())), s.prefix).Scan(&h.Keys, &h.Lapsed))
	})
	if h.Damage == "ok" {
		h.Damage = ""
	}
	if err != nil {
		return h, s.translate(ctx, err, false)
	}
	h.NotWritable = s.translate(ctx, s.tryToWrite(ctx), false)
	return h, nil
}

// tryToWrite begins a transaction that writes, and rolls it back.
func (s *Store) tryToWrite(ctx context.Context) error {
	if err := s.begin(ctx, &s.reader); err != nil {
		return err
	}
	err := s.reader.exec("DELETE FROM limits WHERE false")
	_ = s.reader.exec("ROLLBACK")
	return err
}
