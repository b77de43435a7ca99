// Package redisstore keeps limits in Redis (or Valkey, which speaks the same
// protocol) and decides them there, in one atomic script call by the server's
// clock.
//
// It works with Redis 5 and later, on a single server or a Cluster, and needs no
// right to load scripts. What a user of it must be allowed is in docs/operations.md.
package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// Store is a [limiter.Store] and a [limiter.Keyspace] in Redis.
type Store struct {
	client       redis.UniversalClient
	isCluster    bool
	address      string            // for messages
	own          limiter.OwnLayout // of its limits
	clock        func() time.Time  // nil for the server's
	scripts      scripts
	sender       sender
	secrets      *redact.Secrets // what no error may hold
	withoutHooks bool
	large        chan struct{} // holds the one call whose answer may be large
}

// An Option changes how a Store is made.
type Option func(*Store)

// WithPrefix makes store keys begin with prefix instead of
// [limiter.DefaultPrefix].
func WithPrefix(prefix string) Option { return func(s *Store) { s.own = limiter.OwnLayout(prefix) } }

// WithClock decides by clock instead of the server's time, for tests and
// simulations in virtual time. Keys then expire an hour late, so that only
// clock decides what has lapsed.
func WithClock(clock func() time.Time) Option { return func(s *Store) { s.clock = clock } }

// WithoutHooks adds no hook to client, and so calls no [Guard] for it: for a client that
// another Store looks after already, or one that is used for something else, too, whose
// answers are larger than Guard lets through.
func WithoutHooks() Option { return func(s *Store) { s.withoutHooks = true } }

// New returns a Store on client, which Close closes. Whatever retries client is
// configured for, takes and refunds are never sent twice. What its servers answer is
// bounded by [Guard]. A Cluster's client should be new: nodes that it knows already are
// not bounded, and what never reached them can end as a [limiter.ErrOutcomeUnknown].
// New fails with a [limiter.ErrInvalid] on an unfit prefix and does not connect yet.
func New(client redis.UniversalClient, options ...Option) (*Store, error) {
	_, isCluster := client.(*redis.ClusterClient)
	s := &Store{client: client, isCluster: isCluster, address: addressOf(client), own: limiter.DefaultPrefix,
		scripts: newScripts(), sender: sender{client: client}, secrets: redact.New(passwordOf(client)), large: make(chan struct{}, 1)}
	for _, option := range options {
		option(s)
	}
	s.address = s.secrets.Text(s.address) // a Cluster names its nodes as it likes
	if !s.withoutHooks {
		Guard(client)
		learnLogins(client, s.secrets)
		watchNodes(client)
	}
	return s, limiter.ValidatePrefix(string(s.own))
}

// Close closes the client.
func (s *Store) Close() error { return s.client.Close() }

// Decide implements [limiter.Store]: one script call, one round trip, all at one
// instant. In a Cluster that holds for requests that share a slot, as those of one
// subject do; others are decided slot by slot, in the order given, and what was
// taken is given back once a later slot denies. Until then others can see it taken.
func (s *Store) Decide(ctx context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	var room [1]limiter.Request
	reqs, err := limiter.NormalizeAll(room[:0], op, reqs)
	if err != nil {
		return err
	}
	if s.isCluster && len(reqs) > 1 {
		if groups := groupBySlot(reqs); len(groups) > 1 {
			return s.decideAcrossSlots(ctx, op, groups, reqs, decisions)
		}
	}
	return s.decideTogether(ctx, op, reqs, decisions)
}

const (
	movePause    = 10 * time.Millisecond
	movePatience = 500 * time.Millisecond
)

