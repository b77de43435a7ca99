package redisstore

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// chargingCodes are the letters of operations in decide_charging.lua.
var chargingCodes = [...]byte{
	store.Take: 't', store.Peek: 'p', store.Refund: 'r', store.Charge: 'c', store.Settle: 's', store.TakeUpTo: 'u',
}

// tokenKey returns the store key of a token for a call on key. On a single server one token
// is one key. In a Cluster or a Ring it has to be in the slot of its key, so it has the same hash tag.
func (s *Store) tokenKey(token string, key store.Key) string {
	if s.lanes.SlotOf != nil || s.slotted.Load() {
		return string(s.lanes.Own) + "!{" + key.Subject + "}:" + store.TokenName(token)
	}
	return string(s.lanes.Own) + "!" + store.TokenName(token)
}

// decideCharging decides what [store.IsCharging] of requests of one slot, which are normalized. attempt is not zero where there are
// others, of other slots.
func (s *Store) decideCharging(ctx context.Context, op store.Op, attempt uint64, reqs []store.Request,
	decisions []store.Decision) error {
	s.lanes.SetWindows(reqs)
	return s.decideChargingInWindows(ctx, op, attempt, reqs, decisions, 0)
}

// decideChargingInWindows is decideCharging for requests in the windows of their calendars, in which tries calls have been made.
func (s *Store) decideChargingInWindows(ctx context.Context, op store.Op, attempt uint64, reqs []store.Request,
	decisions []store.Decision, tries int) error {
	keys := s.storeKeys(reqs)
	packed := make([]byte, 1, 1+len(reqs)*lanes.RequestSize+7+len(store.TokenDigest{})+8+7)
	packed[0] = chargingCodes[op]
	packed = lanes.AppendRequests(packed, reqs)
	if token := reqs[0].Token; token != "" {
		keys = append(keys, s.tokenKey(token, reqs[0].Key))
		ttl := binary.BigEndian.AppendUint64(nil, uint64(reqs[0].TokenTTL/time.Microsecond))
		digest := store.TokenDigestOf(reqs)
		packed = append(append(packed, ttl[1:]...), digest[:]...)
		packed = binary.BigEndian.AppendUint64(packed, attempt)
	}
	if reqs[0].NotAfter != 0 {
		notAfter := binary.BigEndian.AppendUint64(nil, uint64(reqs[0].NotAfter))
		packed = append(packed, notAfter[1:]...)
	}
	cmd, err := s.runCharging(ctx, op, reqs, keys, lanes.WithOptions([]any{packed}, s.lanes.Clock, lanes.Leaves(reqs)))
	if redisserver.IsErrorReply(err, "CROSSSLOT") && reqs[0].Token != "" && !s.lanes.IsCluster() && !s.slotted.Swap(true) {
		// What looks like a single server is a Cluster behind a proxy. Nothing has happened yet.
		return s.decideCharging(ctx, op, attempt, reqs, decisions)
	}
	if s.lanes.CorrectWindows(err, reqs, &tries) {
		return s.decideChargingInWindows(ctx, op, attempt, reqs, decisions, tries)
	}
	if err != nil {
		if explained := explainCharging(err, reqs); explained != nil {
			return explained
		}
		return s.lanes.Explain(err, op.String(), op != store.Peek, keys)
	}
	reply, err := cmd.Text()
	if err == nil {
		err = s.parseCharging(reply, op, keys, reqs, decisions)
	}
	if err != nil {
		return s.lanes.Wrong(err, op)
	}
	return nil
}

// runCharging calls the script that decides reqs.
func (s *Store) runCharging(ctx context.Context, op store.Op, reqs []store.Request, keys []string, arguments []any) (*redis.Cmd, error) {
	changes := op != store.Peek
	script, short := s.lanes.Scripts.DecidingCharging(reqs)
	cmd, err := s.lanes.Run(ctx, changes, script, keys, arguments)
	if short && redisserver.IsErrorReply(err, "COMPLETE") {
		cmd, err = s.lanes.Run(ctx, changes, s.lanes.Scripts.DecidingChargingAny(), keys, arguments)
	}
	err = lanes.OnceMoved(ctx, err, func() (err error) {
		cmd, err = s.lanes.Run(ctx, changes, s.lanes.Scripts.DecidingChargingAny(), keys, arguments)
		return err
	})
	return cmd, err
}

