// Package redisstore keeps limits in Redis (or Valkey, which speaks the same
// protocol) and decides them there, in one atomic script call by the server's
// clock; in a Cluster in one for each slot.
//
// It works with Redis 5 and later, on a single server or a Cluster, and needs no
// right to load scripts. What a user of it must be allowed is in docs/operations.md.
package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/recordformat"
	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Store is a [store.Store] and an [admin.Keyspace] in Redis.
type Store struct {
	settings
	client    redis.UniversalClient
	servers   *redisserver.Servers
	closed    atomic.Bool
	closing   sync.Once
	closeErr  error
	isCluster bool
	shards    sharding // which keys one call can have
	scripts   scripts
	sender    *sender
	undoing   background    // takes that are being given back
	slotted   atomic.Bool   // what looks like a single server has slots
	large     chan struct{} // holds the one call whose answer may be large
	works     sync.Pool     // of *work
	ahead     atomic.Int64  // ms that the server's clock is ahead of ours, as far as known
	// recognising: somebody looks at what a foreign value is.
	recognising atomic.Bool
}

// settings are what options change.
type settings struct {
	own     admin.OwnLayout  // of its limits
	clock   func() time.Time // nil for the server's
	budget  time.Duration
	secrets []string
	owned   bool            // the client is the Store's: it is bounded, and Close closes it
	onBatch func(calls int) // nil for nobody
	// describe is foreign.Describe, or nil.
	describe func(value *foreign.Value, now store.Instant) foreign.Description
}

// An Option changes how a Store is made.
type Option func(*settings)

// WithPrefix makes store keys begin with prefix instead of
// [store.DefaultPrefix].
func WithPrefix(prefix string) Option {
	return func(s *settings) { s.own = admin.OwnLayout(prefix) }
}

// WithClock decides by clock instead of the server's time, for tests and
// simulations in virtual time. Keys then expire an hour late, so that only
// clock decides what has lapsed.
func WithClock(clock func() time.Time) Option { return func(s *settings) { s.clock = clock } }

// WithSecrets names texts that no error may hold, besides the password that the client
// logs in with, which the store knows: a server can repeat what it was ever sent.
func WithSecrets(secrets ...string) Option {
	return func(s *settings) { s.secrets = append(s.secrets, secrets...) }
}

// WithBudget bounds how long the store may take over one call. After that it is away,
// a [store.ErrUnavailable] or [store.ErrOutcomeUnknown], whatever time the caller
// still has. Unless said, it is the client's read time-out, or 3 s where that has
// none. Where the client's own read and write time-outs are within it, connecting may take
// its dial time-out besides. A caller's own deadline is a [store.ErrGaveUp] instead.
func WithBudget(budget time.Duration) Option { return func(s *settings) { s.budget = budget } }

// WithDescriber has an error about a value that limitctl did not write say whose it looks like, such as "a Traefik bucket". Give it
// [foreign.Describe]. A program that does not name that has no need of all that is known about other limiters, and is smaller.
func WithDescriber(describe func(value *foreign.Value, now store.Instant) foreign.Description) Option {
	return func(s *settings) { s.describe = describe }
}

// WithBatchObserver lets f be told how many calls go to a server together, each time that some
// do; of one that goes alone it is told 1. Concurrent calls are merged, so a mean well above 1
// says that callers wait for each other, which saves the server work. f is called by many at
// once and must be quick. A panic of it is recovered.
func WithBatchObserver(f func(calls int)) Option {
	return func(s *settings) {
		s.onBatch = func(calls int) {
			var panicked error
			defer panics.Catch(&panicked)
			f(calls)
		}
	}
}

// Decide implements [store.Store]: one script call, one round trip, all at one
// instant. In a Cluster that holds for requests that share a slot, as those of one
// subject do; others are decided slot by slot, in the order given, and what was
// taken is given back once a later slot denies. Until then others can see it taken.
func (s *Store) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.recognised(ctx, s.decideAny(ctx, op, reqs, decisions))
}

