package memorystore

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Scan implements [admin.Keyspace]. It locks one stripe at a time and reads each stripe at one instant. It ignores
// KeysPerSecond, since it delays nobody else.
func (s *Store) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		if err := s.check(); err != nil {
			yield(admin.Entry{}, err)
			return
		}
		total := int64(0)
		for i := range s.stripes {
			total += int64(s.stripes[i].size())
		}
		if q.Keys != nil {
			for _, key := range q.Keys {
				if e, inUse := s.look(&q, key); inUse && !yield(e, nil) {
					return
				}
			}
			q.Report(int64(len(q.Keys)), int64(len(q.Keys)))
			return
		}
		looked := int64(0)
		for i := range s.stripes {
			found, n := s.scanStripe(&s.stripes[i], &q)
			for _, e := range found {
				if err := ctx.Err(); err != nil {
					yield(admin.Entry{}, err)
					return
				}
				if !yield(e, nil) {
					return
				}
			}
			looked += int64(n)
			q.Report(min(looked, total), total)
		}
		q.Report(total, total)
	}
}

func (s *Store) scanStripe(stripe *stripe, q *admin.Query) (found []admin.Entry, looked int) {
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	now := s.clock()
	for _, at := range stripe.slots {
		if e := at.entry; e != nil && q.Selects(e.key) && e.state.Used(now) > 0 {
			found = append(found, s.describe(q, e, now))
		}
	}
	return found, stripe.held
}

func (s *stripe) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// look describes one key, if it is in use.
func (s *Store) look(q *admin.Query, key store.Key) (entry admin.Entry, inUse bool) {
	hash := s.hash(key)
	stripe := s.stripeOf(hash)
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	now := s.clock()
	e := stripe.find(hash, key)
	if e == nil || e.state.Used(now) == 0 {
		return admin.Entry{}, false
	}
	return s.describe(q, e, now), true
}

func (s *Store) describe(q *admin.Query, e *entry, now store.Instant) admin.Entry {
	described := admin.NewEntry(q, e.key, s.layout.StoreKey(e.key), &e.state, now)
	described.State = nil // the reader must not keep it
	if q.States && e.state.IsShort() {
		described.State = e.state.Clone()
	}
	if q.Bytes {
		described.Bytes = int64(len(e.key.Subject) + len(e.key.Name) + len(e.state.AppendRecord(nil)))
	}
	if q.Records {
		described.Record = recordOf(e, now)
	}
	return described
}

func recordOf(e *entry, now store.Instant) admin.Record {
	return admin.Record{Key: e.key, Value: e.state.AppendRecord(nil), Expires: e.state.UnusedAt(now).Time()}
}

// Delete implements [admin.Keyspace].
func (s *Store) Delete(ctx context.Context, records ...admin.Record) (deleted int, changed []admin.Record, err error) {
	if err := s.check(); err != nil {
		return 0, nil, err
	}
	for i := range records {
		if err := records[i].Key.Validate(); err != nil {
			return 0, nil, err
		}
	}
	for i := range records {
		hash := s.hash(records[i].Key)
		stripe := s.stripeOf(hash)
		stripe.mu.Lock()
		if e := stripe.find(hash, records[i].Key); e != nil {
			if now := s.clock(); e.state.Used(now) > 0 {
				deleted++
				if r := recordOf(e, now); records[i].Value != nil && !bytes.Equal(r.Value, records[i].Value) {
					changed = append(changed, r)
				}
			}
			stripe.remove(stripe.index(hash, records[i].Key))
		}
		stripe.mu.Unlock()
	}
	return deleted, changed, nil
}

// Adjust implements [admin.Keyspace].
func (s *Store) Adjust(ctx context.Context, adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	adjustments = slices.Clone(adjustments)
	for i := range adjustments {
		if err := adjustments[i].Normalize(); err != nil {
			return nil, err
		}
	}
	results := make([]admin.Adjusted, len(adjustments))
	for i := range adjustments {
		if err := s.withRoom(func() (err error) { results[i], err = s.adjustOne(&adjustments[i]); return err }); err != nil {
			return results, err
		}
	}
	return results, nil
}

func (s *Store) adjustOne(a *admin.Adjustment) (admin.Adjusted, error) {
	hash := s.hash(a.Key)
	stripe := s.stripeOf(hash)
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	now := s.clock()
	e := stripe.find(hash, a.Key)
	if e == nil {
		fresh := &entry{key: a.Key}
		_, changed := a.Apply(&fresh.state, now)
		if changed && !s.bound.reserve(1) {
			return admin.Adjusted{}, s.bound.full
		}
		if changed {
			fresh.expireAfter(time.Duration(fresh.state.UnusedAt(now)-now)*time.Microsecond, now)
			stripe.add(hash, fresh)
		}
		return admin.Adjusted{Done: true, After: fresh.state.Used(now)}, nil
	}
	var held admin.Record
	if a.Kept != nil {
		held = recordOf(e, now)
	}
	before, changed := a.Apply(&e.state, now)
	result := admin.Adjusted{Done: true, Before: before, After: e.state.Used(now)}
	if !changed {
		return result, nil
	}
	if before > 0 && !bytes.Equal(held.Value, a.Kept) {
		result.Record = held
	}
	if e.state.IsZero() {
		stripe.remove(stripe.index(hash, a.Key))
		return result, nil
	}
	e.expireAfter(time.Duration(e.state.UnusedAt(now)-now)*time.Microsecond, now)
	return result, nil
}

// Import implements [admin.Keyspace].
func (s *Store) Import(ctx context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	for i := range records {
		if err := records[i].Check(); err != nil {
			return nil, err
		}
	}
	outcomes := make([]admin.ImportOutcome, len(records))
	for i := range records {
		if err := s.withRoom(func() (err error) { outcomes[i], err = s.importOne(replace, &records[i]); return err }); err != nil {
			return outcomes, err
		}
	}
	return outcomes, nil
}

func (s *Store) importOne(replace bool, r *admin.Record) (admin.ImportOutcome, error) {
	imported := &entry{key: r.Key}
	if imported.state.DecodeRecord(r.Value) != nil {
		return admin.Foreign, nil // unreachable: Check refuses it
	}
	hash := s.hash(r.Key)
	stripe := s.stripeOf(hash)
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	now := s.clock()
	unusedAt := imported.state.UnusedAt(now)
	if imported.state.Used(now) == 0 {
		return admin.Lapsed, nil
	}
	e := stripe.find(hash, r.Key)
	switch {
	case e == nil || e.state.Used(now) == 0:
	case bytes.Equal(e.state.AppendRecord(nil), r.Value):
		return admin.AlreadyThere, nil
	case !replace:
		return admin.InUse, nil
	}
	imported.expireAfter(time.Duration(unusedAt-now)*time.Microsecond, now)
	if e != nil {
		e.state, e.expiresAt = imported.state, imported.expiresAt
		return admin.Imported, nil
	}
	if !s.bound.reserve(1) {
		return admin.NotKnown, s.bound.full
	}
	stripe.add(hash, imported)
	return admin.Imported, nil
}
