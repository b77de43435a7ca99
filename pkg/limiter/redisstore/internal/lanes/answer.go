package lanes

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// LongAgo is before any server's clock, the year 2001.
const LongAgo = store.Instant(1e15)

// verdict is what a script says of a request besides the state, which explains it.
type verdict struct {
	allowed bool
	granted int64         // or given back
	turn    store.Instant // when a leaky bucket lets it go; 0 if that follows from the state
}

// follows reports whether a verdict follows from the state that came with it. No script
// answers otherwise; a proxy, or something in the server's place, might. req has the cost that makes it allowed.
func (v *verdict) follows(state *store.State, req *store.Request, op store.Op, repeated bool, now store.Instant) bool {
	used, capacity := state.Used(now), req.Capacity()
	switch {
	case op == store.Refund && req.Token == "" && v.granted > req.Cost:
		return false
	case op == store.Refund && req.NotAfter != 0:
		return !v.allowed || max(now, state.Time) <= req.NotAfter
	case op == store.Refund || op == store.Adjust || op == store.Settle:
		return v.allowed
	case repeated:
		return true
	case op == store.Charge:
		return v.allowed && v.granted == req.Cost && state.Limit == req.Limit && used > 0
	case v.granted > 0:
		return v.allowed && op != store.Peek && state.Limit == req.Limit && 0 < used && used <= capacity
	}
	return v.allowed == (used+req.Cost <= capacity)
}

// cutInstant cuts off the instant that a reply begins with.
func cutInstant(reply string) (now store.Instant, rest string, err error) {
	if len(reply) < 7 {
		return 0, "", redisserver.ErrAnswer
	}
	return instantOf(reply), reply[7:], nil
}

// instantOf reads the instant that a reply begins with.
func instantOf(reply string) store.Instant {
	var instant [8]byte
	copy(instant[1:], reply[:7])
	return store.Instant(binary.BigEndian.Uint64(instant[:]))
}

// UnitsAt reads four bytes of a reply.
func UnitsAt(reply string, at int) int64 {
	return int64(binary.BigEndian.Uint32([]byte(reply[at : at+4])))
}

// reading is memory for reading an answer.
type reading struct {
	states   []store.State
	verdicts []verdict
	before   store.State
	record   []byte
}

var readings = sync.Pool{New: func() any { return new(reading) }}

// readAnswer derives decisions from the script's answer to a, by the pure Go algorithms.
func (s *Sender) readAnswer(a *ask, decisions []store.Decision) error {
	if s.Clock == nil && a.now < LongAgo {
		return redisserver.ErrAnswer
	}
	p := readings.Get().(*reading)
	defer readings.Put(p)
	if err := p.read(a); err != nil {
		return err
	}
	for i := range a.reqs {
		req, state, v := &a.reqs[i], &p.states[i], &p.verdicts[i]
		if a.op == store.TakeUpTo { // it is enough that one fits
			one := *req
			one.Cost, req = 1, &one
		}
		if !v.follows(state, req, a.op, a.repeated, a.now) {
			return redisserver.ErrAnswer
		}
		d := state.Answer(req, a.now, v.allowed)
		d.Repeated = a.repeated
		switch {
		case a.op == store.Refund:
			d.Refunded = v.granted
			d.RetryAfter = 0 // what came late never comes in time any more
		case a.op == store.Settle:
			d.Granted = v.granted
		case a.op == store.Adjust:
		case v.granted > 0 && a.complete:
			d.Granted, d.Delay = v.granted, time.Duration(max(0, v.turn-a.now))*time.Microsecond
		case v.granted > 0:
			p.before = *state
			p.before.Units -= v.granted // what was queued before this take
			d.Granted, d.Delay = v.granted, p.before.Delay(&req.Limit, a.now)
		case v.allowed:
			d.Delay = state.Delay(&req.Limit, a.now)
		}
		decisions[i] = d
	}
	return nil
}

// read reads a script's verdicts, and the records as they are now. The short scripts say of each request whether it is
// allowed, and leave the rest to the caller. If a take was granted together with others that asked the same, the
// verdicts are about the last of them: this one was charged, and later of the others after it.
func (p *reading) read(a *ask) error {
	rest, size := a.verdicts, 2
	if a.complete {
		size = 1 + 4 + 7 + 1
	}
	p.states = slices.Grow(p.states[:0], len(a.reqs))[:len(a.reqs)]
	p.verdicts = slices.Grow(p.verdicts[:0], len(a.reqs))[:len(a.reqs)]
	all := a.op == store.Take
	for i := range a.reqs {
		state, v := &p.states[i], &p.verdicts[i]
		if len(rest) < size || len(rest) < size+int(rest[size-1]) || rest[0] > 1 {
			return redisserver.ErrAnswer
		}
		*state, *v = store.State{}, verdict{allowed: a.granted || rest[0] == 1}
		if a.complete {
			v.granted, v.turn = UnitsAt(rest, 1), instantOf(rest[5:])
		}
		all = all && v.allowed
		record := rest[size : size+int(rest[size-1])]
		rest = rest[size+len(record):]
		if record == "" {
			continue
		}
		p.record = append(p.record[:0], record...)
		err := state.DecodeRecordUnder(&a.reqs[i].Limit, p.record)
		if err != nil && v.allowed && a.op != store.Peek { // it may have been written over
			return redisserver.ErrAnswer
		} else if err != nil {
			return &store.ForeignError{StoreKey: a.keys[i], Holds: err.Error()}
		}
		state.Units -= a.later * a.reqs[i].Cost // at that instant nothing else differs
	}
	if len(rest) > 0 {
		return redisserver.ErrAnswer
	}
	if all && !a.complete {
		for i := range a.reqs {
			p.verdicts[i].granted = a.reqs[i].Cost
		}
	}
	return nil
}
