package memorystore

import (
	"maps"
	"slices"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

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

// aging is a map whose values end. Each change looks at some values, which a map has in a random order, and removes those that
// have ended; so few of those in memory have.
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
