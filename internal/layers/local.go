package layers

import (
	"context"
	"hash/maphash"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// shareRetry is the RetryAfter of a cost that its limit can allow but its share never does. Nobody knows when the
// store will be back, but earlier tries are of no use.
const shareRetry = time.Second

// decideLocally decides reqs with the fallback store, by a share of each limit.
func (s *failurePolicyStore) decideLocally(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	shared := slices.Clone(reqs)
	for i := range shared {
		r := &shared[i]
		// Check the limits first, since a share can make an invalid limit valid.
		if err := r.Normalize(op); err != nil {
			return err
		}
		r.SetLimit(s.Share.Of(r.Limit))
	}
	for i := range shared {
		if r := &shared[i]; (op == store.Take || op == store.Peek) && r.NeverFits(op) {
			// The answer is a denial. Peek at the other requests, and at this one as a shadow limit, since a store
			// refuses what can never fit.
			r.Shadow, op = true, store.Peek
		}
	}
	if held, is := store.As[interface{ Len() int }](s.Fallback); is {
		full := held.Len() >= fallbackKeys
		if full {
			crowded.Store(true)
		}
		if crowded.Load() {
			if err := s.putInCrowd(ctx, shared, full); err != nil {
				return err
			}
		}
	}
	if err := s.Fallback.Decide(ctx, op, shared, decisions); err != nil {
		return err
	}
	for i := range decisions {
		d := &decisions[i]
		d.DecidedBy, d.LocalShare = store.DecidedByLocal, s.Share
		if d.Shadow != reqs[i].Shadow {
			d.Shadow, d.RetryAfter = false, shareRetry
		}
	}
	return nil
}

// Tests have fewer.
var (
	// fallbackKeys is the number of keys that a fallback store in memory holds, without the crowd.
	fallbackKeys = 100_000
	// crowdKeys is the number of keys that all other keys of a limit share.
	crowdKeys uint64 = 1 << 14
)

// crowdSeed makes it unpredictable which keys share one. All fallback stores have the same seed, so that wrapping one
// again changes nothing.
var crowdSeed = maphash.MakeSeed()

// crowded: a fallback store of this process was full, so there can be a crowd.
var crowded atomic.Bool

// putInCrowd replaces keys that a full fallback store does not hold by keys that they share with others of the same limit,
// so that invented keys cannot fill the memory while the store is away. When the fallback store has room again, they keep
// the shared key as long as it has usage, so that nothing is allowed twice. A shared key denies sooner, and never
// lets more through. Shared with another limit it could: under a short period all usage of the key would fade soon.
func (s *failurePolicyStore) putInCrowd(ctx context.Context, reqs []store.Request, full bool) error {
	inUse := func(r *store.Request) (bool, error) {
		var held [1]store.Decision
		err := s.Fallback.Decide(ctx, store.Peek, []store.Request{{Key: r.Key, Limit: r.Limit, Cost: 1}}, held[:])
		return held[0].Used > 0, err
	}
	for i := range reqs {
		r := &reqs[i]
		if held, err := inUse(r); err != nil || held {
			if err != nil {
				return err
			}
			continue
		}
		own := r.Key
		name := "crowd " + r.Limit.String()
		place := maphash.String(crowdSeed, r.Key.Subject+"\x00"+r.Key.Name) % crowdKeys
		for { // two keys of one call must differ
			r.Key = store.Key{Subject: strconv.FormatUint(place, 10), Name: name}
			if !slices.ContainsFunc(reqs[:i], func(other store.Request) bool { return other.Key == r.Key }) {
				break
			}
			place = (place + 1) % crowdKeys
		}
		if full {
			continue
		}
		if shared, err := inUse(r); err != nil {
			return err
		} else if !shared {
			r.Key = own
		}
	}
	return nil
}
