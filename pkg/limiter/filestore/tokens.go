package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/limitctl/limitctl/internal/keystates"
	"github.com/limitctl/limitctl/internal/recordformat"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// findToken finds the record of a token. It reads one byte more than the longest record, so that a longer value is
// refused.
var findToken = fmt.Sprintf("SELECT substr(record, 1, %d) FROM tokens WHERE prefix = ? AND token = ?",
	recordformat.TokenHeaderSize+store.MaxRequests*recordformat.TokenChargeSize+1)

const (
	insertToken = `INSERT INTO tokens (prefix, token, record, ends) VALUES (?, ?, ?, ?)
		ON CONFLICT (prefix, token) DO UPDATE SET record = excluded.record, ends = excluded.ends`
	deleteToken   = "DELETE FROM tokens WHERE prefix = ? AND token = ?"
	reclaimTokens = "DELETE FROM tokens WHERE rowid IN (SELECT rowid FROM tokens WHERE ends <= ?+0 ORDER BY ends LIMIT ?)"
)

// decideAll decides reqs, and keeps what their token remembers.
func (t *transaction) decideAll(op store.Op, reqs []store.Request, states []*store.State, decisions []store.Decision,
) (changed bool, err error) {
	var record store.TokenRecord
	token := reqs[0].Token
	if token != "" && t.connection != nil {
		if record, err = t.loadToken(token); err != nil {
			return false, err
		}
	}
	changes, err := store.Decide(op, reqs, states, decisions, &record, t.now)
	if err == nil && changes.Token {
		err = t.saveToken(token, &record)
	}
	return changes.States, err
}

// loadToken returns the record of token.
func (t *transaction) loadToken(token string) (record store.TokenRecord, err error) {
	var held []byte
	if err = t.row(findToken, t.prefix, token).Scan(&held); errors.Is(err, sql.ErrNoRows) {
		return record, nil
	} else if err != nil {
		return record, err
	}
	if record, err = store.DecodeTokenRecord(held); err != nil {
		err = &store.ForeignError{StoreKey: t.prefix + "!" + store.TokenName(token), Holds: err.Error()}
	}
	return record, err
}

// saveToken saves the record of token, or deletes it if record is zero.
func (t *transaction) saveToken(token string, record *store.TokenRecord) error {
	if record.IsZero() {
		return t.exec(deleteToken, t.prefix, token)
	}
	if err := t.exec(insertToken, t.prefix, token, record.AppendRecord(nil), int64(record.Expires)); err != nil {
		return err
	}
	return t.exec(reclaimTokens, int64(t.now), reclaimed)
}

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
	// Free is the number of free bytes in the file, which new keys take.
	Free int64
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
			s.reader.conn.QueryRowContext(ctx, "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size").
				Scan(&h.Free),
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

// change changes keys in one transaction.
func (s *Store) change(ctx context.Context) keystates.Change {
	return func(creates bool, do func(keystates.Each) error) error {
		return s.write(ctx, creates, func(t *transaction) error {
			return do(func(key store.Key, change func(*store.State, store.Instant) bool) error {
				r, err := t.load(key)
				if err == nil {
					r.changed = change(&r.state, t.now) || r.changed
				}
				return err
			})
		})
	}
}

// Delete implements [admin.Keyspace] in one transaction.
func (s *Store) Delete(ctx context.Context, records ...admin.Record) (deleted int, changed []admin.Record, err error) {
	return s.change(ctx).Delete(records)
}

// Adjust implements [admin.Adjuster] in one transaction.
func (s *Store) Adjust(ctx context.Context, adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
	results, err := s.change(ctx).Adjust(adjustments)
	if err != nil && !errors.Is(err, store.ErrForeign) {
		return nil, err
	}
	return results, err
}

// Import implements [admin.Keyspace] in one transaction.
func (s *Store) Import(ctx context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	outcomes, err := s.change(ctx).Import(replace, records)
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}
