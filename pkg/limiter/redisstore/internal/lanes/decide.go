package lanes

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/recordformat"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// work is what one decision needs besides its answer: the normalized requests, their keys, and a place in the queue. It
// belongs to the caller, and to the lane and an exchange while the caller waits. It goes back to the pool only after
// success: when a caller leaves, or gets an error, an exchange may still use it.
type work struct {
	Reqs    []store.Request
	Attempt uint64 // not zero for a token in several slots

	named []store.Key // what keys are of
	keys  []string
	words []any // keys, as a command has them
	ask   ask
}

// NewWork returns work for one decision.
func (s *Sender) NewWork() *work {
	if w, ok := s.works.Get().(*work); ok {
		w.Attempt = 0
		return w
	}
	w := &work{}
	w.ask.done = make(chan struct{}, 1)
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

// tokenKey returns the store key of a token for a call on key. On a single server one token is one key. In a Cluster it
// has to be in the slot of its key, so it has the same hash tag.
func (s *Sender) tokenKey(token string, key store.Key) string {
	if s.IsCluster() {
		return string(s.Own) + "!{" + key.Subject + "}:" + store.TokenName(token)
	}
	return string(s.Own) + "!" + store.TokenName(token)
}

// toAsk returns what asks for a decision.
func (w *work) toAsk(s *Sender, op store.Op) *ask {
	w.ask = ask{op: op, attempt: w.Attempt, reqs: w.Reqs, keys: w.keys, words: w.words, done: w.ask.done}
	if token := w.Reqs[0].Token; token != "" {
		key := s.tokenKey(token, w.Reqs[0].Key)
		w.ask.keys, w.ask.words = append(w.keys, key), append(w.words, key)
	}
	if s.IsCluster() {
		w.ask.slot = redisserver.SlotOf(w.Reqs[0].Key.Subject)
	}
	w.ask.script = deciding(op, w.Reqs)
	return &w.ask
}

const (
	movePause    = 10 * time.Millisecond
	movePatience = 500 * time.Millisecond
)

// Decide decides the requests of w, which are of one slot and normalized: together with what others ask, or by itself.
func (s *Sender) Decide(ctx context.Context, op store.Op, w *work, decisions []store.Decision) error {
	s.SetWindows(w.Reqs)
	return s.decideInWindows(ctx, op, w, decisions, 0)
}

// decideInWindows is Decide for requests in the windows of their calendars, in which tries calls have been made.
func (s *Sender) decideInWindows(ctx context.Context, op store.Op, w *work, decisions []store.Decision,
	tries int) error {
	w.setKeys(s.Own)
	a := w.toAsk(s, op)
	if !canMerge(op, w.Reqs) {
		s.own(ctx, a)
	}
	err := s.ask(ctx, a)
	again := func(by *lua.Script) error {
		a.again(s.alone(ctx, a, by))
		return s.ask(ctx, a)
	}
	if err == nil && a.apart { // else the exchange may still write to a
		err = again(a.script)
	}
	if a.script != lua.DecideAny && (redisserver.IsErrorReply(err, "COMPLETE") ||
		redisserver.IsErrorReply(err, "WRONGTYPE")) {
		// The key holds something unusual, and nothing has happened yet.
		err = again(lua.DecideAny)
	}
	err = OnceMoved(ctx, err, func() error { return again(lua.DecideAny) })
	if s.CorrectWindows(err, w.Reqs, &tries) {
		corrected := s.NewWork()
		corrected.Reqs, corrected.Attempt = append(corrected.Reqs[:0], w.Reqs...), w.Attempt
		return s.decideInWindows(ctx, op, corrected, decisions, tries)
	}
	if err != nil {
		if wrong := wrongCharge(err, w.Reqs); wrong != nil {
			return wrong
		}
		return s.Explain(err, op.String(), op != store.Peek, a.keys)
	}
	if a.call != nil {
		err = a.took(a.call)
	}
	if err == nil {
		err = s.readAnswer(a, decisions)
	}
	if _, foreign := errors.AsType[*store.ForeignError](err); err != nil && !foreign { // no script of ours answers so
		return s.Refuse(op.String(), op != store.Peek)
	} else if err != nil {
		return err
	}
	s.works.Put(w) // only now, see work
	return nil
}

// OnceMoved returns err, the error of a call, unless some of its keys have moved to another
// master and some have not: a script needs all of them in one place, and has not run. Then it
// calls again until all have moved, for movePatience at most.
func OnceMoved(ctx context.Context, err error, again func() error) error {
	for waited := time.Duration(0); redisserver.IsErrorReply(err, "TRYAGAIN") &&
		waited < movePatience; waited += movePause {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(movePause):
		}
		err = again()
	}
	return err
}

