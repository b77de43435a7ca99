package lanes

import (
	"encoding/binary"
	"slices"
	"sync"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// LongAgo is before any server's clock, the year 2001.
const LongAgo = store.Instant(1e15)

// follows reports whether an answer follows from the state that came with it. No script
// answers otherwise; a proxy, or something in the server's place, might.
func follows(state *store.State, req *store.Request, op store.Op, allowed, charged bool, now store.Instant) bool {
	used, capacity := state.Used(now), req.Capacity()
	switch {
	case op == store.Refund || op == store.Adjust:
		return allowed
	case charged && allowed:
		return state.Limit == req.Limit && 0 < used && used <= capacity
	}
	return allowed == (used+req.Cost <= capacity)
}

// cutInstant cuts off the instant that a reply begins with.
func cutInstant(reply string) (now store.Instant, rest string, err error) {
	if len(reply) < 7 {
		return 0, "", redisserver.ErrAnswer
	}
	return InstantOf(reply), reply[7:], nil
}

// InstantOf reads the instant that a reply begins with.
func InstantOf(reply string) store.Instant {
	var instant [8]byte
	copy(instant[1:], reply[:7])
	return store.Instant(binary.BigEndian.Uint64(instant[:]))
}

// parsing is memory for reading an answer.
type parsing struct {
	states []store.State
	before store.State
	record []byte
}

var parsings = sync.Pool{New: func() any { return new(parsing) }}

// parseVerdicts derives decisions from a script's verdicts on a: for each limit whether it is
// allowed, and its record as it is now, which the pure Go algorithms explain. If a take was granted they
// are about the last of several that asked the same: this one was charged, and later of the others after it.
func (s *Sender) parseVerdicts(a *ask, decisions []store.Decision) error {
	op, reqs, now, rest := a.op, a.reqs, a.now, a.verdicts
	granted := a.granted && op == store.Take
	if s.Clock == nil && now < LongAgo {
		return redisserver.ErrAnswer
	}
	p := parsings.Get().(*parsing)
	defer parsings.Put(p)
	p.states = slices.Grow(p.states[:0], len(reqs))[:len(reqs)]
	states := p.states
	for i := range reqs {
		states[i] = store.State{}
		if len(rest) < 2 || len(rest) < 2+int(rest[1]) || rest[0] > 1 {
			return redisserver.ErrAnswer
		}
		decisions[i] = store.Decision{Allowed: granted || rest[0] == 1, Shadow: reqs[i].Shadow}
		if record := rest[2 : 2+int(rest[1])]; record != "" {
			p.record = append(p.record[:0], record...)
			err := states[i].DecodeRecordUnder(&reqs[i].Limit, p.record)
			if err != nil && decisions[i].Allowed && op != store.Peek { // it may have been written over
				return redisserver.ErrAnswer
			} else if err != nil {
				return &store.ForeignError{StoreKey: a.keys[i], Holds: err.Error()}
			}
			states[i].Units -= a.later * reqs[i].Cost // at that instant nothing else differs
		}
		rest = rest[2+int(rest[1]):]
		if op == store.Refund {
			if len(rest) < 4 {
				return redisserver.ErrAnswer
			}
			decisions[i].Refunded, rest = UnitsAt(rest, 0), rest[4:]
			if decisions[i].Refunded > reqs[i].Cost {
				return redisserver.ErrAnswer
			}
		}
	}
	if len(rest) > 0 {
		return redisserver.ErrAnswer
	}
	charged := op == store.Take && store.AllAllowed(decisions)
	for i := range reqs {
		if !follows(&states[i], &reqs[i], op, decisions[i].Allowed, charged, now) {
			return redisserver.ErrAnswer
		}
		decision := states[i].Answer(&reqs[i], now, decisions[i].Allowed)
		decision.Refunded = decisions[i].Refunded
		if decision.Allowed && (op == store.Take || op == store.Peek) {
			before := &p.before
			*before = states[i]
			if charged {
				before.Units -= reqs[i].Cost // what was queued before this take
				decision.Granted = reqs[i].Cost
			}
			decision.Delay = before.Delay(&reqs[i].Limit, now)
		}
		decisions[i] = decision
	}
	return nil
}

// UnitsAt reads four bytes of a reply.
func UnitsAt(reply string, at int) int64 {
	return int64(binary.BigEndian.Uint32([]byte(reply[at : at+4])))
}
