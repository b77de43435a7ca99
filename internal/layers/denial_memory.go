package layers

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DenialMemory says what [DenialMemory.Wrap] remembers. A zero field stands for its
// default.
type DenialMemory struct {
	// MaxStale is the longest that a denial is remembered; 1 s unless said.
	MaxStale time.Duration
	// Keys is about how many keys are remembered at a time, 16,384 unless said. Each takes
	// some 300 bytes. When there are more, the denials that end first are forgotten first.
	Keys int
	// Clock is the local time; the process's own unless said. It is only used for how much
	// time passed, so the store's clock may show another time.
	Clock func() time.Time
}

// Wrap wraps backend so that its denials are remembered: a single take that
// the store denied is denied again without asking, until its RetryAfter is over, but for at
// most MaxStale. So is a take of more units of the same key under the
// same limit. Such a decision is by [store.DecidedByDenialMemory].
//
// The memory never allows anything. It never denies what the store would allow, except after
// somebody else than this store's callers gave units back, deleted the key or charged it under another
// limit: that is noticed up to MaxStale late. A refund, an adjustment or a charge through this store makes it forget
// the key at once, and another limit is another question.
//
// RetryAfter and ResetAfter are counted down. For a take of more units than were denied
// before, RetryAfter is when those fewer units fit, so it can be too short; the store is
// asked then, and says the right one.
//
// Only denials of the store itself are remembered, not those of a failure policy. Calls of
// several requests, shadows, takes with a token and everything that is not a take pass through.
func (m DenialMemory) Wrap(backend store.Store) store.Store {
	if m.MaxStale <= 0 {
		m.MaxStale = time.Second
	}
	if m.Keys <= 0 {
		m.Keys = 16_384
	}
	return store.Wrap(&denialMemory{
		Store: backend, maxStale: m.MaxStale, time: newStopwatch(m.Clock), denials: newKeyTable[denial](m.Keys),
	}, backend)
}

type denialMemory struct {
	store.Store
	maxStale time.Duration
	time     stopwatch
	denials  *keyTable[denial]
}

// denial is what a store answered to a take. It is never changed.
type denial struct {
	decision store.Decision
	cost     int64
	// The store decided between the two: sent is when it was asked, answered when the
	// answer was here. The memory ends by the former, so that it is never late by the way of
	// the answer. It counts down from the latter, so that whoever waits never comes too early.
	until, answered time.Duration
}

// Decide implements [store.Store].
func (s *denialMemory) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if op != store.Take || !isSingle(reqs, decisions) {
		return s.pass(ctx, op, reqs, decisions)
	}
	req := reqs[0]
	req.SetDefaults()
	set := s.denials.set(s.denials.hash(&req.Key))
	sent := s.time.now()
	if known := set.find(&req); known != nil && known.value.answer(&req, sent, &decisions[0]) {
		return nil
	}
	forgotten := set.forgotten.Load()
	if err := s.Store.Decide(ctx, op, reqs, decisions); err != nil {
		return err
	}
	if d := &decisions[0]; !d.Allowed && d.DecidedBy == store.DecidedByStore && !d.Unguarded && d.RetryAfter > 0 {
		remembered := &keyed[denial]{req.Key, req.Limit, denial{
			decision: *d, cost: req.Cost, until: sent + min(d.RetryAfter, s.maxStale), answered: s.time.now(),
		}}
		s.remember(set, remembered, forgotten)
	}
	return nil
}

// isSingle reports whether a call is one request by itself, as the denial memory and
// leases answer it. What was allowed with a token is for the store to repeat.
func isSingle(reqs []store.Request, decisions []store.Decision) bool {
	return len(reqs) == 1 && len(decisions) == 1 && !reqs[0].Shadow && reqs[0].Token == ""
}

// pass hands a call through, and forgets the keys of one that may give units back.
func (s *denialMemory) pass(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if op != store.Take && op != store.Peek {
		// Also after an error or a panic: the units may have been given back all the same.
		defer s.forget(reqs)
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

func (s *denialMemory) forget(reqs []store.Request) {
	for i := range reqs {
		req := reqs[i]
		req.SetDefaults()
		s.denials.set(s.denials.hash(&req.Key)).forget(&req.Key)
	}
}

// answer denies req as the store did before, if that still counts at now.
func (k *denial) answer(req *store.Request, now time.Duration, d *store.Decision) bool {
	if now >= k.until || req.Cost < k.cost || req.Cost > req.Limit.Capacity() {
		return false
	}
	passed := max(0, now-k.answered).Truncate(time.Microsecond)
	*d = k.decision
	d.At += store.Instant(passed / time.Microsecond)
	d.RetryAfter -= passed
	d.ResetAfter = max(0, d.ResetAfter-passed)
	d.DecidedBy = store.DecidedByDenialMemory
	return true
}

// remember keeps a denial, unless the key was forgotten while the store was asked. What is
// remembered of a smaller cost says more, so it stays.
func (s *denialMemory) remember(set *keySet[denial], k *keyed[denial], forgotten uint64) {
	now := k.value.answered
	if now >= k.value.until {
		return
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.forgotten.Load() != forgotten {
		return
	}
	if old := set.find(&store.Request{Key: k.key, Limit: k.limit}); old != nil && old.value.cost < k.value.cost && now < old.value.until {
		return
	}
	set.put(k, func(d *denial) time.Duration { return d.until })
}
