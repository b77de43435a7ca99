package lanes

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// maxMerged is how many keys one script call decides at most, so that the server
	// serves others after some tens of microseconds.
	maxMerged = 32
	// maxLimits is how many limits a decision may have to be merged with others.
	maxLimits = 8
)

// ask is a decision, which a lane may merge with others into one script call if canMerge says so.
type ask struct {
	sender  *Sender
	op      store.Op
	attempt uint64
	reqs    []store.Request
	keys    []string    // and that of the token
	words   []any       // the keys as a command has them
	slot    int         // of a Cluster
	script  *lua.Script // that decides it by itself

	state atomic.Int32 // as a call's

	// What came of it.
	granted  bool  // by its turn among those that asked the same
	later    int64 // how many were granted the same after it
	now      store.Instant
	complete bool   // the verdicts are those of decide.lua
	repeated bool   // it repeats what was done before
	verdicts string // for each limit: whether one more fits, and the record
	apart    bool   // it could not be decided together with others; nothing has happened yet
	err      error
}

// canMerge reports whether a decision can be merged with others.
func (s *Sender) canMerge(op store.Op, reqs []store.Request) bool {
	return !s.MayDiffer && len(reqs) <= maxLimits && decidesShort(op, reqs)
}

// alone returns the call for a by itself.
func (a *ask) alone(ctx context.Context) *call {
	words := append(append(make([]any, 2, 5+len(a.keys)), len(a.keys)), a.words...)
	var left []byte
	if leaves(a.reqs) {
		left = appendLeaves(nil, a.reqs)
	}
	words = WithOptions(append(words, PackRequests(a.op, a.attempt, a.reqs)), a.sender.Clock, left)
	return a.sender.newCall(ctx, a.op != store.Peek, a.script, a.keys[0], words)
}

// took takes the answer to a by itself.
func (a *ask) took(c *call) error {
	reply, err := c.Text()
	if err != nil {
		return err
	}
	a.complete = a.script != lua.DecideOne(a.reqs[0].Limit.Kind())
	a.now, a.verdicts, err = cutInstant(reply)
	if err == nil && a.complete {
		if a.verdicts == "" || a.verdicts[0] > 1 {
			return redisserver.ErrAnswer
		}
		a.repeated, a.verdicts = a.verdicts[0] == 1, a.verdicts[1:]
	}
	return err
}

// cutInstant cuts off the instant that a reply begins with.
func cutInstant(reply string) (now store.Instant, rest string, err error) {
	if len(reply) < 7 {
		return 0, "", redisserver.ErrAnswer
	}
	return InstantOf(reply), reply[7:], nil
}

// equals reports whether a and b ask for the same.
func (a *ask) equals(b *ask) bool {
	if a.op != b.op || len(a.reqs) != len(b.reqs) {
		return false
	}
	for i := range a.reqs {
		x, y := &a.reqs[i], &b.reqs[i]
		if a.keys[i] != b.keys[i] || x.Limit != y.Limit || x.Cost != y.Cost || x.Leave != y.Leave {
			return false
		}
	}
	return true
}

// merged is one script call for many decisions.
type merged struct {
	op     store.Op
	slot   int
	keys   int
	groups [][]*ask    // those that ask the same, in the order they came
	words  []any       // the call's, once they are written
	script *lua.Script // the shortest that decides all groups; chosen before callers leave
}

// merger merges asks. It keeps its memory from one time to the next.
type merger struct {
	seed   maphash.Seed
	all    []*merged
	open   map[int]*merged // by slot and op
	places []place         // of the latest group of each first key
	table  []int16         // of places, from 1, by the hash of their key; 0 for none
}

// place is where an ask was merged.
type place struct {
	hash  uint64
	key   string
	call  *merged
	group int
}

// merge puts asks into as few calls as possible. Each call has keys of one slot and one operation, and at most
// maxMerged keys.
func (r *merger) merge(asks []*ask) []*merged {
	if r.open == nil {
		r.seed, r.open = maphash.MakeSeed(), map[int]*merged{}
	}
	if len(r.table) < 2*len(asks) {
		r.table = make([]int16, 1<<bits.Len(uint(2*len(asks))))
	}
	for _, a := range asks {
		p := r.place(a.keys[0])
		if p.call != nil && p.call.groups[p.group][0].equals(a) {
			p.call.groups[p.group] = append(p.call.groups[p.group], a)
			continue
		}
		which := a.slot*2 + int(a.op)%2 // takes and peeks differ in the last bit
		m := r.open[which]
		if m == nil || m.keys+len(a.keys) > maxMerged {
			m = r.newCall(a)
			r.open[which] = m
		}
		p.call, p.group = m, len(m.groups)
		m.add(a)
	}
	return r.all
}

// place returns the place of key, which is empty for a new one.
func (r *merger) place(key string) *place {
	hash := maphash.String(r.seed, key)
	for i := int(hash); ; i++ {
		cell := &r.table[i&(len(r.table)-1)]
		if *cell == 0 {
			r.places = append(r.places, place{hash: hash, key: key})
			*cell = int16(len(r.places))
		}
		if p := &r.places[*cell-1]; p.hash == hash && p.key == key {
			return p
		}
	}
}

