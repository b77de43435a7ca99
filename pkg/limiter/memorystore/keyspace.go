package memorystore

import (
	"context"
	"iter"

	"github.com/limitctl/limitctl/internal/keystates"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Scan implements [admin.Keyspace]. It locks one stripe at a time and reads each stripe at one instant.
func (s *Store) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		if err := s.check(); err != nil {
			yield(admin.Entry{}, err)
			return
		}
		looked, total := int64(0), s.held.Load()
		byStripe := map[int][]store.Key{}
		if q.Keys != nil {
			total = int64(len(q.Keys))
			for _, key := range q.Keys {
				byStripe[s.stripeOf(key)] = append(byStripe[s.stripeOf(key)], key)
			}
		}
		for i := range s.stripes {
			found, n := s.scanStripe(&s.stripes[i], &q, byStripe[i])
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

// scanStripe returns the entries of a stripe that q selects: of these keys, if q has keys.
func (s *Store) scanStripe(in *stripe, q *admin.Query, keys []store.Key) (found []admin.Entry, looked int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	now := s.clock()
	look := func(key store.Key, e *entry) {
		if looked++; e != nil && (q.Keys != nil || q.Selects(key)) && e.state.Used(now) > 0 {
			described := admin.NewEntry(q, key, s.layout.StoreKey(key), &e.state, now)
			keystates.Complete(q, &described, &e.state, now)
			found = append(found, described)
		}
	}
	for _, key := range keys {
		look(key, in.keys.all[key])
	}
	if q.Keys == nil {
		for key, e := range in.keys.all {
			look(key, e)
		}
	}
	return found, looked
}

// changeEach changes keys one by one.
func (s *Store) changeEach(_ bool, do func(keystates.Each) error) error {
	if err := s.check(); err != nil {
		return err
	}
	return do(func(key store.Key, change func(*store.State, store.Instant) bool) error {
		return s.change([]store.Request{{Key: key}}, func(states []*store.State, now store.Instant) (bool, error) {
			return change(states[0], now), nil
		})
	})
}

// Delete implements [admin.Keyspace].
func (s *Store) Delete(_ context.Context, records ...admin.Record) (deleted int, changed []admin.Record, err error) {
	return keystates.Change(s.changeEach).Delete(records)
}

// Adjust implements [admin.Adjuster].
func (s *Store) Adjust(_ context.Context, adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
	return keystates.Change(s.changeEach).Adjust(adjustments)
}

// Import implements [admin.Keyspace].
func (s *Store) Import(_ context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	return keystates.Change(s.changeEach).Import(replace, records)
}
