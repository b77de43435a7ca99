package filestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"iter"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// page is how many keys a scan reads at once; between pages others can write.
const page = 500

// maxPage is how many bytes of records a page has before it ends: a log of a million
// units has 10 MB.
const maxPage = 16 << 20

// found is one key of a scan, described or foreign.
type found struct {
	entry limiter.Entry
	err   error
}

// Scan implements [limiter.Keyspace]. Each page of it is one instant. A file has no
// other users to spare with KeysPerSecond.
func (s *Store) Scan(ctx context.Context, q limiter.Query) iter.Seq2[limiter.Entry, error] {
	return func(yield func(limiter.Entry, error) bool) {
		total, err := s.count(ctx, &q)
		looked := int64(0)
		for next := (position{}); err == nil; {
			var entries []found
			var n int
			entries, n, next, err = s.readPage(ctx, &q, next)
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
		switch {
		case err == nil:
			q.Report(total, total)
		case !errors.Is(err, errMissing):
			yield(limiter.Entry{}, s.translate(ctx, err, false))
		}
	}
}

// count returns about how many keys a scan will look at.
func (s *Store) count(ctx context.Context, q *limiter.Query) (total int64, err error) {
	if q.Keys != nil {
		return int64(len(q.Keys)), nil
	}
	if err := s.takeTurn(ctx); err != nil {
		return 0, err
	}
	defer s.giveTurn()
	if err := s.open(ctx, false); err != nil {
		return 0, err
	}
	err = s.retryBusy(ctx, func() error {
		return s.db.QueryRowContext(ctx, "SELECT count(*) FROM limits WHERE prefix = ?", s.prefix).Scan(&total)
	})
	return total, err
}

// position is where a scan goes on: after a key, or at one of the query's.
type position struct {
	after limiter.Key
	index int
}

// readPage describes the selected keys of the page at a position. It returns how
// many it looked at, and where to go on, which is zero at the end.
func (s *Store) readPage(ctx context.Context, q *limiter.Query, from position) (entries []found, looked int, next position, err error) {
	if err := s.takeTurn(ctx); err != nil {
		return nil, 0, next, err
	}
	defer s.giveTurn()
	if err := s.open(ctx, false); err != nil {
		return nil, 0, next, err
	}
	query, args := s.pageQuery(q, from)
	err = s.retryBusy(ctx, func() error {
		entries, looked, next = entries[:0], 0, position{}
		rows, err := s.db.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		now := limiter.InstantOf(s.clock())
		var key limiter.Key
		size := 0
		for ; (q.Keys != nil || size < maxPage) && rows.Next(); looked++ {
			var record []byte
			if err := rows.Scan(&key.Subject, &key.Name, &record); err != nil {
				return err
			}
			if q.Keys == nil && !q.Selects(key) {
				continue
			}
			if f := s.explain(q, key, record, now); f.err != nil || f.entry.Decision.Used > 0 {
				entries = append(entries, f)
				size += len(f.entry.Record.Value)
			}
		}
		if q.Keys != nil && from.index+page < len(q.Keys) {
			next.index = from.index + page
		} else if q.Keys == nil && (looked == page || size >= maxPage) {
			next.after = key
		}
		return rows.Err()
	})
	return entries, looked, next, err
}

func (s *Store) pageQuery(q *limiter.Query, from position) (query string, args []any) {
	query = "SELECT subject, name, " + boundedRecord + " FROM limits WHERE prefix = ?" +
		" AND octet_length(subject) <= ? AND octet_length(name) <= ?"
	args = []any{s.prefix, limiter.MaxSubjectLength, limiter.MaxNameLength} // what is longer is no key of ours, whoever wrote it
	if q.Keys != nil {
		keys := q.Keys[from.index:min(from.index+page, len(q.Keys))]
		query += " AND (subject, name) IN (VALUES " + strings.TrimSuffix(strings.Repeat("(?, ?), ", len(keys)), ", ") + ")"
		for _, key := range keys {
			args = append(args, key.Subject, key.Name)
		}
		return query, args
	}
	query += " AND (subject, name) > (?, ?)"
	args = append(args, from.after.Subject, from.after.Name)
	if subject, exact := q.Subjects.Exact(); exact {
		query += " AND subject = ?"
		args = append(args, subject)
	}
	return query + " ORDER BY subject, name LIMIT ?", append(args, page)
}

func (s *Store) explain(q *limiter.Query, key limiter.Key, value []byte, now limiter.Instant) found {
	storeKey := limiter.StoreKey(s.prefix, key)
	var state limiter.State
	err := key.Validate()
	if err == nil {
		err = decode(&state, value)
	}
	if err != nil {
		return found{limiter.Entry{Key: key, StoreKey: storeKey}, &limiter.ForeignError{StoreKey: storeKey, Holds: err.Error()}}
	}
	entry := limiter.NewEntry(key, storeKey, &state, now)
	if q.Bytes {
		entry.Bytes = int64(len(key.Subject) + len(key.Name) + len(value))
	}
	if q.Records {
		entry.Record = record(key, &state, now)
	}
	return found{entry, nil}
}

func record(key limiter.Key, state *limiter.State, now limiter.Instant) limiter.Record {
	return limiter.Record{Key: key, Value: state.AppendRecord(nil), Expires: state.UnusedAt(now).Time()}
}

// Delete implements [limiter.Keyspace] in one transaction.
func (s *Store) Delete(ctx context.Context, records ...limiter.Record) (deleted int, changed []limiter.Record, err error) {
	var foreign []error
	err = s.transact(ctx, keysOf(records), func(tx *sql.Tx, now limiter.Instant) error {
		deleted, changed, foreign = 0, nil, nil
		for i := range records {
			var state limiter.State
			err := s.load(ctx, tx, records[i].Key, &state)
			if errors.Is(err, limiter.ErrForeign) {
				foreign = append(foreign, err)
				continue
			}
			if err != nil {
				return err
			}
			if state.Used(now) > 0 {
				deleted++
				if r := record(records[i].Key, &state, now); records[i].Value != nil && !bytes.Equal(r.Value, records[i].Value) {
					changed = append(changed, r)
				}
			}
			if !state.IsZero() {
				if err := s.save(ctx, tx, records[i].Key, new(limiter.State), now); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	return deleted, changed, errors.Join(foreign...)
}

// Import implements [limiter.Keyspace] in one transaction.
func (s *Store) Import(ctx context.Context, replace bool, records ...limiter.Record) ([]limiter.ImportOutcome, error) {
	for i := range records {
		if err := records[i].Check(); err != nil {
			return nil, err
		}
	}
	outcomes := make([]limiter.ImportOutcome, len(records))
	if err := s.makeFile(ctx); err != nil {
		return nil, err
	}
	err := s.transact(ctx, keysOf(records), func(tx *sql.Tx, now limiter.Instant) error {
		for i := range records {
			var imported, state limiter.State
			if err := imported.DecodeRecord(records[i].Value); err != nil {
				return err
			}
			err := s.load(ctx, tx, records[i].Key, &state)
			switch {
			case errors.Is(err, limiter.ErrForeign):
				outcomes[i] = limiter.Foreign
			case err != nil:
				return err
			case imported.Used(now) == 0:
				outcomes[i] = limiter.Lapsed
			case state.Used(now) > 0 && !replace:
				outcomes[i] = limiter.InUse
				if bytes.Equal(state.AppendRecord(nil), records[i].Value) {
					outcomes[i] = limiter.Imported
				}
			default:
				outcomes[i] = limiter.Imported
				if err := s.save(ctx, tx, records[i].Key, &imported, now); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// makeFile makes the file, if it is missing.
func (s *Store) makeFile(ctx context.Context) error {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.giveTurn()
	if err := s.open(ctx, true); err != nil {
		return s.translate(ctx, err, false)
	}
	return nil
}

// transact calls do in a transaction, and again if it could not be committed for
// others that write. In a missing file there is nothing to do.
func (s *Store) transact(ctx context.Context, keys []limiter.Key, do func(tx *sql.Tx, now limiter.Instant) error) error {
	for _, key := range keys {
		if err := key.Validate(); err != nil {
			return err
		}
	}
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.giveTurn()
	if err := s.open(ctx, false); errors.Is(err, errMissing) {
		return nil
	} else if err != nil {
		return s.translate(ctx, err, false)
	}
	committing := false
	err := s.retryBusy(ctx, func() error {
		committing = false
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := do(tx, limiter.InstantOf(s.clock())); err != nil {
			return err
		}
		committing = true
		return tx.Commit()
	})
	return s.translate(ctx, err, committing)
}

func keysOf(records []limiter.Record) []limiter.Key {
	keys := make([]limiter.Key, len(records))
	for i := range records {
		keys[i] = records[i].Key
	}
	return keys
}
