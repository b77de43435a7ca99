package filestore

import (
	"context"
	"iter"
	"strings"

	"github.com/limitctl/limitctl/internal/keystates"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// batchKeys is the most keys of a scan's batch. Between batches others can write.
	batchKeys = 500
	// batchBytes is the number of bytes of records after which a batch ends: a log of a million units has 10 MB.
	batchBytes = 16 << 20
)

// found is one key of a scan, described or foreign.
type found struct {
	entry admin.Entry
	err   error
}

// Scan implements [admin.Keyspace]. It reads each batch at one instant. It ignores KeysPerSecond, since a scan of a
// file slows nobody else down.
func (s *Store) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		total, err := s.count(ctx, &q)
		looked := int64(0)
		for next := (position{}); err == nil; {
			var entries []found
			var n int
			entries, n, next, err = s.readBatch(ctx, &q, next)
			for _, f := range entries {
				if !yield(f.entry, f.err) {
					return
				}
			}
			looked += int64(n)
			q.Report(min(looked, total), total)
			if next == (position{}) {
				break
			}
		}
		if err != nil {
			yield(admin.Entry{}, err)
			return
		}
		q.Report(total, total)
	}
}

// count returns the approximate number of keys that a scan will read. It counts them in the index.
func (s *Store) count(ctx context.Context, q *admin.Query) (total int64, err error) {
	if q.Keys != nil {
		return int64(len(q.Keys)), nil
	}
	where, args := s.selected(q)
	err = s.read(ctx, func(t *transaction) error {
		if t.connection == nil {
			return nil
		}
		return t.row("SELECT count(*) FROM limits WHERE "+where, args...).Scan(&total)
	})
	return total, err
}

// position is where a scan continues: after a key, or at one of the keys of the query.
type position struct {
	after store.Key
	index int
}

// readBatch describes the selected keys of the batch at a position. It returns the number of keys that it read, and
// the next position, which is zero at the end.
func (s *Store) readBatch(ctx context.Context, q *admin.Query, from position) (entries []found, looked int, next position, err error) {
	query, args := s.batchQuery(q, from)
	err = s.read(ctx, func(t *transaction) error {
		entries, looked, next = entries[:0], 0, position{}
		if t.connection == nil {
			return nil
		}
		rows, err := t.conn.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		var key store.Key
		size := 0
		for ; (q.Keys != nil || size < batchBytes) && rows.Next(); looked++ {
			var record []byte
			if err := rows.Scan(&key.Subject, &key.Name, &record); err != nil {
				return err
			}
			if q.Keys == nil && !q.Selects(key) {
				continue
			}
			if f := s.explain(q, key, record, t.now); f.err != nil || f.entry.Decision.Used > 0 {
				entries = append(entries, f)
				size += len(f.entry.Record.Value)
			}
		}
		if q.Keys != nil && from.index+batchKeys < len(q.Keys) {
			next.index = from.index + batchKeys
		} else if q.Keys == nil && (looked == batchKeys || size >= batchBytes) {
			next.after = key
		}
		return rows.Err()
	})
	return entries, looked, next, err
}

func (s *Store) batchQuery(q *admin.Query, from position) (query string, args []any) {
	query = "SELECT subject, name, " + boundedRecord + " FROM limits WHERE prefix = ?" +
		" AND octet_length(subject) <= ? AND octet_length(name) <= ?"
	args = []any{s.prefix, store.MaxSubjectLength, store.MaxNameLength} // a key of ours is not longer
	if q.Keys != nil {
		keys := q.Keys[from.index:min(from.index+batchKeys, len(q.Keys))]
		query += " AND (subject, name) IN (VALUES " + strings.TrimSuffix(strings.Repeat("(?, ?), ", len(keys)), ", ") + ")"
		for _, key := range keys {
			args = append(args, key.Subject, key.Name)
		}
		return query, args
	}
	query, args = s.selectedAfter(q, from.after, query, args)
	return query + " ORDER BY subject, name LIMIT ?", append(args, batchKeys)
}

// selected is the condition of the rows that a scan looks at: a part of the index by prefix,
// subject and name, as small as the pattern's literal beginning makes it.
func (s *Store) selected(q *admin.Query) (where string, args []any) {
	return s.selectedAfter(q, store.Key{}, "prefix = ?", []any{s.prefix})
}

// selectedAfter adds to a condition that the rows are selected and come after a key. SQLite
// compares texts by their bytes, and no text has the byte 0xff.
func (s *Store) selectedAfter(q *admin.Query, after store.Key, where string, args []any) (string, []any) {
	if subject, exact := q.Subjects.Exact(); exact {
		return where + " AND subject = ? AND name > ?", append(args, subject, after.Name)
	}
	beginning := q.Subjects.LiteralBeginning()
	if after == (store.Key{}) {
		after.Subject = beginning
	}
	where, args = where+" AND (subject, name) > (?, ?)", append(args, after.Subject, after.Name)
	if beginning != "" {
		where, args = where+" AND subject < ?", append(args, beginning+"\xff")
	}
	return where, args
}

// explain says what a row of a scan is.
func (s *Store) explain(q *admin.Query, key store.Key, value []byte, now store.Instant) found {
	storeKey := admin.OwnLayout(s.prefix).StoreKey(key)
	var state store.State
	err := key.Validate()
	if err != nil {
		err = &store.ForeignError{StoreKey: storeKey, Holds: err.Error()}
	} else {
		err = decode(s.prefix, key, &state, value)
	}
	if err != nil {
		return found{admin.Entry{Key: key, StoreKey: storeKey}, err}
	}
	entry := admin.NewEntry(q, key, storeKey, &state, now)
	keystates.Complete(q, &entry, &state, now)
	return found{entry, nil}
}