// decideAny is Decide for requests as they come.
func (s *Store) decideAny(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	w := s.newWork()
	var err error
	if w.reqs, err = store.NormalizeAll(w.reqs[:0], op, reqs); err != nil {
		return err
	}
	if err := store.CheckStored(w.reqs); err != nil {
		return err
	}
	if store.IsSpecial(op, w.reqs) {
		return s.decideSpecial(ctx, op, w.reqs, decisions)
	}
	if s.shards.slotOf != nil && len(reqs) > 1 {
		if groups := groupBySlot(s.shards.slotOf, w.reqs); len(groups) > 1 {
			return s.decideAcrossSlots(ctx, op, groups, w.reqs, decisions)
		}
	}
	return s.decide(ctx, op, w, decisions)
}

// Part implements [store.Parted]: in a Cluster the parts are its masters, named by their
// addresses. It asks nobody and goes by what the client knows of the Cluster.
func (s *Store) Part(key store.Key) string { return s.sender.partOf(key.Subject) }

// Prefix returns what store keys begin with; see [WithPrefix].
func (s *Store) Prefix() string { return string(s.own) }

const (
	movePause    = 10 * time.Millisecond
	movePatience = 500 * time.Millisecond
)

// decideTogether decides requests of one slot, which are normalized.
func (s *Store) decideTogether(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	w := s.newWork()
	w.reqs = append(w.reqs[:0], reqs...)
	return s.decide(ctx, op, w, decisions)
}

// decide decides the requests of w, which are of one slot and normalized: together with what
// others ask, or by itself.
func (s *Store) decide(ctx context.Context, op store.Op, w *work, decisions []store.Decision) error {
	w.setKeys(s.own)
	usual, short := s.scripts.deciding(op, w.reqs)
	q, a := w.toAsk(s, op, usual), &w.ask
	if !s.canMerge(op, w.reqs) {
		q.alone(ctx)
	}
	err := s.sender.ask(ctx, q)
	again := func(by *script) error {
		q = &queued{call: a.alone(ctx, by)}
		return s.sender.ask(ctx, q)
	}
	if err == nil && a.apart { // else the exchange may still write to a
		err = again(usual)
	}
	if short && (redisserver.IsErrorReply(err, "COMPLETE") || redisserver.IsErrorReply(err, "WRONGTYPE")) {
		// The key holds something unusual, and nothing has happened yet.
		err = again(s.scripts.decidingAll())
	}
	if err = onceMoved(ctx, err, func() error { return again(s.scripts.decidingAll()) }); err != nil {
		return s.explain(err, op.String(), op != store.Peek, w.keys)
	}
	if q.call != nil {
		err = a.took(q.call)
	}
	if err == nil {
		err = s.parseVerdicts(a, decisions)
	}
	if err != nil {
		return s.wrong(err, op)
	}
	s.works.Put(w) // only now, see work
	return nil
}

// onceMoved returns err, a call's, unless the keys of that are on their way to another
// master: all of them are needed in one place, and nothing has happened yet. Then it calls
// again until they have arrived, for as long as movePatience.
func onceMoved(ctx context.Context, err error, again func() error) error {
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

// wrong is the error about a reply that does not follow.
func (s *Store) wrong(err error, op store.Op) error {
	if errors.Is(err, store.ErrForeign) {
		return err
	}
	return s.refuse(op.String(), op != store.Peek)
}

func (s *Store) keys(reqs []store.Request) []string {
	keys := make([]string, len(reqs))
	for i := range reqs {
		keys[i] = s.own.StoreKey(reqs[i].Key)
	}
	return keys
}

// shadowBit marks a shadow's request, in the byte of its kind.
const shadowBit = 0x80

// requestSize is the length of a packed request, a limit and the cost; see
// lua/decide.lua.
const requestSize = recordformat.PackedLimitSize + 4

var opCodes = [...]byte{store.Take: 't', store.Peek: 'p', store.Refund: 'r', store.Adjust: 'a'}

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

// withClock appends the instant to a script's arguments, if it is not the server's.
func withClock(arguments []any, clock func() time.Time) []any {
	if clock != nil {
		arguments = append(arguments, int64(store.InstantOf(clock())))
	}
	return arguments
}
