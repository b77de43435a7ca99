package lanes

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/limitctl/limitctl/internal/recordformat"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// work is what one decision needs besides its answer: the normalized requests, their keys,
// and a place in the queue.
//
// It belongs to the caller. While the caller waits in a queue, the lane and then an exchange
// use it, too. It goes back to the pool only after success: when a caller leaves, or gets an
// error, an exchange may still read the work or write an answer to it. The same holds for what
// an exchange works with.
type work struct {
	Reqs   []store.Request
	named  []store.Key // what keys are of
	keys   []string
	words  []any // keys, as a command has them
	ask    ask
	queued queued
}

// NewWork returns work for one decision.
func (s *Sender) NewWork() *work {
	if w, ok := s.works.Get().(*work); ok {
		return w
	}
	w := &work{}
	w.queued.done = make(chan struct{}, 1)
	return w
}

// setKeys says which keys reqs have. It spares making those that the same work had last.
func (w *work) setKeys(own admin.OwnLayout) {
	for i := range w.Reqs {
		key := w.Reqs[i].Key
		if i < len(w.named) && w.named[i] == key {
			continue
		}
		w.named, w.keys, w.words = w.named[:i], w.keys[:i], w.words[:i]
		name := own.StoreKey(key)
		w.named, w.keys, w.words = append(w.named, key), append(w.keys, name), append(w.words, name)
	}
	n := len(w.Reqs)
	w.named, w.keys, w.words = w.named[:n], w.keys[:n], w.words[:n]
}

// toAsk returns a place in the queue for a decision, which by itself is that of script.
func (w *work) toAsk(s *Sender, op store.Op, script *Script) *queued {
	w.ask = ask{sender: s, op: op, reqs: w.Reqs, keys: w.keys, words: w.words, script: script}
	if slotOf := s.SlotOf; slotOf != nil {
		w.ask.slot = slotOf(w.Reqs[0].Key.Subject)
	}
	w.queued = queued{ask: &w.ask, done: w.queued.done}
	return &w.queued
}

const (
	movePause    = 10 * time.Millisecond
	movePatience = 500 * time.Millisecond
)

// Decide decides the requests of w, which are of one slot and normalized: together with what
// others ask, or by itself.
func (s *Sender) Decide(ctx context.Context, op store.Op, w *work, decisions []store.Decision) error {
	s.SetWindows(w.Reqs)
	return s.decideInWindows(ctx, op, w, decisions, 0)
}

// decideInWindows is Decide for requests in the windows of their calendars, in which tries calls have been made.
func (s *Sender) decideInWindows(ctx context.Context, op store.Op, w *work, decisions []store.Decision, tries int) error {
	w.setKeys(s.Own)
	usual, short := s.Scripts.Deciding(op, w.Reqs)
	q, a := w.toAsk(s, op, usual), &w.ask
	if !s.canMerge(op, w.Reqs) {
		q.alone(ctx)
	}
	err := s.ask(ctx, q)
	again := func(by *Script) error {
		q = &queued{call: a.alone(ctx, by)}
		return s.ask(ctx, q)
	}
	if err == nil && a.apart { // else the exchange may still write to a
		err = again(usual)
	}
	if short && (redisserver.IsErrorReply(err, "COMPLETE") || redisserver.IsErrorReply(err, "WRONGTYPE")) {
		// The key holds something unusual, and nothing has happened yet.
		err = again(s.Scripts.decidingAll())
	}
	if err = OnceMoved(ctx, err, func() error { return again(s.Scripts.decidingAll()) }); err != nil {
		if s.CorrectWindows(err, w.Reqs, &tries) {
			corrected := s.NewWork()
			corrected.Reqs = append(corrected.Reqs[:0], w.Reqs...)
			return s.decideInWindows(ctx, op, corrected, decisions, tries)
		}
		return s.Explain(err, op.String(), op != store.Peek, w.keys)
	}
	if q.call != nil {
		err = a.took(q.call)
	}
	if err == nil {
		err = s.parseVerdicts(a, decisions)
	}
	if err != nil {
		return s.Wrong(err, op)
	}
	s.works.Put(w) // only now, see work
	return nil
}

// OnceMoved returns err, the error of a call, unless some of its keys have moved to another
// master and some have not: a script needs all of them in one place, and has not run. Then it
// calls again until all have moved, for movePatience at most.
func OnceMoved(ctx context.Context, err error, again func() error) error {
	for waited := time.Duration(0); redisserver.IsErrorReply(err, "TRYAGAIN") && waited < movePatience; waited += movePause {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(movePause):
		}
		err = again()
	}
	return err
}

// Wrong is the error about a reply that does not follow.
func (s *Sender) Wrong(err error, op store.Op) error {
	if errors.Is(err, store.ErrForeign) {
		return err
	}
	return s.Refuse(op.String(), op != store.Peek)
}

// shadowBit marks a shadow's request, in the byte of its kind.
const shadowBit = 0x80

// RequestSize is the length of a packed request, a limit and the cost; see
// lua/decide.lua.
const RequestSize = recordformat.PackedLimitSize + 4

// OpCodes are the letters by which the scripts know the operations.
var OpCodes = [...]byte{store.Take: 't', store.Peek: 'p', store.Refund: 'r', store.Adjust: 'a'}

// AppendRequests appends reqs as the scripts read them.
func AppendRequests(packed []byte, reqs []store.Request) []byte {
	for i := range reqs {
		kind := len(packed)
		packed = reqs[i].Limit.AppendPacked(packed)
		if reqs[i].Shadow {
			packed[kind] |= shadowBit
		}
		packed = binary.BigEndian.AppendUint32(packed, uint32(reqs[i].Cost))
	}
	return packed
}

// Leaves returns what reqs leave as the scripts read it, nil if none of them leaves anything.
func Leaves(reqs []store.Request) []byte {
	if !leaves(reqs) {
		return nil
	}
	return appendLeaves(nil, reqs)
}

func leaves(reqs []store.Request) bool {
	for i := range reqs {
		if reqs[i].Leave != 0 {
			return true
		}
	}
	return false
}

func appendLeaves(packed []byte, reqs []store.Request) []byte {
	for i := range reqs {
		packed = binary.BigEndian.AppendUint32(packed, uint32(reqs[i].Leave))
	}
	return packed
}

// WithClock appends the instant to a script's arguments, if it is not the server's.
func WithClock(arguments []any, clock func() time.Time) []any {
	return WithOptions(arguments, clock, nil)
}

// WithOptions is WithClock, and appends what the requests leave, unless that is nil.
func WithOptions(arguments []any, clock func() time.Time, leaves []byte) []any {
	switch {
	case clock != nil:
		arguments = append(arguments, int64(store.InstantOf(clock())))
	case leaves != nil:
		arguments = append(arguments, "")
	}
	if leaves != nil {
		arguments = append(arguments, leaves)
	}
	return arguments
}
