package layers

import (
	"context"
	"errors"
	"maps"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// partNamed returns which part err is of, if it says so.
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

// mostParts is how many circuits are kept at most, whatever names a store has for its parts.
const mostParts = 1024

// circuitOf returns the circuit of a part that has key.
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
	// A new part may have taken the place of another.
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

// forgetVanished forgets parts, except one, that no longer have the key they are known by.
// A part that still has others is known again with its next call. The caller holds the lock.
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
	begun int64 // the epoch
	first int   // the index of its first request
}

// decideAcross decides requests on several parts.
func (s *breakerStore) decideAcross(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	var few [8]visit // which need no memory
	visits := few[:0]
	var closed *circuit // the first that lets nothing through
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

// refuseAcross says why the first part that is not asked is not, and has each such part
// probed that it is time for, with its own requests.
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

// known returns the circuit of a part, nil if there is none.
func (s *breakerStore) known(part string) *circuit {
	if part == "" {
		return &s.whole
	}
	return (*s.parts.Load())[part]
}

// judgeAcross takes the error of a call over several parts. It is about one of them, and
// says nothing about the others, which perhaps were not asked.
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

// countElsewhere counts for a part that the call was not meant for: a slot has moved, say.
// The caller holds the lock.
func (s *breakerStore) countElsewhere(part string, failed bool, err error) {
	if c := (*s.parts.Load())[part]; c != nil && c.state == BreakerClosed {
		c.count(failed, err, c.epoch.Load())
	}
}

// errPartAway stands for the error of a part that a denial did not need.
var errPartAway = errors.New("it did not answer a call over several parts")

// judgeAnswers takes the answers of a call over several parts. Another part may have denied
// it whatever one that was away would have said, whose decisions then are unguarded.
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
