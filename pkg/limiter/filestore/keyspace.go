package filestore

import (
	"context"
	"iter"

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

// batch is a part of a scan, which is read at one instant.
type batch struct {
	found  []found
	looked int
	last   store.Key // the scan goes on after it
	ended  bool
}

// found is one key of a scan, described or foreign.
type found struct {
	entry admin.Entry
	err   error
}

// Scan implements [admin.Keyspace]. It reads each batch at one instant.
func (s *Store) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		var b batch
		looked, total := 0, int64(len(q.Keys))
		for !b.ended {
			err := s.read(ctx, func(t *transaction) (err error) {
				b = batch{last: b.last, ended: t.connection == nil}
				switch {
				case b.ended:
				case q.Keys != nil:
					err = s.readKeys(t, &q, looked, &b)
				default:
					if total == 0 { // counted in the index
						where, args := s.selected(&q, store.Key{})
						err = t.row("SELECT count(*) FROM limits WHERE "+where, args...).Scan(&total)
					}
					if err == nil {
						err = s.readRows(t, &q, &b)
					}
				}
				return err
			})
			if err != nil {
				yield(admin.Entry{}, err)
				return
			}
			for _, f := range b.found {
				if !yield(f.entry, f.err) {
					return
				}
			}
			looked += b.looked
			q.Report(min(int64(looked), total), total)
		}
		q.Report(total, total)
	}
}

// readKeys describes some of the keys of a query, from a place on.
func (s *Store) readKeys(t *transaction, q *admin.Query, from int, b *batch) error {
	to := min(from+batchKeys, len(q.Keys))
	for _, key := range q.Keys[from:to] {
		r, err := t.load(key)
		if err != nil && !isOwn(err) {
			return err
		}
		b.add(s.describe(t, q, key, r, err))
	}
	b.looked, b.ended = to-from, to == len(q.Keys)
	return nil
}

// readRows describes the keys that a query selects, after the last of the batch before.
func (s *Store) readRows(t *transaction, q *admin.Query, b *batch) error {
	where, args := s.selected(q, b.last)
	rows, err := t.query("SELECT subject, name, "+boundedRecord+" FROM limits WHERE "+where+
		" AND octet_length(subject) <= ? AND octet_length(name) <= ? ORDER BY subject, name LIMIT ?",
		append(args, store.MaxSubjectLength, store.MaxNameLength, batchKeys)...) // a key of ours is not longer
	if err != nil {
		return err
	}
	defer rows.Close()
	size := 0
	for b.ended = true; rows.Next(); b.looked++ {
		var record []byte
		if err := rows.Scan(&b.last.Subject, &b.last.Name, &record); err != nil {
			return err
		}
		if q.Selects(b.last) {
			r := new(row)
			size += b.add(s.describe(t, q, b.last, r, decode(s.prefix, b.last, &r.state, record)))
		}
		if size >= batchBytes || b.looked == batchKeys-1 {
			b.ended, b.looked = false, b.looked+1
			break
		}
	}
	return rows.Err()
}

// add adds what was found if it is in use, and returns the bytes of its record.
func (b *batch) add(f found) int {
	if f.err != nil || f.entry.Decision.Used > 0 {
		b.found = append(b.found, f)
	}
	return len(f.entry.Record.Value)
}

// selected is the condition of the rows that a scan looks at after a key: a part of the index by prefix, subject and
// name, as small as the pattern's literal beginning makes it. SQLite compares texts by their bytes, and no text has the
// byte 0xff.
func (s *Store) selected(q *admin.Query, after store.Key) (where string, args []any) {
	where, args = "prefix = ?", []any{s.prefix}
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

// describe says what a row of a scan is.
func (s *Store) describe(t *transaction, q *admin.Query, key store.Key, r *row, err error) found {
	storeKey := admin.OwnLayout(s.prefix).StoreKey(key)
	if wrong := key.Validate(); wrong != nil {
		err = &store.ForeignError{StoreKey: storeKey, Holds: wrong.Error()}
	}
	if err != nil {
		return found{admin.Entry{Key: key, StoreKey: storeKey}, err}
	}
	return found{keystates.Entry(q, key, storeKey, &r.state, t.now), nil}
}

// operator is the part of a Store that changes keys as operators ask for.
type operator = keystates.Operator

// change changes keys in one transaction.
func (s *Store) change(ctx context.Context, creates bool, do func(keystates.Each) error) error {
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
