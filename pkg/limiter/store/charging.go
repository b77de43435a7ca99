package store

import (
	"slices"
	"strconv"
	"time"
)

// IsCharging reports whether op on reqs is for [DecideCharging] instead of [Decide]: a
// charge, a settlement, a take of what fits, or anything with a token or a last instant.
func IsCharging(op Op, reqs []Request) bool {
	return op > Adjust || len(reqs) > 0 && (reqs[0].Token != "" || reqs[0].NotAfter != 0)
}

// Changes says what a call has changed, and the store must write.
type Changes struct {
	States bool
	Token  bool // which is then remembered, or forgotten if its record is zero
}

// DecideCharging does what [Decide] does, for the calls for which [IsCharging] is true. token is the record of the
// requests' token, zero if there is none; the call changes it. After an error, which is an [ErrInvalid] or an
// [ErrUnknownToken], nothing has changed.
//
// The Lua twin is lua/decide.lua.
func DecideCharging(op Op, reqs []Request, states []*State, decisions []Decision, token *TokenRecord, now Instant) (Changes, error) {
	if token.Expires <= now {
		*token = TokenRecord{}
	}
	if reqs[0].Token != "" && !token.IsZero() {
		return decideRemembered(op, reqs, states, decisions, token, now)
	}
	var changed bool
	switch op {
	case Settle:
		return Changes{}, UnknownToken(reqs[0].Token)
	case Refund:
		switch {
		case isLate(reqs, states, now):
			answerLate(reqs, states, decisions, now)
		case reqs[0].Token != "": // there is nothing to give back
			for i, s := range states {
				decisions[i] = s.Answer(&reqs[i], now, true)
			}
		default:
			changed = Decide(op, reqs, states, decisions, now)
		}
	case Charge:
		for i, s := range states {
			if err := s.checkCharge(&reqs[i].Limit, reqs[i].Cost, now); err != nil {
				return Changes{}, err
			}
		}
		for i, s := range states {
			decisions[i] = s.grant(&reqs[i], reqs[i].Cost, now)
		}
		changed = true
	case TakeUpTo:
		changed = takeUpTo(reqs, states, decisions, now)
	default:
		changed = Decide(op, reqs, states, decisions, now)
	}
	if !changed || reqs[0].Token == "" {
		return Changes{States: changed}, nil
	}
	*token = TokenRecord{Op: op, Expires: now + Instant(reqs[0].TokenTTL/time.Microsecond), Digest: TokenDigestOf(reqs)}
	token.Charges = make([]TokenCharge, len(reqs))
	for i := range reqs {
		charge := TokenCharge{Cost: reqs[i].Cost, Granted: decisions[i].Granted}
		if definitions[reqs[i].Limit.Kind()].queue != nil && charge.Granted > 0 {
			charge.Turn = now + Instant(decisions[i].Delay/time.Microsecond)
		}
		token.Charges[i] = charge
	}
	return Changes{States: true, Token: true}, nil
}

// isLate reports whether a refund comes after its last instant.
func isLate(reqs []Request, states []*State, now Instant) bool {
	last := reqs[0].NotAfter
	return last != 0 && slices.ContainsFunc(states, func(s *State) bool { return s.clock(now) > last })
}

// answerLate answers a refund that comes too late.
func answerLate(reqs []Request, states []*State, decisions []Decision, now Instant) {
	for i, s := range states {
		decisions[i] = s.Answer(&reqs[i], now, false)
		decisions[i].RetryAfter = 0 // it never comes in time any more
	}
}

// unknownTokenError is an [ErrUnknownToken] that names the token.
type unknownTokenError struct{ token string }

func (e *unknownTokenError) Error() string {
	return "nothing is remembered of token " + strconv.Quote(e.token) + ": nothing was allowed with it, or its time is over"
}

func (e *unknownTokenError) Is(target error) bool { return target == ErrUnknownToken }

// UnknownToken returns the [ErrUnknownToken] for token, for stores that decide elsewhere.
func UnknownToken(token string) error { return &unknownTokenError{token} }

// decideRemembered answers a call whose token is known.
func decideRemembered(op Op, reqs []Request, states []*State, decisions []Decision, token *TokenRecord, now Instant) (Changes, error) {
	if err := token.check(op, reqs); err != nil {
		return Changes{}, err
	}
	var changes Changes
	refunded := make([]int64, len(states))
	switch {
	case op == Refund && isLate(reqs, states, now):
		answerLate(reqs, states, decisions, now)
		return Changes{}, nil
	case op == Settle && !token.Settled:
		if err := settle(reqs, states, token, now); err != nil {
			return Changes{}, err
		}
		changes = Changes{States: true, Token: true}
	case op == Refund:
		for i, s := range states {
			refunded[i] = s.refunded(token.charged(&token.Charges[i]), now)
		}
		changes = Changes{States: true, Token: true}
	}
	for i, s := range states {
		charge, req := &token.Charges[i], reqs[i]
		if op == TakeUpTo {
			req.Cost = 1 // it is enough that one fits
		}
		d := s.Answer(&req, now, op == Refund || op == Settle || charge.Granted > 0)
		switch op {
		case Refund:
			d.Refunded = refunded[i]
		case Settle:
			d.Granted, d.Repeated = charge.Real, !changes.Token
		default:
			d.Granted, d.Repeated, d.Delay = charge.Granted, true, now.Until(charge.Turn)
		}
		decisions[i] = d
	}
	if op == Refund {
		*token = TokenRecord{}
	}
	return changes, nil
}

// settle brings what token remembers to the costs of reqs.
func settle(reqs []Request, states []*State, token *TokenRecord, now Instant) error {
	for i, s := range states {
		if more := reqs[i].Cost - token.Charges[i].Granted; more > 0 && token.Charges[i].settles(&reqs[i]) {
			if err := s.checkCharge(&reqs[i].Limit, more, now); err != nil {
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

// takeUpTo charges as many units as fit everywhere, and reports whether that is one or
// more. A shadow holds nobody back, and is charged what fits it of that.
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

// checkCharge returns an [ErrInvalid] if s cannot hold units more under limit.
func (s *State) checkCharge(limit *Limit, units int64, now Instant) error {
	return CheckUsage(limit, s.Used(now)+units)
}
