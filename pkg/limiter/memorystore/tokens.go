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
	byToken map[string]store.TokenRecord
	most    int // that were in the map since it was made
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
		s.tokens.forgetSome(s.clock())
		known = s.tokens.byToken[text]
	}
	var record store.TokenRecord
	var changes store.Changes
	err = s.decideSeveral(reqs, decisions, func(states []*store.State, now store.Instant) (_ bool, err error) {
		record = known
		record.Charges = slices.Clone(known.Charges)
		changes, err = store.Decide(op, reqs, states, decisions, &record, now)
		return changes.States, err
	})
	if err == nil && changes.Token {
		s.tokens.keep(text, record)
	}
	return err
}

// keep remembers record for text, or forgets text if record is zero.
func (t *tokens) keep(text string, record store.TokenRecord) {
	if record.IsZero() {
		delete(t.byToken, text)
		return
	}
	if t.byToken == nil {
		t.byToken = map[string]store.TokenRecord{}
	}
	t.byToken[text] = record
}

// forgetSome looks at some tokens, which a map has in a random order, and removes those that have ended at now. Each call
// with a token does so, and thus few of those in memory have ended.
func (t *tokens) forgetSome(now store.Instant) {
	left := 8
	for text := range t.byToken {
		if t.byToken[text].Expires <= now {
			delete(t.byToken, text)
		}
		if left--; left == 0 {
			break
		}
	}
	if t.most = max(t.most, len(t.byToken)); len(t.byToken)*4 < t.most { // a map never shrinks
		t.byToken, t.most = maps.Collect(maps.All(t.byToken)), len(t.byToken)
	}
}
