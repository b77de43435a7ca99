package loadgen

import (
	"github.com/limitctl/limitctl/pkg/limiter"
)

// Target is what subjects ask of a store: one or several limits each, which are
// decided together.
type Target struct {
	limits   int
	requests []limiter.Request // of each subject one for each limit, at a cost of 1
	keys     []uint32          // the index of each request's key among those of its limit
	owners   [][]uint32        // of each limit's keys one request that asks for it
	mixed    []map[uint32]bool // each limit's keys that are asked for under different limits
}

// NewTarget asks request for what each of the subjects asks under each of the limits.
// Subjects may share keys. It returns the error of the first request that is unfit.
func NewTarget(subjects, limits int, request func(subject, limit int) limiter.Request) (*Target, error) {
	t := &Target{
		limits:   limits,
		requests: make([]limiter.Request, 0, subjects*limits),
		keys:     make([]uint32, 0, subjects*limits),
		owners:   make([][]uint32, limits),
		mixed:    make([]map[uint32]bool, limits),
	}
	known := make([]map[limiter.Key]uint32, limits)
	for i := range known {
		known[i] = make(map[limiter.Key]uint32, subjects)
		t.mixed[i] = map[uint32]bool{}
	}
	var normalized []limiter.Request
	for subject := range subjects {
		first := len(t.requests)
		for limit := range limits {
			r := request(subject, limit)
			r.Cost = 1
			t.requests = append(t.requests, r)
		}
		var err error
		if normalized, err = limiter.NormalizeAll(normalized[:0], limiter.Take, t.requests[first:]); err != nil {
			return nil, err
		}
		copy(t.requests[first:], normalized)
		for limit := range limits {
			r := &t.requests[first+limit]
			index, is := known[limit][r.Key]
			switch {
			case !is:
				index = uint32(len(t.owners[limit]))
				known[limit][r.Key] = index
				t.owners[limit] = append(t.owners[limit], uint32(first+limit))
			case t.requests[t.owners[limit][index]].Limit != r.Limit:
				t.mixed[limit][index] = true
			}
			t.keys = append(t.keys, index)
		}
	}
	return t, nil
}

// Subjects returns how many subjects there are.
func (t *Target) Subjects() int { return len(t.requests) / t.limits }

// Limits returns how many limits are decided together.
func (t *Target) Limits() int { return t.limits }

// Requests returns what subject asks under each limit, at a cost of 1. It is not to be
// changed.
func (t *Target) Requests(subject uint32) []limiter.Request {
	return t.requests[int(subject)*t.limits : int(subject+1)*t.limits]
}

// KeyIndexes returns the index of each of the subject's keys among those of its limit.
// It is not to be changed.
func (t *Target) KeyIndexes(subject uint32) []uint32 {
	return t.keys[int(subject)*t.limits : int(subject+1)*t.limits]
}

// Keys returns the keys of all subjects under one limit, by their index.
func (t *Target) Keys(limit int) []limiter.Key {
	keys := make([]limiter.Key, len(t.owners[limit]))
	for i, owner := range t.owners[limit] {
		keys[i] = t.requests[owner].Key
	}
	return keys
}

// MixedKeys returns how many keys of one limit are asked for under different limits in
// turn, since what chooses an override is not a part of the key. The audit holds them
// against the first.
func (t *Target) MixedKeys(limit int) int { return len(t.mixed[limit]) }

// AllKeys returns every key once.
func (t *Target) AllKeys() []limiter.Key {
	var all []limiter.Key
	for limit := range t.limits {
		all = append(all, t.Keys(limit)...)
	}
	return all
}

// MostAtOnce returns the greatest cost that fits every limit that can deny.
func (t *Target) MostAtOnce() int64 {
	most := int64(limiter.MaxCount)
	for i := range t.requests {
		if r := &t.requests[i]; !r.Shadow {
			most = min(most, r.Limit.Capacity())
		}
	}
	return most
}
