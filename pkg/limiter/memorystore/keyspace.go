package memorystore

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

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
			found = append(found, keystates.Entry(q, key, s.layout.StoreKey(key), &e.state, now))
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

// operator is the part of a Store that changes keys as operators ask for.
type operator = keystates.Operator

// changeEach changes keys one by one.
func (s *Store) changeEach(_ context.Context, _ bool, do func(keystates.Each) error) error {
	if err := s.check(); err != nil {
		return err
	}
	return do(func(key store.Key, change func(*store.State, store.Instant) bool) error {
		return s.change([]store.Request{{Key: key}}, func(states []*store.State, now store.Instant) (bool, error) {
			return change(states[0], now), nil
		})
	})
}

// tokens remembers calls by their tokens. Its lock is held during the decision on such a call, so that charge and
// memory are one step. It is taken before the locks of stripes.
type tokens struct {
	mu      sync.Mutex
	byToken aging[string, store.TokenRecord]
}

// decideAny decides any call.
func (s *Store) decideAny(op store.Op, reqs []store.Request, decisions []store.Decision) error {
	reqs, err := store.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	text := reqs[0].Token
	var known store.TokenRecord
	if text != "" {
		s.tokens.mu.Lock()
		defer s.tokens.mu.Unlock()
		now := s.clock()
		s.tokens.byToken.sweep(8, func(r store.TokenRecord) bool { return r.Expires <= now })
		known = s.tokens.byToken.all[text]
	}
	var record store.TokenRecord
	var changes store.Changes
	err = s.change(reqs, func(states []*store.State, now store.Instant) (_ bool, err error) {
		record = known
		record.Charges = slices.Clone(known.Charges)
		changes, err = store.Decide(op, reqs, states, decisions, &record, now)
		return changes.States, err
	})
	switch {
	case err != nil || !changes.Token:
	case record.IsZero():
		delete(s.tokens.byToken.all, text)
	default:
		s.tokens.byToken.all[text] = record
	}
	return err
}

// aging is a map whose values end. Each change looks at some values, which a map has in a random order, and removes
// those that have ended; so few of those in memory have.
type aging[K comparable, V any] struct {
	all  map[K]V
	most int // that were in the map since it was made: a map never shrinks
}

// sweep looks at n values, and returns how many it has removed.
func (a *aging[K, V]) sweep(n int, ended func(V) bool) (removed int) {
	for key, value := range a.all {
		if ended(value) {
			delete(a.all, key)
			removed++
		}
		if n--; n <= 0 {
			break
		}
	}
	if a.most = max(a.most, len(a.all)); a.most > 64 && len(a.all)*8 < a.most {
		a.all, a.most = maps.Collect(maps.All(a.all)), len(a.all)
	}
	return removed
}