// explainCharging returns the limiter's error for a reply that says what is wrong with reqs,
// nil for any other.
func explainCharging(err error, reqs []store.Request) error {
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
			return store.TokenMismatch{Token: token, Op: &op}.Err()
		}
		return nil
	case "cost", "settled":
		return store.TokenMismatch{Token: token, Cost: number(3), Asked: request(2).Cost, Settled: words[1] == "settled"}.Err()
	}
	return store.TokenMismatch{Token: token}.Err()
}

// parseCharging derives the decisions from the reply of decide_charging.lua.
func (s *Store) parseCharging(reply string, op store.Op, keys []string, reqs []store.Request, decisions []store.Decision) error {
	if len(reply) < 8 || reply[7] > 1 {
		return redisserver.ErrAnswer
	}
	now, repeated, rest := lanes.InstantOf(reply), reply[7] == 1, reply[8:]
	if s.lanes.Clock == nil && now < lanes.LongAgo {
		return redisserver.ErrAnswer
	}
	for i := range reqs {
		const fixed = 1 + 4 + 7 + 1
		if len(rest) < fixed || len(rest) < fixed+int(rest[fixed-1]) || rest[0] > 1 {
			return redisserver.ErrAnswer
		}
		allowed, granted := rest[0] == 1, int64(binary.BigEndian.Uint32([]byte(rest[1:5])))
		turn, record := lanes.InstantOf(rest[5:12]), rest[fixed:fixed+int(rest[fixed-1])]
		rest = rest[fixed+len(record):]
		var state store.State
		if record != "" {
			err := state.DecodeRecordUnder(&reqs[i].Limit, []byte(record))
			if err != nil && op != store.Peek && granted > 0 { // it may have been written over
				return redisserver.ErrAnswer
			} else if err != nil {
				return &store.ForeignError{StoreKey: keys[i], Holds: err.Error()}
			}
		}
		req := reqs[i]
		if op == store.TakeUpTo {
			req.Cost = 1 // it is enough that one fits
		}
		if !followsCharging(&state, &req, op, allowed, repeated, granted, now) {
			return redisserver.ErrAnswer
		}
		d := state.Answer(&req, now, allowed)
		switch {
		case op == store.Refund:
			d.Refunded = granted
			d.RetryAfter = 0 // what came late never comes in time any more
		case op == store.Settle:
			d.Granted, d.Repeated = granted, repeated
		case granted > 0:
			d.Granted, d.Repeated = granted, repeated
			d.Delay = time.Duration(max(0, turn-now)) * time.Microsecond
		case allowed:
			d.Delay = state.Delay(&req.Limit, now)
		}
		d.Repeated = repeated
		decisions[i] = d
	}
	if len(rest) > 0 {
		return redisserver.ErrAnswer
	}
	return nil
}

// followsCharging is follows for decide_charging.lua. req has the cost that makes it allowed.
func followsCharging(state *store.State, req *store.Request, op store.Op, allowed, repeated bool, granted int64,
	now store.Instant) bool {
	used, capacity := state.Used(now), req.Capacity()
	switch {
	case op == store.Refund && req.NotAfter != 0:
		return !allowed || max(now, state.Time) <= req.NotAfter
	case op == store.Refund || op == store.Settle || repeated:
		return true
	case op == store.Charge:
		return allowed && granted == req.Cost && state.Limit == req.Limit && used > 0
	case granted > 0:
		return allowed && op != store.Peek && state.Limit == req.Limit && 0 < used && used <= capacity
	}
	return allowed == (used+req.Cost <= capacity)
}
