package lanes

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// exchange is one pipeline of calls.
type exchange struct {
	number  uint64 // no other has it
	calls   []*ask
	callers int                // of those, how many still wait for the answer
	ctx     context.Context    // ends when the last of them leaves
	cancel  context.CancelFunc // ends it
	// What the exchange works with. An exchange that ended well is used again.
	asks   []*ask
	cmds   []*call
	merger merger
	fine   bool // nothing failed
}

var (
	exchanges = sync.Pool{New: func() any { return new(exchange) }}
	begun     atomic.Uint64 // exchanges of all lanes
)

// start begins exchanges for what has queued, as far as there is room. The caller holds the lock.
func (l *lane) start() {
	for l.startOne(sharing, maxBatch) {
	}
}

// startOne begins an exchange for what has queued, at most that many calls, and reports whether
// it did. It does not if as many exchanges as most are shared. The caller holds the lock.
func (l *lane) startOne(most, calls int) bool {
	e := l.next(most, calls)
	if e == nil {
		return false
	}
	panics.Go(func() error { return l.exchange(e.ctx, e) }, func(panicked error) {
		for e := l.finish(e, panicked); e != nil; { // one goroutine serves while there is work
			e = l.finish(e, panics.Call(func() error { return l.exchange(e.ctx, e) }))
		}
	})
	return true
}

// next takes what has queued for an exchange, at most that many calls, if there is room for
// one more and fewer than most are shared. The caller holds the lock.
func (l *lane) next(most, calls int) *exchange {
	if l.first == nil || l.busy >= InFlight || l.batches >= most || l.abandoned >= maxAbandoned {
		return nil
	}
	e := exchanges.Get().(*exchange)
	e.number, e.callers = begun.Add(1), min(l.waiting, maxBatch, calls)
	var end time.Time
	for range e.callers {
		a := l.first
		l.remove(a)
		a.in, e.calls = e, append(e.calls, a)
		if a.end.After(end) {
			end = a.end
		}
	}
	e.ctx, e.cancel = context.WithDeadline(context.Background(), end)
	l.busy++
	l.batches++
	l.shared = append(l.shared, e)
	return e
}

// exchange sends a batch. Each call, and each ask, has its own outcome afterwards.
func (l *lane) exchange(ctx context.Context, e *exchange) error {
	if l.sender.OnBatch != nil {
		l.sender.OnBatch(len(e.calls))
	}
	for _, a := range e.calls {
		if a.call == nil {
			e.asks = append(e.asks, a)
		} else {
			e.cmds = append(e.cmds, a.call)
		}
	}
	single := len(e.cmds)
	e.fine = single == 0
	decisions := e.merger.merge(l.sender, e.asks)
	for _, m := range decisions {
		e.cmds = append(e.cmds, m.call(ctx, true))
	}
	l.process(ctx, e.cmds)
	var again []*call
	for i, m := range decisions {
		if redisserver.IsErrorReply(e.cmds[single+i].Err(), "NOSCRIPT") { // before anything ran
			e.cmds[single+i] = m.call(ctx, false)
			again = append(again, e.cmds[single+i])
		}
	}
	l.process(ctx, again)
	for i, m := range decisions {
		e.fine = m.took(e.cmds[single+i]) && e.fine
	}
	return nil
}

// process sends calls in one go. Each has its own error afterwards.
func (l *lane) process(ctx context.Context, calls []*call) {
	switch len(calls) {
	case 0:
	case 1:
		l.client.Process(ctx, calls[0])
	default:
		pipe := l.client.Pipeline()
		batch := make([]redis.Cmder, len(calls))
		for i, c := range calls {
			batch[i] = c
		}
		pipe.BatchProcess(ctx, batch...)
		pipe.Exec(ctx)
	}
}

// finish wakes the callers of an exchange that is over, and returns the next exchange, if there
// is one. From then on the work of these callers is theirs again.
func (l *lane) finish(e *exchange, panicked error) *exchange {
	e.cancel()
	if panicked != nil {
		e.fine = false
		for _, a := range e.calls {
			if a.call == nil {
				a.err = MaybeSent(panicked)
			} else {
				a.call.SetErr(panicked)
			}
		}
	}
	l.mu.Lock()
	i := slices.Index(l.shared, e)
	l.shared = slices.Delete(l.shared, i, i+1)
	all := e.callers == len(e.calls)
	for i, a := range e.calls {
		if a.over { // its caller has left
			e.calls[i] = nil
		}
		a.over = true
	}
	l.mu.Unlock()
	for _, a := range e.calls {
		if a != nil {
			a.done <- struct{}{}
		}
	}
	runtime.Gosched()
	l.mu.Lock()
	if e.callers == 0 {
		l.abandoned--
	} else {
		l.busy--
		l.batches--
	}
	next := l.next(sharing, maxBatch)
	l.start()
	l.mu.Unlock()
	if e.fine && all {
		e.reuse()
	}
	return next
}

// reuse lets another exchange have what e worked with.
func (e *exchange) reuse() {
	clear(e.calls)
	clear(e.asks)
	clear(e.cmds)
	e.calls, e.asks, e.cmds = e.calls[:0], e.asks[:0], e.cmds[:0]
	e.ctx, e.cancel, e.callers, e.fine = nil, nil, 0, false
	exchanges.Put(e)
}

const (
	// maxMerged is how many keys one script call decides at most, so that the server
	// serves others after some tens of microseconds.
	maxMerged = 32
	// maxLimits is how many limits a decision may have to be merged with others.
	maxLimits = 8
)