// wrongCharge returns the limiter's error for a reply that says what is wrong with the token or the costs of reqs, nil
// for any other.
func wrongCharge(err error, reqs []store.Request) error {
	if !redisserver.IsErrorReply(err, "TOKEN ") && !redisserver.IsErrorReply(err, "USAGE ") {
		return nil
	}
	words := strings.Fields(err.Error())
	number := func(i int) (n int64) {
		if i < len(words) {
			n, _ = strconv.ParseInt(words[i], 10, 64)
		}
		return n
	}
	request := func(i int) *store.Request { return &reqs[max(0, min(number(i)-1, int64(len(reqs)-1)))] }
	token := reqs[0].Token
	switch {
	case words[0] == "USAGE" && len(words) >= 3:
		return store.CheckUsage(&request(1).Limit, number(2))
	case words[0] == "USAGE" || len(words) < 2:
		return nil
	}
	switch words[1] {
	case "unknown":
		return store.UnknownToken(token)
	case "op":
		if op, known := store.TokenOp(words[len(words)-1][0]); known {
			return store.TokenMismatch(token, &op, 0, 0)
		}
		return nil
	case "cost":
		return store.TokenMismatch(token, nil, number(3), request(2).Cost)
	case "settled":
		settle := store.Settle
		return store.TokenMismatch(token, &settle, number(3), request(2).Cost)
	}
	return store.TokenMismatch(token, nil, 0, 0)
}

// shadowBit marks a shadow's request, in the byte of its kind.
const shadowBit = 0x80

// requestSize is the length of a packed request, a limit and the cost; see lua/frame.lua.
const requestSize = recordformat.PackedLimitSize + 4

// opCodes are the letters by which the scripts know the operations.
var opCodes = [...]byte{
	store.Take: 't', store.Peek: 'p', store.Refund: 'r', store.Adjust: 'a', store.Charge: 'c', store.Settle: 's',
	store.TakeUpTo: 'u',
}

// PackRequests packs an operation on requests as ARGV[1] of the scripts.
func PackRequests(op store.Op, attempt uint64, reqs []store.Request) []byte {
	packed := append(make([]byte, 0, 1+len(reqs)*requestSize), opCodes[op])
	packed = appendRequests(packed, reqs)
	if reqs[0].Token != "" {
		packed = appendInstant(packed, uint64(reqs[0].TokenTTL/time.Microsecond))
		digest := store.TokenDigestOf(reqs)
		packed = binary.BigEndian.AppendUint64(append(packed, digest[:]...), attempt)
	}
	if reqs[0].NotAfter != 0 {
		packed = appendInstant(packed, uint64(reqs[0].NotAfter))
	}
	return packed
}

// appendInstant appends µs in 7 bytes.
func appendInstant(packed []byte, us uint64) []byte {
	packed = append(packed, byte(us>>48), byte(us>>40), byte(us>>32))
	return binary.BigEndian.AppendUint32(packed, uint32(us))
}

// appendRequests appends reqs as the scripts read them.
func appendRequests(packed []byte, reqs []store.Request) []byte {
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

// WithOptions appends the instant to a script's arguments, if it is not the server's, and what the requests leave,
// unless that is nil.
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

// The windows of a calendar need the rules of time zones, which a script does not have. So each request says the
// bounds of its window, by the server's clock as far as that is known here. A script that finds them wrong changes
// nothing and says the right instant, and the call is made again. Our own clock need not be right.

// windowReply begins the reply of a script that found the window of a request wrong.
const windowReply = "WINDOW "

// serverNow returns what the server's clock shows, as far as that is known.
func (s *Sender) serverNow() store.Instant {
	if s.Clock != nil {
		return store.InstantOf(s.Clock())
	}
	return store.InstantOf(time.Now().Add(time.Duration(s.Ahead.Load()) * time.Millisecond))
}

// SetWindows has all of reqs that are decided in windows of a calendar be in those that hold now.
func (s *Sender) SetWindows(reqs []store.Request) {
	now := store.Instant(-1)
	for i := range reqs {
		if reqs[i].Limit.Calendar == nil {
			continue
		}
		if now < 0 {
			now = s.serverNow()
		}
		reqs[i].Limit = reqs[i].Limit.InWindow(now)
	}
}

// CorrectWindows reports whether err, of a call on reqs, is that of a wrong window, and sets the right ones. The
// script looks at one request after the other, so those before the one that it names are right. tries counts the
// calls, and ends this if a server never agrees.
func (s *Sender) CorrectWindows(err error, reqs []store.Request, tries *int) bool {
	if !redisserver.IsErrorReply(err, windowReply) {
		return false
	}
	words := strings.Fields(err.Error())
	if *tries++; len(words) < 4 || *tries > len(reqs)+1 {
		return false
	}
	var numbers [3]int64
	for i := range numbers {
		n, err := strconv.ParseInt(words[1+i], 10, 64)
		if err != nil || n < 0 || n > store.MaxInstant {
			return false
		}
		numbers[i] = n
	}
	at, instant, now := int(numbers[0])-1, store.Instant(numbers[1]), store.Instant(numbers[2])
	if at < 0 || at >= len(reqs) {
		return false
	}
	if s.Clock == nil {
		s.Ahead.Store(time.Until(now.Time()).Milliseconds())
	}
	for i := at; i < len(reqs); i++ {
		reqs[i].Limit = reqs[i].Limit.InWindow(instant)
		instant = now // a key can be ahead of the clock
	}
	return true
}
