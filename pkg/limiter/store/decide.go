package store

import (
	"slices"
	"time"
)

// Changes says what a call has changed, and the store must write.
type Changes struct {
	States bool
	Token  bool // which is then remembered, or forgotten if its record is zero
}

// Decide answers op on the normalized requests against the states of their keys at one instant, all or nothing, and
// changes the states; lua/decide.lua does the same in Redis. The slices have equal lengths. token is the record of the
// requests' token, which the call changes. After an error, an [ErrInvalid] or an [ErrUnknownToken], nothing has
// changed.
func Decide(op Op, reqs []Request, states []*State, decisions []Decision, token *TokenRecord, now Instant) (
	Changes, error) {
	if reqs[0].Token != "" {
		if token.Expires <= now {
			*token = TokenRecord{}
		}
		if !token.IsZero() {
			return decideRemembered(op, reqs, states, decisions, token, now)
		}
	}
	changed := false
	switch op {
	case Take, Peek:
		changed = takeAll(op, reqs, states, decisions, now)
	case TakeUpTo:
		changed = takeUpTo(reqs, states, decisions, now)
	case Settle:
		return Changes{}, UnknownToken(reqs[0].Token)
	case Refund:
		late := isLate(reqs, states, now)
		for i, s := range states {
			refunded := int64(0)
			if !late && reqs[i].Token == "" { // of an unknown token there is nothing to give back
				changed = changed || !s.IsZero()
				refunded = s.refunded(reqs[i].Cost, now)
			}
			decisions[i] = s.answerRefund(&reqs[i], now, !late, refunded)
		}
	case Adjust:
		for i, s := range states {
			changed = s.Adjust(reqs[i].Limit, reqs[i].Cost, now) || changed
			decisions[i] = s.Answer(&reqs[i], now, true)
		}
	case Charge:
		for i, s := range states {
			if err := CheckUsage(&reqs[i].Limit, s.Used(now)+reqs[i].Cost); err != nil {
				return Changes{}, err
			}
		}
		for i, s := range states {
			decisions[i] = s.grant(&reqs[i], reqs[i].Cost, now)
		}
		changed = true
	}
	if !changed || reqs[0].Token == "" {
		return Changes{States: changed}, nil
	}
	*token = TokenRecord{Op: op, Expires: now + Instant(reqs[0].TokenTTL/time.Microsecond), Digest: TokenDigestOf(reqs)}
	token.Charges = make([]TokenCharge, len(reqs))
	for i := range reqs {
		charge := TokenCharge{Cost: reqs[i].Cost, Granted: decisions[i].Granted}
		if reqs[i].Limit.Algorithm == LeakyBucket && charge.Granted > 0 {
			charge.Turn = now + Instant(decisions[i].Delay/time.Microsecond)
		}
		token.Charges[i] = charge
	}
	return Changes{States: true, Token: true}, nil
}

// DecideOne is [Decide] for a Take or a Peek of a single request without a token. It reports whether it changed s.
func DecideOne(op Op, req *Request, s *State, d *Decision, now Instant) (changed bool) {
	used, capacity := s.Used(now), req.Capacity()
	*d = Decision{Allowed: used+req.Cost <= capacity, Shadow: req.Shadow, Used: used, At: now}
	if d.Allowed && req.Limit.Algorithm == LeakyBucket {
		d.Delay = s.Delay(&req.Limit, now)
	}
	if d.Allowed && op == Take {
		s.charge(&req.Limit, req.Cost, now)
		d.Used, d.Granted = used+req.Cost, req.Cost
	}
	d.describe(s, req, now)
	return d.Granted > 0
}

// takeAll takes all requests or, for a Peek or if one does not fit, none.
func takeAll(op Op, reqs []Request, states []*State, decisions []Decision, now Instant) (changed bool) {
	for i, s := range states {
		if len(reqs) > 1 && !reqs[i].Shadow && s.Used(now)+reqs[i].Cost > reqs[i].Capacity() {
			op = Peek
		}
	}
	for i, s := range states {
		changed = DecideOne(op, &reqs[i], s, &decisions[i], now) || changed
	}
	return changed
}

// describe derives the rest of d, which already says whether req was allowed, from the usage of s at now.
func (d *Decision) describe(s *State, req *Request, now Instant) {
	capacity := req.Capacity()
	d.Remaining = max(0, capacity-d.Used)
	d.ResetAfter = now.Until(s.UnusedAt(now))
	if !d.Allowed && req.Cost <= capacity {
		d.RetryAfter = now.Until(s.UsedAtMost(capacity-req.Cost, now))
	}
}

