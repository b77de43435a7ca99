package filestore

import (
	"context"
	"errors"
	"os"
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
	// Keys is the number of keys of this prefix that are in use.
	Keys int64
}

// Health examines the file. It writes nothing, and waits for the write lock.
func (s *Store) Health(ctx context.Context) (Health, error) {
	h := Health{Path: s.path}
	for _, path := range []string{s.path, s.path + "-wal"} {
		if info, err := os.Stat(path); err == nil {
			h.Bytes += info.Size()
		}
	}
	err := s.read(ctx, func(t *transaction) error {
		if h.Exists = t.connection != nil; !h.Exists {
			return nil
		}
		return errors.Join(
			t.row("PRAGMA journal_mode").Scan(&h.JournalMode), t.row("PRAGMA quick_check(1)").Scan(&h.Damage),
			t.row("SELECT count(*) FROM limits WHERE prefix = ? AND unused_at > ?", s.prefix, int64(t.now)).
				Scan(&h.Keys))
	})
	if h.Damage == "ok" {
		h.Damage = ""
	}
	if err == nil && h.Exists {
		h.NotWritable = s.write(ctx, false, func(t *transaction) error {
			return t.exec("DELETE FROM limits WHERE false")
		})
	}
	return h, err
}
