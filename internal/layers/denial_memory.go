package layers

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// denialMemory is the law of [store.DenialMemory]: after the store has denied a single take, the same take, and one of
// more units of the same key under the same limit, is denied without a call until its RetryAfter is over, for at most
// MaxStale.
//
// A refund, an adjustment or a charge through this store makes it forget the key; what others change it notices up to
// MaxStale late. Calls of several requests, shadow limits, takes with a token and other operations pass through.
type denialMemory struct {
	store.Store
	maxStale time.Duration
	time     stopwatch
	denials  *keyTable[denial]
}

func newDenialMemory(backend store.Store, settings store.DenialMemory, env Env) *denialMemory {
	settings = settings.WithDefaults()
	return &denialMemory{Store: backend, maxStale: settings.MaxStale, time: newStopwatch(env.Clock),
		denials: newKeyTable[denial](settings.Keys)}
}

// denial is a denial of the store. It is immutable.
type denial struct {
	decision store.Decision
	cost     int64
	// The store decided between sending and answer: the memory ends by the first, RetryAfter counts from the second.
	until, answered time.Duration
}

// Decide implements [store.Store].
func (s *denialMemory) Decide(ctx context.Context, op store.Op, reqs []store.Request,
	decisions []store.Decision) error {
	if op != store.Take && op != store.Peek {
		// They can give units back; also after an error or a panic.
		defer s.forget(reqs)
	}
	if op != store.Take || !isSingle(reqs, decisions) {
		return s.Store.Decide(ctx, op, reqs, decisions)
	}
	req := &reqs[0]
	set := s.denials.set(s.denials.hash(&req.Key))
	sent := s.time.now()
	if known := set.find(req); known != nil && known.value.answer(req, sent, &decisions[0]) {
		return nil
	}
	forgotten := set.forgotten.Load()
	if err := s.Store.Decide(ctx, op, reqs, decisions); err != nil {
		return err
	}
	if d := &decisions[0]; !d.Allowed && d.DecidedBy == store.DecidedByStore && !d.Unguarded && d.RetryAfter > 0 {
		remembered := &keyed[denial]{req.Key, req.Limit, req.Leave, denial{
			decision: *d, cost: req.Cost, until: sent + min(d.RetryAfter, s.maxStale), answered: s.time.now(),
		}}
		s.remember(set, remembered, forgotten)
	}
	return nil
}

// isSingle reports whether the denial memory and leases can answer a call.
func isSingle(reqs []store.Request, decisions []store.Decision) bool {
	return len(reqs) == 1 && len(decisions) == 1 && !reqs[0].Shadow && reqs[0].Token == ""
}

func (s *denialMemory) forget(reqs []store.Request) {
	for i := range reqs {
		key := &reqs[i].Key
		s.denials.set(s.denials.hash(key)).forget(key)
	}
}

// answer repeats the denial for req, if it is still valid at now.
func (k *denial) answer(req *store.Request, now time.Duration, d *store.Decision) bool {
	if now >= k.until || req.Cost < k.cost || req.NeverFits(store.Take) {
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

// remember keeps a denial, unless the key was forgotten during the call. A denial of a smaller cost covers more, so
// it stays.
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
	asked := k.request(k.value.cost)
	if old := set.find(&asked); old != nil && old.value.cost < k.value.cost && now < old.value.until {
		return
	}
	set.put(k, func(d *denial) time.Duration { return d.until })
}