// Answer describes s at now, after a request that was allowed or not, for a store that decides elsewhere.
func (s *State) Answer(req *Request, now Instant, allowed bool) Decision {
	d := Decision{Allowed: allowed, Shadow: req.Shadow, Used: s.Used(now), At: now}
	d.describe(s, req, now)
	return d
}

// answerRefund is Answer for a refund, which is not allowed if it comes late, and never will be.
func (s *State) answerRefund(req *Request, now Instant, allowed bool, refunded int64) Decision {
	d := s.Answer(req, now, allowed)
	d.Refunded = refunded
	if !allowed {
		d.RetryAfter = 0
	}
	return d
}

// isLate reports whether a refund comes after its last instant.
func isLate(reqs []Request, states []*State, now Instant) bool {
	last := reqs[0].NotAfter
	return last != 0 && slices.ContainsFunc(states, func(s *State) bool { return s.clock(now) > last })
}

// decideRemembered answers a call whose token is known.
func decideRemembered(op Op, reqs []Request, states []*State, decisions []Decision, token *TokenRecord, now Instant) (
	Changes, error) {
	if err := token.check(op, reqs); err != nil {
		return Changes{}, err
	}
	settles := op == Settle && !token.Settled
	if settles {
		if err := settle(reqs, states, token, now); err != nil {
			return Changes{}, err
		}
	}
	late := op == Refund && isLate(reqs, states, now)
	for i, s := range states {
		charge, req, d := &token.Charges[i], reqs[i], &decisions[i]
		switch op {
		case Refund:
			refunded := int64(0)
			if !late {
				refunded = s.refunded(token.charged(charge), now)
			}
			*d = s.answerRefund(&req, now, !late, refunded)
		case Settle:
			*d = s.Answer(&req, now, true)
			d.Granted, d.Repeated = charge.Real, !settles
		default:
			if op == TakeUpTo {
				req.Cost = 1 // it is enough that one fits
			}
			*d = s.Answer(&req, now, charge.Granted > 0)
			d.Granted, d.Repeated, d.Delay = charge.Granted, true, now.Until(charge.Turn)
		}
	}
	changed := settles || op == Refund && !late
	if changed && op == Refund {
		*token = TokenRecord{}
	}
	return Changes{States: changed, Token: changed}, nil
}

// settle brings what token remembers to the costs of reqs.
func settle(reqs []Request, states []*State, token *TokenRecord, now Instant) error {
	for i, s := range states {
		if more := reqs[i].Cost - token.Charges[i].Granted; more > 0 && token.Charges[i].settles(&reqs[i]) {
			if err := CheckUsage(&reqs[i].Limit, s.Used(now)+more); err != nil {
				return err
			}
		}
	}
	for i, s := range states {
		charge := &token.Charges[i]
		if !charge.settles(&reqs[i]) {
			continue
		}
		charge.Real = reqs[i].Cost
		if more := charge.Real - charge.Granted; more > 0 {
			s.Charge(reqs[i].Limit, more, now)
		} else if more < 0 {
			s.Refund(-more, now)
		}
	}
	token.Settled = true
	return nil
}

// takeUpTo charges as many units as fit everywhere, and reports whether there are any. A shadow holds nobody back.
func takeUpTo(reqs []Request, states []*State, decisions []Decision, now Instant) (changed bool) {
	fits := reqs[0].Cost
	for i, s := range states {
		used := s.Used(now)
		room := max(0, reqs[i].Capacity()-used)
		decisions[i] = Decision{Allowed: room > 0, Shadow: reqs[i].Shadow, Used: used, Remaining: room, At: now}
		if !reqs[i].Shadow {
			fits = min(fits, room)
		}
	}
	for i, s := range states {
		req, d := &reqs[i], &decisions[i]
		if granted := min(fits, d.Remaining); granted > 0 {
			*d = s.grant(req, granted, now)
			changed = true
			continue
		}
		if d.Allowed {
			d.Delay = s.Delay(&req.Limit, now)
		}
		d.describe(s, &Request{Limit: req.Limit, Cost: 1, Leave: req.Leave}, now)
	}
	return changed
}

// grant charges units to s and returns the decision that says so.
func (s *State) grant(req *Request, units int64, now Instant) Decision {
	delay := s.Delay(&req.Limit, now)
	s.Charge(req.Limit, units, now)
	d := s.Answer(req, now, true)
	d.Granted, d.Delay = units, delay
	return d
}
