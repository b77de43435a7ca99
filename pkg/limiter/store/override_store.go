package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

type overrideStore struct {
	Store
	watch *OverrideWatch
	calls sync.Pool // of *overriddenCall
}

func newOverrideStore(store Store, watch *OverrideWatch) *overrideStore {
	return &overrideStore{Store: store, watch: watch, calls: sync.Pool{New: func() any { return new(overriddenCall) }}}
}

// Close ends the watch and closes the store.
func (s *overrideStore) Close() error {
	s.watch.Close()
	return s.Store.Close()
}

// Decide implements [Store].
func (s *overrideStore) Decide(ctx context.Context, op Op, reqs []Request, decisions []Decision) error {
	known := s.watch.known(ctx)
	if known == nil {
		return s.Store.Decide(ctx, op, reqs, decisions)
	}
	for i := range reqs {
		if o, now := s.find(known, &reqs[i]); o != nil {
			c := s.calls.Get().(*overriddenCall)
			c.op, c.now = op, now
			for j := range reqs {
				if j > i {
					o, _ = s.find(known, &reqs[j])
				}
				if j < i {
					c.add(reqs[j], nil, known, false)
				} else {
					c.add(reqs[j], o, known, len(reqs) == 1)
				}
			}
			return s.decideUnder(ctx, c, reqs, decisions)
		}
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// find returns the override that applies to req, or nil, and then the instant by the store's clock.
func (s *overrideStore) find(known *knownOverrides, req *Request) (o *Override, now Instant) {
	key := req.Key
	if key.Name == "" {
		named := Request{Key: key, Limit: req.Limit}
		named.SetDefaults()
		key = named.Key
	}
	if o = known.InForce(&key, 0); o == nil {
		return nil, 0
	}
	if now = known.clock(&s.watch.time); now >= InstantOf(o.ExpiresAt) {
		o = known.InForce(&key, now)
	}
	return o, now
}

// overriddenCall is a call under overrides.
type overriddenCall struct {
	op    Op
	now   Instant
	reqs  []Request // as the store is asked
	parts []overriddenPart
}

// overriddenPart is what an override makes of one request.
type overriddenPart struct {
	override *Override // nil for none
	exempt   bool      // it is allowed, whatever the store says
	shadowed bool      // it is asked as a shadow for that
	// denied is until when the override denies it; 0 if it does not.
	denied Instant
}

func isTake(op Op) bool { return op == Take || op == Peek || op == TakeUpTo }

// decideUnder decides reqs, which c has as overrides have changed them.
func (s *overrideStore) decideUnder(ctx context.Context, c *overriddenCall, reqs []Request, decisions []Decision) error {
	defer c.release(&s.calls)
	for i := range c.parts {
		if c.parts[i].denied > 0 && !reqs[i].Shadow {
			return s.deny(ctx, c, reqs, decisions)
		}
	}
	err := s.Store.Decide(ctx, c.op, c.reqs, decisions)
	switch {
	case errors.Is(err, ErrInvalid) && (c.op == Charge || c.op == Settle):
		// So much cannot be in use under the override's limit. Nothing was charged.
		return s.Store.Decide(ctx, c.op, reqs, decisions)
	case errors.Is(err, ErrUnknownToken) && c.op == Settle && c.isExempt():
		return s.answerUncharged(ctx, c, decisions)
	case err != nil:
		return err
	}
	c.finish(reqs, decisions)
	if c.op == TakeUpTo {
		c.grant(decisions)
	}
	return nil
}

func (c *overriddenCall) release(calls *sync.Pool) {
	clear(c.reqs)
	clear(c.parts)
	c.reqs, c.parts = c.reqs[:0], c.parts[:0]
	calls.Put(c)
}

// add adds a request, to which o applies.
func (c *overriddenCall) add(req Request, o *Override, known *knownOverrides, single bool) {
	part := overriddenPart{override: o}
	if o == nil {
		c.reqs, c.parts = append(c.reqs, req), append(c.parts, part)
		return
	}
	var asked *Request
	if req.Token != "" { // which is remembered for what was asked
		copied := req
		copied.SetDefaults()
		asked = &copied
	}
	req.SetDefaults() // for the name, which stays
	switch o.Effect {
	case OverrideBlock:
		if isTake(c.op) {
			part.denied = known.BlockedUntil(&req.Key, o)
		}
	case OverrideExempt:
		part.exempt = isTake(c.op) && !req.Shadow
		// By itself it is asked as it is, which leases and merged calls are for. A denial of it
		// charges nothing, as one of a shadow.
		part.shadowed = part.exempt && (!single || req.Cost > req.Limit.Capacity())
		req.Shadow = req.Shadow || part.shadowed
	case OverrideLimit, OverrideTimes, OverrideAdd:
		if _, err := req.Limit.Normalize(); err != nil {
			break // the store refuses what was asked, as it does without the override
		}
		limit := o.Apply(req.Limit)
		switch fits := req.Cost <= limit.Capacity() || req.Shadow || c.op != Take && c.op != Peek && c.op != Adjust; {
		case fits:
			req.Limit = limit
		case req.Cost <= req.Limit.Capacity() && c.op != Adjust:
			part.denied = InstantOf(o.ExpiresAt)
		}
	}
	req.TokenFor = asked
	c.reqs, c.parts = append(c.reqs, req), append(c.parts, part)
}

// finish says in the store's decisions what the overrides have changed.
func (c *overriddenCall) finish(reqs []Request, decisions []Decision) {
	for i := range decisions {
		part, d := &c.parts[i], &decisions[i]
		if part.override == nil {
			continue
		}
		d.Override = part.override
		switch {
		case part.exempt:
			d.Shadow, d.Delay = reqs[i].Shadow, 0
			if !d.Allowed {
				d.Allowed, d.RetryAfter, d.DecidedBy = true, 0, DecidedByOverride
			}
		case part.denied > 0: // a shadow's
			c.denyOne(i, d)
		}
	}
}

// grant lets the exempt requests of a TakeUpTo have what the others got, or all if there are no others. One
// that was not charged all of that says so by DecidedBy.
func (c *overriddenCall) grant(decisions []Decision) {
	granted := c.reqs[0].Cost
	for i := range decisions {
		if !c.parts[i].exempt && !decisions[i].Shadow {
			granted = min(granted, decisions[i].Granted)
		}
	}
	for i := range decisions {
		if d := &decisions[i]; c.parts[i].exempt && d.Granted < granted {
			d.Granted, d.DecidedBy = granted, DecidedByOverride
		}
	}
}

// denyOne writes the denial of the i-th request into d, which may hold what the store says of it.
func (c *overriddenCall) denyOne(i int, d *Decision) {
	part := &c.parts[i]
	d.Allowed, d.Unguarded, d.Delay, d.Remaining = false, false, 0, 0
	d.RetryAfter = time.Duration(max(1, part.denied-c.now)) * time.Microsecond
	d.ResetAfter = max(d.ResetAfter, d.RetryAfter)
	d.DecidedBy, d.Override = DecidedByOverride, part.override
	if d.At == 0 {
		d.At = c.now
	}
}

// deny answers a call of which an override denies a request. The store is asked only for what
// others of its requests would be answered, and what is remembered of its token.
func (s *overrideStore) deny(ctx context.Context, c *overriddenCall, reqs []Request, decisions []Decision) error {
	if _, err := NormalizeAll(nil, c.op, reqs); err != nil {
		return err
	}
	for i := range decisions {
		decisions[i] = Decision{Allowed: true, Shadow: reqs[i].Shadow, Unguarded: true} // nobody was asked
	}
	hasToken := reqs[0].Token != "" && c.op != TakeUpTo // what a TakeUpTo was granted, a peek does not tell
	if len(reqs) > 1 || hasToken || c.op == Peek {
		answered, err := s.peek(ctx, c, hasToken, decisions)
		if err != nil {
			return err
		}
		if answered && hasToken && Summarize(decisions).Repeated {
			for i := range decisions {
				decisions[i].Override = c.parts[i].override
			}
			return nil
		}
	}
	c.finish(reqs, decisions)
	for i := range decisions {
		decisions[i].Granted = 0
	}
	return nil
}

// peek asks what the requests of c would be answered. answered is false if the store cannot say.
func (s *overrideStore) peek(ctx context.Context, c *overriddenCall, hasToken bool, decisions []Decision) (answered bool, err error) {
	asked := slices.Clone(c.reqs)
	for i := range asked {
		// What is denied anyway must not be refused because it never fits.
		asked[i].Shadow = asked[i].Shadow || c.parts[i].denied > 0
		if !hasToken {
			asked[i].Token, asked[i].TokenTTL = "", 0
		}
		if c.op == TakeUpTo {
			asked[i].Cost = 1
		}
	}
	found := make([]Decision, len(asked))
	if err := s.Store.Decide(ctx, Peek, asked, found); err != nil {
		if errors.Is(err, ErrInvalid) || errors.Is(err, ErrForeign) {
			return false, err
		}
		return false, nil
	}
	for i := range found {
		found[i].Shadow = decisions[i].Shadow
	}
	copy(decisions, found)
	return true, nil
}

// isExempt reports whether all requests of c are.
func (c *overriddenCall) isExempt() bool {
	return !slices.ContainsFunc(c.parts, func(p overriddenPart) bool { return p.override == nil || p.override.Effect != OverrideExempt })
}

// answerUncharged answers a Settle of an exempt take that did not fit: nothing was charged then, and
// nothing is now.
func (s *overrideStore) answerUncharged(ctx context.Context, c *overriddenCall, decisions []Decision) error {
	for i := range c.reqs {
		c.reqs[i].Token, c.reqs[i].TokenTTL, c.reqs[i].Cost = "", 0, 1
	}
	if err := s.Store.Decide(ctx, Peek, c.reqs, decisions); err != nil {
		return err
	}
	for i := range decisions {
		d := &decisions[i]
		d.Allowed, d.RetryAfter, d.Delay, d.Shadow = true, 0, 0, false
		d.DecidedBy, d.Override = DecidedByOverride, c.parts[i].override
	}
	return nil
}
