package layers

import (
	"context"
	"errors"
	"maps"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// shardNamed returns the shard that err names, if it does.
func shardNamed(err error) (shard string, named bool) {
	if err == nil {
		return "", false
	}
	var of *store.ShardError
	if !errors.As(err, &of) {
		return "", false
	}
	return of.Shard, true
}

// mostShards is the most circuits, however many names a store has for its shards.
const mostShards = 1024

// circuitOf returns the circuit of a shard that contains key.
func (s *breakerStore) circuitOf(shard string, key store.Key) *circuit {
	if shard == "" {
		return &s.whole
	}
	if c := (*s.shards.Load())[shard]; c != nil {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := (*s.shards.Load())[shard]; c != nil {
		return c
	}
	// A new shard may replace an old one.
	s.forgetVanished(nil)
	if known := *s.shards.Load(); len(known) >= mostShards {
		var leaves *circuit
		for _, c := range known {
			if leaves = c; c.state == BreakerClosed {
				break
			}
		}
		s.forget(leaves)
	}
	c := &circuit{sample: key}
	c.init(s, shard)
	shards := maps.Clone(*s.shards.Load())
	shards[shard] = c
	s.shards.Store(&shards)
	return c
}

// forgetVanished forgets shards, except one, that no longer contain their sample key. A shard that still has other
// keys gets a new circuit with its next call. The caller holds the lock.
func (s *breakerStore) forgetVanished(except *circuit) {
	for _, c := range *s.shards.Load() {
		if c != except && s.sharded.Shard(c.sample) != c.shard {
			s.forget(c)
		}
	}
}

// forget forgets a shard. The caller holds the lock.
func (s *breakerStore) forget(c *circuit) {
	shards := maps.Clone(*s.shards.Load())
	delete(shards, c.shard)
	s.shards.Store(&shards)
	c.gone = true
	if c.state != BreakerClosed {
		c.change(BreakerClosed, nil)
	}
}

// visit is a shard that a call over several needs.
type visit struct {
	*circuit
	begun int64 // the epoch at the beginning
	first int   // the index of its first request
}

// decideAcross decides requests in several shards.
func (s *breakerStore) decideAcross(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	var few [8]visit // no allocation
	visits := few[:0]
	var closed *circuit // the first that refuses
next:
	for i := range reqs {
		shard := s.sharded.Shard(reqs[i].Key)
		for n := range visits {
			if visits[n].shard == shard {
				continue next
			}
		}
		c := s.circuitOf(shard, reqs[i].Key)
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

// refuseAcross returns the error of the first shard that refuses, and starts recovery checks of all such shards for
// which it is time, each with its own requests.
func (s *breakerStore) refuseAcross(ctx context.Context, first *circuit, op store.Op, reqs []store.Request) error {
	normal, err := store.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	byShard := map[string][]store.Request{}
	for _, req := range normal {
		shard := s.sharded.Shard(req.Key)
		byShard[shard] = append(byShard[shard], req)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	refusal := first.refusal
	for shard, own := range byShard {
		if c := s.known(shard); c != nil {
			c.tryAgain(own)
		}
	}
	if err := store.GaveUp(ctx); err != nil {
		return err
	}
	return refusal
}

// known returns the circuit of a shard, or nil.
func (s *breakerStore) known(shard string) *circuit {
	if shard == "" {
		return &s.whole
	}
	return (*s.shards.Load())[shard]
}

// judgeAcross handles the error of a call over several shards. It is about one of them, and says nothing about the
// others, which may not have been called.
func (s *breakerStore) judgeAcross(visits []visit, err error, slow bool, reqs []store.Request) {
	shard, named := shardNamed(err)
	failed := store.IsAway(err) || slow
	if !named || !failed && saysNothing(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range visits {
		if v.shard == shard {
			v.sample = reqs[v.first].Key
			v.count(failed, err, v.begun)
			return
		}
	}
	s.countElsewhere(shard, failed, err)
}

// countElsewhere counts a failure for a shard that the call was not meant for, for example because a slot has moved.
// The caller holds the lock.
func (s *breakerStore) countElsewhere(shard string, failed bool, err error) {
	if c := (*s.shards.Load())[shard]; c != nil && c.state == BreakerClosed {
		c.count(failed, err, c.epoch.Load())
	}
}

// errShardAway replaces the unknown error of a shard that was away while another shard denied.
var errShardAway = errors.New("it did not answer a call over several shards")

// judgeAnswers handles the answers of a call over several shards. If one shard denied, the answer does not depend on
// a shard that is away; the decisions of that shard are then unguarded.
func (s *breakerStore) judgeAnswers(visits []visit, reqs []store.Request, decisions []store.Decision) {
	for _, v := range visits {
		failed := false
		for i := range decisions {
			failed = failed || decisions[i].Unguarded && s.sharded.Shard(reqs[i].Key) == v.shard
		}
		if !failed && v.well.Load() {
			continue
		}
		s.mu.Lock()
		if failed {
			v.sample = reqs[v.first].Key
			v.count(true, errShardAway, v.begun)
		} else {
			v.count(false, nil, v.begun)
		}
		s.mu.Unlock()
	}
}
