package memorystore

import (
	"context"
	"iter"
	"time"

	"github.com/limitctl/limitctl/internal/keystates"
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
	keystates.Complete(q, &described, &e.state, now)
	return described
}

// change changes keys one by one.
func (s *Store) change(_ bool, do func(keystates.Each) error) error {
	if err := s.check(); err != nil {
		return err
	}
	return do(func(key store.Key, change func(*store.State, store.Instant) bool) error {
		return s.withRoom(func() error { return s.changeOne(key, change) })
	})
}

func (s *Store) changeOne(key store.Key, change func(*store.State, store.Instant) bool) error {
	hash := s.hash(key)
	stripe := s.stripeOf(hash)
	stripe.mu.Lock()
	defer stripe.mu.Unlock()
	now := s.clock()
	e := stripe.find(hash, key)
	isNew := e == nil
	if isNew {
		e = &entry{key: key}
	}
	if !change(&e.state, now) {
		return nil
	}
	if isNew && !e.state.IsZero() && !s.bound.reserve(1) {
		return s.bound.full
	}
	e.expireAfter(time.Duration(e.state.UnusedAt(now)-now)*time.Microsecond, now)
	stripe.keep(hash, e, isNew)
	return nil
}

// Delete implements [admin.Keyspace].
func (s *Store) Delete(_ context.Context, records ...admin.Record) (deleted int, changed []admin.Record, err error) {
	return keystates.Change(s.change).Delete(records)
}

// Adjust implements [admin.Adjuster].
func (s *Store) Adjust(_ context.Context, adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
	return keystates.Change(s.change).Adjust(adjustments)
}

// Import implements [admin.Keyspace].
func (s *Store) Import(_ context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	return keystates.Change(s.change).Import(replace, records)
}