// newCall returns a call for asks such as a.
func (r *merger) newCall(a *ask) *merged {
	if n := len(r.all); n < cap(r.all) && r.all[:n+1][n] != nil {
		r.all = r.all[:n+1]
	} else {
		r.all = append(r.all, new(merged))
	}
	m := r.all[len(r.all)-1]
	m.op, m.slot = a.op, a.slot
	return m
}

// add adds a group.
func (m *merged) add(a *ask) {
	if n := len(m.groups); n < cap(m.groups) {
		m.groups = m.groups[:n+1]
		m.groups[n] = append(m.groups[n][:0], a)
	} else {
		m.groups = append(m.groups, []*ask{a})
	}
	m.keys += len(a.keys)
}

// reuse forgets what was merged, and keeps the memory.
func (r *merger) reuse() {
	clear(r.table)
	clear(r.open)
	clear(r.places)
	r.places = r.places[:0]
	for _, m := range r.all {
		for _, group := range m.groups {
			clear(group[:cap(group)])
		}
		clear(m.words)
		m.groups, m.words, m.keys = m.groups[:0], m.words[:0], 0
	}
	r.all = r.all[:0]
}

// deciding returns the shortest script that decides all groups of m.
func (m *merged) deciding() *lua.Script {
	kind := m.groups[0][0].reqs[0].Limit.Kind()
	for _, group := range m.groups {
		if slices.ContainsFunc(group[0].reqs, func(r store.Request) bool { return r.Limit.Kind().RecordsOf() != kind.RecordsOf() }) {
			return lua.DecideManyNumbers
		}
	}
	return lua.DecideMany(kind)
}

// call returns the script call for m. Its words are put together when they are written:
// without the asks whose callers have left by then.
func (m *merged) call(ctx context.Context, byName, readOnly bool, clock func() time.Time) *call {
	c := &call{Cmd: *redis.NewCmd(ctx, "evalsha"), once: m.op != store.Peek}
	c.build = func() []any { return m.build(byName, readOnly, clock) }
	return c
}

// build puts the words of m's call together.
func (m *merged) build(byName, readOnly bool, clock func() time.Time) []any {
	packed := make([]byte, 0, 128)
	run := 0 // where the last one begins
	leaving, left, runLeft := m.leaves(), []byte(nil), 0
	const first = 3 // of the words that are keys
	words := append(m.words[:0], nil, nil, nil)
	command(words, m.script, byName, readOnly)
	for i, group := range m.groups {
		group = slices.DeleteFunc(group, func(a *ask) bool { return !a.state.CompareAndSwap(unsent, sent) && a.state.Load() == withdrawn })
		if m.groups[i] = group; len(group) == 0 {
			continue
		}
		words = append(words, group[0].words...)
		next := len(packed)
		packed = append(packed, 1, opCodes[m.op], byte(len(group[0].reqs)))
		packed = binary.BigEndian.AppendUint16(packed, uint16(len(group)))
		packed = appendRequests(packed, group[0].reqs)
		nextLeft := len(left)
		if leaving {
			left = appendLeaves(left, group[0].reqs)
		}
		if next > 0 && bytes.Equal(packed[run+1:next], packed[next+1:]) && bytes.Equal(left[runLeft:nextLeft], left[nextLeft:]) {
			packed[run]++ // the same but for its keys
			packed, left = packed[:next], left[:nextLeft]
		} else {
			run, runLeft = next, nextLeft
		}
	}
	m.words = words
	if len(words) == first {
		return withdrawnWords
	}
	words[first-1] = len(words) - first
	m.words = WithOptions(append(words, packed), clock, left)
	return m.words
}

// leaves reports whether anyone in m leaves something.
func (m *merged) leaves() bool {
	return slices.ContainsFunc(m.groups, func(group []*ask) bool { return len(group) > 0 && leaves(group[0].reqs) })
}

// took takes what became of c, which was m's, and reports whether it was an answer.
func (m *merged) took(c *call) bool {
	reply, err := c.Text()
	if err == nil {
		err = m.distribute(reply)
	}
	if err == nil {
		return true
	}
	apart := redisserver.IsErrorReply(err, "") // the script decided nothing, and each caller needs its own explanation
	for _, group := range m.groups {
		for _, a := range group {
			if a.apart = apart; !apart {
				a.err = c.outcome(err)
			}
		}
	}
	return false
}

// distribute gives each ask its part of the script's reply.
func (m *merged) distribute(reply string) error {
	now, rest, err := cutInstant(reply)
	if err != nil {
		return err
	}
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
				a.apart = true
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
		if len(rest) < end || granted > len(group) || m.op == store.Peek && granted != 0 && granted != len(group) {
			return redisserver.ErrAnswer
		}
		for i, a := range group {
			a.now, a.verdicts, a.granted = now, rest[:end], i < granted
			if m.op == store.Take {
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
