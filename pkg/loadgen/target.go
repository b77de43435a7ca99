package loadgen

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Target is what subjects ask of a store: one or several limits each, which are
// decided together.
type Target struct {
	limits   int
	requests []limiter.Request // of each subject one for each limit, at a cost of 1
	keys     []uint32          // the index of each request's key among those of its limit
	owners   [][]uint32        // of each limit's keys one request that asks for it
	mixed    []map[uint32]bool // those of each limit's keys that are under several limits
}

// NewTarget asks request for what each of the subjects asks under each of the limits.
// Subjects may share keys. A key that no store would take for its text has its subject
// or its name replaced by a number. It returns the error of the first request that is
// unfit otherwise.
func NewTarget(subjects, limits int, request func(subject, limit int) limiter.Request) (*Target, error) {
	b := newTargetBuilder(limits)
	requests := make([]limiter.Request, limits)
	for subject := range subjects {
		for limit := range limits {
			requests[limit] = request(subject, limit)
		}
		if err := b.add(requests); err != nil {
			return nil, err
		}
	}
	return &b.Target, nil
}

// targetBuilder is a Target that gets one subject after the other.
type targetBuilder struct {
	Target
	known      []map[limiter.Key]uint32 // of each limit, by the key as it was asked for
	numbers    map[string]int           // of subjects that are replaced by one
	normalized []limiter.Request
}

func newTargetBuilder(limits int) *targetBuilder {
	b := &targetBuilder{Target: Target{limits: limits, owners: make([][]uint32, limits)}, numbers: map[string]int{}}
	for range limits {
		b.known = append(b.known, map[limiter.Key]uint32{})
		b.mixed = append(b.mixed, map[uint32]bool{})
	}
	return b
}

// add adds what the next subject asks.
func (b *targetBuilder) add(requests []limiter.Request) error {
	first := len(b.requests)
	for limit, r := range requests {
		r.Cost = 1
		r.SetDefaults()
		index, is := b.known[limit][r.Key]
		switch {
		case !is:
			index = uint32(len(b.owners[limit]))
			b.known[limit][r.Key] = index
			b.owners[limit] = append(b.owners[limit], uint32(first+limit))
			r.Key = b.fit(r.Key, limit, index)
		default:
			owner := &b.requests[b.owners[limit][index]]
			r.Key = owner.Key
			if r.Limit != owner.Limit {
				b.mixed[limit][index] = true
			}
		}
		b.requests = append(b.requests, r)
		b.keys = append(b.keys, index)
	}
	var err error
	b.normalized, err = limiter.NormalizeAll(b.normalized[:0], limiter.Take, b.requests[first:])
	return err
}

// numbered begins what stands for a text that no store takes.
const numbered = "#"

// fit returns a key that any store takes. Keys of one subject still have one subject,
// and so lie in one slot of a Cluster.
func (b *targetBuilder) fit(key limiter.Key, limit int, index uint32) limiter.Key {
	if (limiter.Key{Subject: key.Subject, Name: "name"}).Validate() != nil || strings.HasPrefix(key.Subject, numbered) {
		number, is := b.numbers[key.Subject]
		if !is {
			number = len(b.numbers)
			b.numbers[key.Subject] = number
		}
		key.Subject = fmt.Sprint(numbered, number)
	}
	if (limiter.Key{Subject: "subject", Name: key.Name}).Validate() != nil || strings.HasPrefix(key.Name, numbered) {
		key.Name = fmt.Sprintf("%s%d:%d", numbered, limit, index)
	}
	return key
}

// MixedKeys returns how many keys of a limit are under different limits in turn, since
// what chooses an override is not a part of the key. An audit can hold them against one
// only.
func (t *Target) MixedKeys(limit int) int { return len(t.mixed[limit]) }

// Subjects returns how many subjects there are.
func (t *Target) Subjects() int { return len(t.requests) / max(1, t.limits) }

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

// auditors returns an audit of each limit that knows what its keys are under.
func (t *Target) auditors() []*audit.Auditor {
	all := make([]*audit.Auditor, t.limits)
	for limit := range all {
		all[limit] = audit.New()
		for key, owner := range t.owners[limit] {
			all[limit].SetLimit(uint32(key), t.requests[owner].Limit)
		}
	}
	return all
}

// Keys returns the keys of all subjects under one limit, by their index.
func (t *Target) Keys(limit int) []limiter.Key {
	keys := make([]limiter.Key, len(t.owners[limit]))
	for i, owner := range t.owners[limit] {
		keys[i] = t.requests[owner].Key
	}
	return keys
}

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