// decideTogether decides requests of one slot, which are normalized.
func (s *Store) decideTogether(ctx context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	keys, arguments := s.keys(reqs), s.arguments(op, reqs)
	changes := op != limiter.Peek
	script, short := s.scripts.deciding(op, reqs)
	cmd, err := s.run(ctx, changes, script, keys, arguments)
	if short && (isServerError(err, "COMPLETE") || isServerError(err, "WRONGTYPE")) {
		// The key holds something unusual, and nothing has happened yet.
		cmd, err = s.run(ctx, changes, s.scripts.decidingAll(), keys, arguments)
	}
	for waited := time.Duration(0); isServerError(err, "TRYAGAIN") && waited < movePatience; waited += movePause {
		// The keys are on their way to another master, and all of them are needed in
		// one place. Nothing has happened yet.
		select {
		case <-ctx.Done():
			return s.translate(ctx.Err(), op.String(), changes, keys)
		case <-time.After(movePause):
		}
		cmd, err = s.run(ctx, changes, s.scripts.decidingAll(), keys, arguments)
	}
	if err != nil {
		return s.translate(err, op.String(), changes, keys)
	}
	reply, err := cmd.Text()
	if err == nil {
		err = s.parseReply(reply, op, keys, reqs, decisions)
	}
	if errors.Is(err, limiter.ErrForeign) {
		return err
	} else if err != nil {
		return s.refuse(op.String(), changes)
	}
	return nil
}

func (s *Store) keys(reqs []limiter.Request) []string {
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
const requestSize = limiter.PackedLimitSize + 4

var opCodes = [...]byte{limiter.Take: 't', limiter.Peek: 'p', limiter.Refund: 'r', limiter.Adjust: 'a'}

// arguments packs the script's ARGV.
func (s *Store) arguments(op limiter.Op, reqs []limiter.Request) []any {
	packed := make([]byte, 1, 1+len(reqs)*requestSize)
	packed[0] = opCodes[op]
	for i := range reqs {
		kind := len(packed)
		packed = reqs[i].Limit.AppendPacked(packed)
		if reqs[i].Shadow {
			packed[kind] |= shadowBit
		}
		packed = binary.BigEndian.AppendUint32(packed, uint32(reqs[i].Cost))
	}
	arguments := []any{packed}
	if s.clock != nil {
		arguments = append(arguments, int64(limiter.InstantOf(s.clock())))
	}
	return arguments
}

// longAgo is before any server's clock, the year 2001.
const longAgo = limiter.Instant(1e15)

// follows reports whether an answer follows from the state that came with it. No script
// answers otherwise; who is in between, or in the server's place, might.
func follows(state *limiter.State, req *limiter.Request, op limiter.Op, allowed, charged bool, now limiter.Instant) bool {
	used, capacity := state.Used(now), req.Limit.Capacity()
	switch {
	case op == limiter.Refund || op == limiter.Adjust:
		return allowed
	case charged && allowed:
		return state.Limit == req.Limit && 0 < used && used <= capacity
	}
	return allowed == (used+req.Cost <= capacity)
}

// parseReply derives the decisions from the script's reply: the states as they
// are now, which the pure Go algorithms explain.
func (s *Store) parseReply(reply string, op limiter.Op, keys []string, reqs []limiter.Request, decisions []limiter.Decision) error {
	if len(reply) < 7 {
		return errAnswer
	}
	var instant [8]byte
	copy(instant[1:], reply)
	now := limiter.Instant(binary.BigEndian.Uint64(instant[:]))
	if s.clock == nil && now < longAgo {
		return errAnswer
	}
	rest := reply[7:]
	states := make([]limiter.State, len(reqs))
	for i := range reqs {
		if len(rest) < 2 || len(rest) < 2+int(rest[1]) || rest[0] > 1 {
			return errAnswer
		}
		decisions[i] = limiter.Decision{Allowed: rest[0] == 1, Shadow: reqs[i].Shadow}
		if record := rest[2 : 2+int(rest[1])]; record != "" {
			err := states[i].DecodeRecord([]byte(record))
			if err != nil && decisions[i].Allowed && op != limiter.Peek { // it may have been written over
				return errAnswer
			} else if err != nil {
				return &limiter.ForeignError{StoreKey: keys[i], Holds: err.Error()}
			}
		}
		rest = rest[2+int(rest[1]):]
	}
	if len(rest) > 0 {
		return errAnswer
	}
	charged := op == limiter.Take && limiter.AllAllowed(decisions)
	for i := range reqs {
		if !follows(&states[i], &reqs[i], op, decisions[i].Allowed, charged, now) {
			return errAnswer
		}
		decision := states[i].Answer(&reqs[i], now, decisions[i].Allowed)
		if decision.Allowed && (op == limiter.Take || op == limiter.Peek) {
			before := states[i]
			if charged {
				before.Units -= reqs[i].Cost // what was queued before this take
			}
			decision.Delay = before.Delay(&reqs[i].Limit, now)
		}
		decisions[i] = decision
	}
	return nil
}
