package redisstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter"
)

const (
	// maxMerged is how many keys one script call decides at most, so that the server
	// serves others after some tens of microseconds.
	maxMerged = 32
	// maxLimits is how many limits a decision may have to be merged with others.
	maxLimits = 8
)

// ask is a decision that can be merged with others into one script call: a take or peek
// whose states are all two numbers.
type ask struct {
	op   limiter.Op
	reqs []limiter.Request
	keys []string
	slot int // of a Cluster

	state atomic.Int32 // as a call's

	// What came of it.
	granted  bool  // by its turn among those that asked the same
	later    int64 // how many were granted the same after it
	now      limiter.Instant
	verdicts string // for each limit: whether one more fits, and the record
	err      error
}

// errAsk says that a decision is to be asked for by itself. Nothing has happened yet.
var errAsk = errors.New("to be asked by itself")

// canMerge reports whether a decision can be merged with others.
func canMerge(op limiter.Op, reqs []limiter.Request) bool {
	return (op == limiter.Take || op == limiter.Peek) && len(reqs) <= maxLimits &&
		!slices.ContainsFunc(reqs, func(r limiter.Request) bool { return r.Shadow || r.Limit.Kind().RecordSize() == 0 })
}

// equals reports whether a and b ask for the same.
func (a *ask) equals(b *ask) bool {
	return a.op == b.op && slices.Equal(a.keys, b.keys) &&
		slices.EqualFunc(a.reqs, b.reqs, func(x, y limiter.Request) bool { return x.Limit == y.Limit && x.Cost == y.Cost })
}

// merged is one script call for many decisions.
type merged struct {
	op     limiter.Op
	slot   int
	keys   int
	groups [][]*ask // those that ask the same, in the order they came
}

// merge puts asks into as few calls as can be.
func merge(asks []*ask) []*merged {
	var all []*merged
	open := map[int]*merged{} // by slot and op
	groups := map[string]*place{}
	for _, a := range asks {
		if p := groups[a.keys[0]]; p != nil && p.call.groups[p.group][0].equals(a) {
			p.call.groups[p.group] = append(p.call.groups[p.group], a)
			continue
		}
		which := a.slot*2 + int(a.op)%2
		m := open[which]
		if m == nil || m.keys+len(a.keys) > maxMerged {
			m = &merged{op: a.op, slot: a.slot}
			open[which] = m
			all = append(all, m)
		}
		groups[a.keys[0]] = &place{m, len(m.groups)}
		m.groups = append(m.groups, []*ask{a})
		m.keys += len(a.keys)
	}
	return all
}

// place is where an ask was merged.
type place struct {
	call  *merged
	group int
}

// call returns the script call for m. Its words are put together when they are written:
// without the asks whose callers have left by then.
func (m *merged) call(ctx context.Context, script *script, byName, readOnly bool, clock func() time.Time) *call {
	return &call{Cmd: redis.NewCmd(ctx, "evalsha"), once: m.op != limiter.Peek, build: func() []any {
		packed := make([]byte, 0, m.keys*(requestSize+5))
		keys := make([]string, 0, m.keys)
		run := 0 // where the last one begins
		for i, group := range m.groups {
			group = slices.DeleteFunc(group, func(a *ask) bool { return !a.state.CompareAndSwap(unsent, sent) && a.state.Load() == withdrawn })
			if m.groups[i] = group; len(group) == 0 {
				continue
			}
			keys = append(keys, group[0].keys...)
			next := len(packed)
			packed = append(packed, 1, opCodes[m.op], byte(len(group[0].reqs)))
			packed = binary.BigEndian.AppendUint16(packed, uint16(len(group)))
			packed = appendRequests(packed, group[0].reqs)
			if next > 0 && bytes.Equal(packed[run+1:next], packed[next+1:]) {
				packed[run]++ // the same but for its keys
				packed = packed[:next]
			} else {
				run = next
			}
		}
		if len(keys) == 0 {
			return withdrawnWords
		}
		return scriptCommand(script, byName, readOnly, keys, withClock([]any{packed}, clock))
	}}
}

// took takes what became of c, which was m's.
func (m *merged) took(c *call) {
	reply, err := c.Text()
	if err == nil {
		err = m.distribute(reply)
	}
	if err == nil {
		return
	}
	if redisserver.IsErrorReply(err, "") {
		err = errAsk // it came before anything was decided, and is to be explained for each
	} else {
		err = c.outcome(err)
	}
	for _, group := range m.groups {
		for _, a := range group {
			a.err = err
		}
	}
}

// distribute gives each ask its part of the script's reply.
func (m *merged) distribute(reply string) error {
	if len(reply) < 7 {
		return redisserver.ErrAnswer
	}
	now, rest := instantOf(reply), reply[7:]
	for _, group := range m.groups {
		if len(group) == 0 {
			continue
		}
		if len(rest) < 1 {
			return redisserver.ErrAnswer
		}
		status := rest[0]
		rest = rest[1:]
		if status == 1 {
			for _, a := range group {
				a.err = errAsk
			}
			continue
		}
		if status != 0 || len(rest) < 2 {
			return redisserver.ErrAnswer
		}
		granted := int(rest[0])<<8 | int(rest[1])
		rest = rest[2:]
		end := 0
		for range group[0].reqs {
			if len(rest) < end+2 {
				return redisserver.ErrAnswer
			}
			end += 2 + int(rest[end+1])
		}
		if len(rest) < end || granted > len(group) || m.op == limiter.Peek && granted != 0 && granted != len(group) {
			return redisserver.ErrAnswer
		}
		for i, a := range group {
			a.now, a.verdicts, a.granted = now, rest[:end], i < granted
			if m.op == limiter.Take {
				a.later = int64(max(0, granted-1-i))
			}
		}
		rest = rest[end:]
	}
	if len(rest) > 0 {
		return redisserver.ErrAnswer
	}
	return nil
}
