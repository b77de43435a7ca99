package layers

import (
	"context"
	"errors"
	"maps"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// partNamed returns the part that err names, if it does.
func partNamed(err error) (part string, named bool) {
	if err == nil {
		return "", false
	}
	var of *store.PartError
	if !errors.As(err, &of) {
		return "", false
	}
	return of.Part, true
}

// mostParts is the most circuits, however many names a store has for its parts.
const mostParts = 1024

// circuitOf returns the circuit of a part that contains key.
func (s *breakerStore) circuitOf(part string, key store.Key) *circuit {
	if part == "" {
		return &s.whole
	}
	if c := (*s.parts.Load())[part]; c != nil {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := (*s.parts.Load())[part]; c != nil {
		return c
	}
	// A new part may replace an old one.
	s.forgetVanished(nil)
	if known := *s.parts.Load(); len(known) >= mostParts {
		var leaves *circuit
		for _, c := range known {
			if leaves = c; c.state == BreakerClosed {
				break
			}
		}
		s.forget(leaves)
	}
	c := &circuit{sample: key}
	c.init(s, part)
	parts := maps.Clone(*s.parts.Load())
	parts[part] = c
	s.parts.Store(&parts)
	return c
}

// forgetVanished forgets parts, except one, that no longer contain their sample key. A part that still has other
// keys gets a new circuit with its next call. The caller holds the lock.
func (s *breakerStore) forgetVanished(except *circuit) {
	for _, c := range *s.parts.Load() {
		if c != except && s.parted.Part(c.sample) != c.part {
			s.forget(c)
		}
	}
}

// forget forgets a part. The caller holds the lock.
func (s *breakerStore) forget(c *circuit) {
	parts := maps.Clone(*s.parts.Load())
	delete(parts, c.part)
	s.parts.Store(&parts)
	c.gone = true
	if c.state != BreakerClosed {
		c.change(BreakerClosed, nil)
	}
}

// visit is a part that a call over several needs.
type visit struct {
	*circuit
	begun int64 // the epoch at the beginning
	first int   // the index of its first request
}

// decideAcross decides requests in several parts.
func (s *breakerStore) decideAcross(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	var few [8]visit // no allocation
	visits := few[:0]
	var closed *circuit // the first that refuses
next:
	for i := range reqs {
		part := s.parted.Part(reqs[i].Key)
		for n := range visits {
			if visits[n].part == part {
				continue next
			}
		}
		c := s.circuitOf(part, reqs[i].Key)
		v := visit{circuit: c, begun: c.epoch.Load(), first: i}
		if v.begun%2 != 0 && closed == nil {
			closed = c
		}
		visits = append(visits, v)
	}
	if closed != nil {
		return s.refuseAcross(ctx, closed, op, reqs)
	}
	begun := s.Clock()
	err := s.Store.Decide(ctx, op, reqs, decisions)
	if slow := s.Clock().Sub(begun) > s.Slow; err != nil {
		s.judgeAcross(visits, err, slow, reqs)
	} else if !slow {
		s.judgeAnswers(visits, reqs, decisions)
	}
	return err
}

// refuseAcross returns the error of the first part that refuses, and starts recovery checks of all such parts for
// which it is time, each with its own requests.
func (s *breakerStore) refuseAcross(ctx context.Context, first *circuit, op store.Op, reqs []store.Request) error {
	normal, err := store.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	byPart := map[string][]store.Request{}
	for _, req := range normal {
		part := s.parted.Part(req.Key)
		byPart[part] = append(byPart[part], req)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	refusal := first.refusal
	for part, own := range byPart {
		if c := s.known(part); c != nil {
			c.tryAgain(own)
		}
	}
	if err := store.GaveUp(ctx); err != nil {
		return err
	}
	return refusal
}

// known returns the circuit of a part, or nil.
func (s *breakerStore) known(part string) *circuit {
	if part == "" {
		return &s.whole
	}
	return (*s.parts.Load())[part]
}

// judgeAcross handles the error of a call over several parts. It is about one of them, and says nothing about the
// others, which may not have been called.
func (s *breakerStore) judgeAcross(visits []visit, err error, slow bool, reqs []store.Request) {
	part, named := partNamed(err)
	failed := store.IsAway(err) || slow
	if !named || !failed && saysNothing(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range visits {
		if v.part == part {
			v.sample = reqs[v.first].Key
			v.count(failed, err, v.begun)
			return
		}
	}
	s.countElsewhere(part, failed, err)
}

// countElsewhere counts a failure for a part that the call was not meant for, for example because a slot has moved.
// The caller holds the lock.
func (s *breakerStore) countElsewhere(part string, failed bool, err error) {
	if c := (*s.parts.Load())[part]; c != nil && c.state == BreakerClosed {
		c.count(failed, err, c.epoch.Load())
	}
}

// errPartAway replaces the unknown error of a part that was away while another part denied.
var errPartAway = errors.New("it did not answer a call over several parts")

// judgeAnswers handles the answers of a call over several parts. If one part denied, the answer does not depend on
// a part that is away; the decisions of that part are then unguarded.
func (s *breakerStore) judgeAnswers(visits []visit, reqs []store.Request, decisions []store.Decision) {
	for _, v := range visits {
		failed := false
		for i := range decisions {
			failed = failed || decisions[i].Unguarded && s.parted.Part(reqs[i].Key) == v.part
		}
		if !failed && v.well.Load() {
			continue
		}
		s.mu.Lock()
		if failed {
			v.sample = reqs[v.first].Key
			v.count(true, errPartAway, v.begun)
		} else {
			v.count(false, nil, v.begun)
		}
		s.mu.Unlock()
	}
}