// canMerge reports whether a decision can be merged with others.
func canMerge(op store.Op, reqs []store.Request) bool {
	return len(reqs) <= maxLimits && decidesShort(op, reqs)
}

// merged is one script call for many decisions.
type merged struct {
	sender *Sender
	op     store.Op
	keys   int
	groups []group
	script *lua.Script // the shortest that decides all groups
}

// group is those that ask the same, in the order they came: the first, and the others by ask.same.
type group struct {
	first *ask
	times int
}

// merger merges asks. It keeps its memory from one time to the next.
type merger struct {
	open   map[int]*merged // by slot and op
	latest map[string]*ask // the last ask with each first key
}

// merge puts asks into as few calls as possible. Each call has keys of one slot and one operation, and at most
// maxMerged keys.
func (r *merger) merge(s *Sender, asks []*ask) (all []*merged) {
	if r.open == nil {
		r.open, r.latest = map[int]*merged{}, map[string]*ask{}
	}
	clear(r.open)
	clear(r.latest)
	for _, a := range asks {
		latest := r.latest[a.keys[0]]
		r.latest[a.keys[0]] = a
		if latest != nil && latest.equals(a) {
			latest.same = a
			continue
		}
		which := a.slot*2 + int(a.op)%2 // takes and peeks differ in the last bit
		m := r.open[which]
		if m == nil || m.keys+len(a.keys) > maxMerged {
			m = &merged{sender: s, op: a.op, script: lua.Of(a.reqs[0].Limit.Kind()).Many,
				groups: make([]group, 0, maxMerged)}
			r.open[which], all = m, append(all, m)
		}
		m.groups, m.keys = append(m.groups, group{first: a}), m.keys+len(a.keys)
		for i := range a.reqs {
			if lua.Of(a.reqs[i].Limit.Kind()).Many != m.script {
				m.script = lua.DecideManyNumbers
			}
		}
	}
	return all
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

// call returns the script call for m. Its words are put together when they are written:
// without the asks whose callers have left by then.
func (m *merged) call(ctx context.Context, byName bool) *call {
	c := &call{Cmd: *redis.NewCmd(ctx, "evalsha"), once: m.op != store.Peek}
	c.build = func() []any { return m.build(byName) }
	return c
}

// stay takes those out of g whose callers have left.
func (g *group) stay() {
	var first, last *ask
	g.times = 0
	for a := g.first; a != nil; a = a.same {
		if !a.state.CompareAndSwap(unsent, sent) && a.state.Load() == withdrawn {
			continue
		}
		if first == nil {
			first = a
		} else {
			last.same = a
		}
		last = a
		g.times++
	}
	if g.first = first; last != nil {
		last.same = nil
	}
}

// build puts the words of m's call together.
func (m *merged) build(byName bool) []any {
	const head = 3 // words before the keys
	words := make([]any, head, head+m.keys+3)
	command(words, m.script, byName, m.op == store.Peek && !m.sender.noReadOnly.Load())
	leaving := slices.ContainsFunc(m.groups, func(g group) bool { return leaves(g.first.reqs) })
	packed, left := make([]byte, 0, 128), []byte(nil)
	run, runLeft := 0, 0 // where the last one begins
	for i := range m.groups {
		g := &m.groups[i]
		if g.stay(); g.times == 0 {
			continue
		}
		words = append(words, g.first.words...)
		next, nextLeft := len(packed), len(left)
		packed = append(packed, 1, opCodes[m.op], byte(len(g.first.reqs)))
		packed = binary.BigEndian.AppendUint16(packed, uint16(g.times))
		packed = appendRequests(packed, g.first.reqs)
		if leaving {
			left = appendLeaves(left, g.first.reqs)
		}
		if next > 0 && bytes.Equal(packed[run+1:next], packed[next+1:]) &&
			bytes.Equal(left[runLeft:nextLeft], left[nextLeft:]) {
			packed[run]++ // the same but for its keys
			packed, left = packed[:next], left[:nextLeft]
		} else {
			run, runLeft = next, nextLeft
		}
	}
	m.groups = slices.DeleteFunc(m.groups, func(g group) bool { return g.times == 0 })
	if len(m.groups) == 0 {
		return withdrawnWords
	}
	words[head-1] = len(words) - head
	return WithOptions(append(words, packed), m.sender.Clock, left)
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
	for _, g := range m.groups {
		for a := g.first; a != nil; a = a.same {
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
	for _, g := range m.groups {
		if err != nil || len(rest) < 1 || rest[0] > 1 || rest[0] == 0 && len(rest) < 3 {
			return redisserver.ErrAnswer
		}
		if rest[0] == 1 { // something unusual
			for a := g.first; a != nil; a = a.same {
				a.apart = true
			}
			rest = rest[1:]
			continue
		}
		granted, end := int(rest[1])<<8|int(rest[2]), 0
		rest = rest[3:]
		for range g.first.reqs {
			if len(rest) < end+2 {
				return redisserver.ErrAnswer
			}
			end += 2 + int(rest[end+1])
		}
		if len(rest) < end || granted > g.times || m.op == store.Peek && granted != 0 && granted != g.times {
			return redisserver.ErrAnswer
		}
		i := 0
		for a := g.first; a != nil; a = a.same {
			a.now, a.verdicts, a.granted = now, rest[:end], i < granted
			if m.op == store.Take {
				a.later = int64(max(0, granted-1-i))
			}
			i++
		}
		rest = rest[end:]
	}
	if err != nil || len(rest) > 0 {
		return redisserver.ErrAnswer
	}
	return nil
}
