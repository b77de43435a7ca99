package layers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// overrideStore is the law of overrides: under an override its limit decides, with the key of the original one.
// [store.OverrideList] says which of several applies, and each decision names it.
//
// A blocked take, and one whose cost fits its limit but not the override's, is denied and charges nothing, also for
// the other requests of the call. RetryAfter is the time to the end of the block, or to when the limit has room if that
// is later. A take whose token was allowed before gets its old answer. Other operations and shadow limits pass through.
//
// An exempt take is allowed, without a Delay, and charged if it fits; else DecidedBy is [store.DecidedByOverride]: do
// not refund it. An exempt TakeUpTo is granted as many units as its other requests, or all.
type overrideStore struct {
	store.Store
	watch *OverrideWatch
}

// Close ends the watch and closes the store.
func (s *overrideStore) Close() error {
	s.watch.Close()
	return s.Store.Close()
}

// Decide implements [store.Store].
func (s *overrideStore) Decide(ctx context.Context, op store.Op, reqs []store.Request,
	decisions []store.Decision) error {
	if known := s.watch.known(ctx); known != nil {
		for i := range reqs {
			if o, now := s.find(known, &reqs[i].Key); o != nil {
				c := &overriddenCall{op: op, now: now}
				for j := range reqs {
					o, _ := s.find(known, &reqs[j].Key)
					c.add(reqs[j], o, known, len(reqs) == 1)
				}
				return s.decideUnder(ctx, c, reqs, decisions)
			}
		}
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// find returns the override that applies to key, nil for none, and the instant by the store's clock.
func (s *overrideStore) find(known *knownOverrides, key *store.Key) (o *store.Override, now store.Instant) {
	if o = known.InForce(key, 0); o == nil {
		return nil, 0
	}
	if now = known.clock(&s.watch.time); now >= store.InstantOf(o.ExpiresAt) {
		o = known.InForce(key, now)
	}
	return o, now
}

// overriddenCall is a call under overrides.
type overriddenCall struct {
	op      store.Op
	now     store.Instant
	reqs    []store.Request // for the store
	effects []overriddenRequest
}

// overriddenRequest is the effect of an override on one request.
type overriddenRequest struct {
	override *store.Override // nil for none
	exempt   bool            // it is allowed, whatever the store decides
	denied   store.Instant   // the end of an override that denies it; 0 if none does
}

func isTake(op store.Op) bool { return op == store.Take || op == store.Peek || op == store.TakeUpTo }

// decideUnder decides reqs; c has them as changed by overrides.
func (s *overrideStore) decideUnder(ctx context.Context, c *overriddenCall, reqs []store.Request,
	decisions []store.Decision) error {
	for i := range c.effects {
		if c.effects[i].denied > 0 && !reqs[i].Shadow {
			return s.deny(ctx, c, reqs, decisions)
		}
	}
	err := s.Store.Decide(ctx, c.op, c.reqs, decisions)
	switch {
	case errors.Is(err, store.ErrInvalid) && (c.op == store.Charge || c.op == store.Settle):
		// The cost exceeds what can be in use under the override's limit. Nothing was charged.
		return s.Store.Decide(ctx, c.op, reqs, decisions)
	case errors.Is(err, store.ErrUnknownToken) && c.op == store.Settle && c.isExempt():
		return s.answerUncharged(ctx, c, decisions)
	case err != nil:
		return err
	}
	c.finish(reqs, decisions)
	if c.op == store.TakeUpTo {
		c.grant(decisions)
	}
	return nil
}

// add adds a request, to which o applies.
func (c *overriddenCall) add(req store.Request, o *store.Override, known *knownOverrides, single bool) {
	effect := overriddenRequest{override: o}
	if o == nil {
		c.reqs, c.effects = append(c.reqs, req), append(c.effects, effect)
		return
	}
	if req.Token != "" { // the token is remembered for the original request
		asked := req
		req.TokenFor = &asked
	}
	switch o.Effect {
	case store.OverrideBlock:
		if isTake(c.op) {
			effect.denied = known.BlockedUntil(&req.Key, o)
		}
	case store.OverrideExempt:
		effect.exempt = isTake(c.op) && !req.Shadow
		req.Leave = 0
		// A single request goes to the store unchanged, so that leases and merged calls apply. If it is denied it
		// charges nothing, like a shadow.
		req.Shadow = req.Shadow || effect.exempt && (!single || req.Cost > req.Limit.Capacity())
	case store.OverrideLimit, store.OverrideTimes, store.OverrideAdd:
		if _, err := req.Limit.Normalize(); err != nil {
			break // the store refuses the original request, as it does without the override
		}
		under := req
		under.SetLimit(o.Apply(req.Limit))
		switch {
		case !under.NeverFits(c.op):
			req = under
		case !req.NeverFits(c.op) && c.op != store.Adjust:
			effect.denied = store.InstantOf(o.ExpiresAt)
		}
	}
	c.reqs, c.effects = append(c.reqs, req), append(c.effects, effect)
}

// finish adds the effects of the overrides to the store's decisions.
func (c *overriddenCall) finish(reqs []store.Request, decisions []store.Decision) {
	for i := range decisions {
		effect, d := &c.effects[i], &decisions[i]
		if effect.override == nil {
			continue
		}
		d.Override = effect.override
		switch {
		case effect.exempt:
			d.Shadow, d.Delay = reqs[i].Shadow, 0
			if !d.Allowed {
				d.Allowed, d.RetryAfter, d.DecidedBy = true, 0, store.DecidedByOverride
			}
		case effect.denied > 0: // for a shadow
			c.denyOne(i, d)
		}
	}
}

// grant gives the exempt requests of a TakeUpTo the number that the others got, or all if there are no others.
func (c *overriddenCall) grant(decisions []store.Decision) {
	granted := c.reqs[0].Cost
	for i := range decisions {
		if !c.effects[i].exempt && !decisions[i].Shadow {
			granted = min(granted, decisions[i].Granted)
		}
	}
	for i := range decisions {
		if d := &decisions[i]; c.effects[i].exempt && d.Granted < granted {
			d.Granted, d.DecidedBy = granted, store.DecidedByOverride
		}
	}
}

// denyOne writes the denial of request i into d, which may contain the store's decision.
func (c *overriddenCall) denyOne(i int, d *store.Decision) {
	effect := &c.effects[i]
	d.Allowed, d.Unguarded, d.Delay, d.Remaining = false, false, 0, 0
	d.RetryAfter = max(d.RetryAfter, time.Duration(max(1, effect.denied-c.now))*time.Microsecond)
	d.ResetAfter = max(d.ResetAfter, d.RetryAfter)
	d.DecidedBy, d.Override = store.DecidedByOverride, effect.override
	if d.At == 0 {
		d.At = c.now
	}
}

// deniesLonger reports whether the limit of the first request can deny it longer than its override does.
func (c *overriddenCall) deniesLonger() bool {
	limit, left := &c.reqs[0].Limit, time.Duration(c.effects[0].denied-c.now)*time.Microsecond
	drained, _ := limit.FadesBy(limit.Capacity()) // of a bucket
	longest := max(limit.Period, drained)
	if limit.Algorithm == store.SlidingCounter { // of two windows
		longest *= 2
	}
	return limit.Calendar != nil || longest > left
}

// deny answers a call in which an override denies a request. It calls the store only for the answers to the other
// requests, for what the store remembers of the token, and for a limit that may deny longer.
func (s *overrideStore) deny(ctx context.Context, c *overriddenCall, reqs []store.Request,
	decisions []store.Decision) error {
	if _, err := store.NormalizeAll(nil, c.op, reqs); err != nil {
		return err
	}
	for i := range decisions {
		decisions[i] = store.Decision{Allowed: true, Shadow: reqs[i].Shadow, Unguarded: true} // no limit was applied
	}
	hasToken := reqs[0].Token != "" && c.op != store.TakeUpTo // a peek does not return what a TakeUpTo was granted
	if len(reqs) > 1 || hasToken || c.op == store.Peek || c.deniesLonger() {
		answered, err := s.peek(ctx, c, hasToken, decisions)
		if err != nil {
			return err
		}
		if answered && hasToken && store.Summarize(decisions).Repeated {
			for i := range decisions {
				decisions[i].Override = c.effects[i].override
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

// peek peeks at the requests of c. answered is false if the store cannot answer.
func (s *overrideStore) peek(ctx context.Context, c *overriddenCall, hasToken bool, decisions []store.Decision) (
	answered bool, err error) {
	asked := slices.Clone(c.reqs)
	for i := range asked {
		// A request that is denied anyway must not be refused because it never fits.
		asked[i].Shadow = asked[i].Shadow || c.effects[i].denied > 0
		if !hasToken {
			asked[i].Token, asked[i].TokenTTL = "", 0
		}
		if c.op == store.TakeUpTo {
			asked[i].Cost = 1
		}
	}
	found := make([]store.Decision, len(asked))
	if err := s.Store.Decide(ctx, store.Peek, asked, found); err != nil {
		if errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrForeign) {
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

// isExempt reports whether all requests of c are exempt.
func (c *overriddenCall) isExempt() bool {
	return !slices.ContainsFunc(c.effects, func(e overriddenRequest) bool {
		return e.override == nil || e.override.Effect != store.OverrideExempt
	})
}

// answerUncharged answers a Settle of an exempt take that did not fit and so was not charged.
func (s *overrideStore) answerUncharged(ctx context.Context, c *overriddenCall, decisions []store.Decision) error {
	for i := range c.reqs {
		c.reqs[i].Token, c.reqs[i].TokenTTL, c.reqs[i].Cost = "", 0, 1
	}
	if err := s.Store.Decide(ctx, store.Peek, c.reqs, decisions); err != nil {
		return err
	}
	for i := range decisions {
		d := &decisions[i]
		d.Allowed, d.RetryAfter, d.Delay, d.Shadow = true, 0, 0, false
		d.DecidedBy, d.Override = store.DecidedByOverride, c.effects[i].override
	}
	return nil
}

// OverrideWatch is the law of how soon overrides apply: a change in the [admin.Tables] of a store applies to the calls
// of its stacks within about a second.
//
// A decision before the end of the first read waits for it for a second at most. No decision fails because of
// overrides. While they cannot be read, the known ones apply until their ends, and checks are five times less often.
type OverrideWatch struct {
	Env
	table   *admin.Tables // nil for a store without one
	time    stopwatch
	current atomic.Pointer[knownOverrides] // nil for none
	ready   atomic.Bool                    // no decision waits any more

	start, end sync.Once     // of the first read
	first      chan struct{} // closed after it
	err        error         // of it
	ctx        context.Context
	close      context.CancelFunc

	reading chan struct{} // has a value while a read is under way, which has the rest
	seen    *string       // the version that was read; nil after an error
	foreign error         // why some overrides could not be read; the others apply
	read    time.Duration // when the list was read
	failing bool
}

// knownOverrides are immutable.
type knownOverrides struct {
	*store.OverrideList
	now store.Instant // the store's clock
	at  time.Duration // our clock at that time
}

const (
	overrideTimeout = time.Second // of one check, with a read if there is a change
	// every is the time between two checks, or writes of denials; while they fail, it is so many times as long.
	every       = time.Second
	failedPause = 5
	// reread is the time after which the store's clock is read again: ours stands still while the machine sleeps.
	reread = time.Minute
)

// WatchOverrides returns a watch of backend's overrides. It does not call the store yet.
func WatchOverrides(backend store.Store, env Env) *OverrideWatch {
	w := &OverrideWatch{Env: env, time: newStopwatch(env.Clock),
		first: make(chan struct{}), reading: make(chan struct{}, 1)}
	w.Observer = cmp.Or(w.Observer, new(Observer))
	w.table, _ = admin.TablesOf(backend)
	w.ctx, w.close = context.WithCancel(context.Background())
	return w
}

// wrap makes the layer around backend, unless there is no table, and begins to check regularly.
func (w *OverrideWatch) wrap(backend store.Store) store.Store {
	if w.table == nil {
		return backend
	}
	w.begin()
	return &overrideStore{backend, w}
}

func (w *OverrideWatch) begin() { w.start.Do(func() { w.after(0, w.check) }) }

// Load waits for the first read and returns its error. After it no decision waits.
func (w *OverrideWatch) Load(ctx context.Context) error {
	if w.table == nil {
		return nil
	}
	w.begin()
	select {
	case <-w.first:
		return w.err
	case <-ctx.Done():
	}
	w.ready.Store(true)
	if err := store.GaveUp(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: overrides were not read in time", store.ErrUnavailable)
}

// Close ends the watch, and waits for a read under way. The store stays open.
func (w *OverrideWatch) Close() {
	w.close()
	w.reading <- struct{}{} // no read begins any more
	<-w.reading
}

// known returns the overrides, nil for none.
func (w *OverrideWatch) known(ctx context.Context) *knownOverrides {
	if !w.ready.Load() {
		ctx, cancel := store.BudgetContext(ctx, overrideTimeout) // for stores that ignore their context
		defer cancel()
		select {
		case <-w.first:
		case <-ctx.Done():
		}
	}
	return w.current.Load()
}

// check reads what has changed, tells the observer if that begins to fail or to work, and schedules the next check.
func (w *OverrideWatch) check() {
	w.reading <- struct{}{}
	defer func() { <-w.reading }()
	if w.ctx.Err() != nil {
		return
	}
	err := panics.Call(w.readChange)
	pause := every
	if err != nil {
		w.seen, pause = nil, failedPause*every
	} else {
		err = w.foreign
	}
	w.end.Do(func() {
		w.err = err
		w.ready.Store(true)
		close(w.first)
	})
	switch {
	case err == nil && w.failing:
		notify(w.Observer, w.Observer.OnOverrides, nil)
	case err != nil && !w.failing && w.ctx.Err() == nil:
		notify(w.Observer, w.Observer.OnOverrides, fmt.Errorf("overrides cannot be read: %w", err))
	}
	w.failing = err != nil
	w.after(pause, w.check)
}

// readChange reads the list if its version has changed.
func (w *OverrideWatch) readChange() error {
	ctx, cancel := store.BudgetContext(w.ctx, overrideTimeout)
	defer cancel()
	version, err := w.table.OverrideVersion(ctx)
	if err != nil || w.seen != nil && version == *w.seen && w.time.now()-w.read < reread {
		return err
	}
	var list []store.Override
	var foreign error
	if version != "" {
		list, version, err = w.table.Overrides(ctx)
		if errors.Is(err, store.ErrForeign) {
			foreign, err = err, nil
		}
		if err != nil {
			return err
		}
	}
	var known *knownOverrides
	if len(list) > 0 {
		now := store.InstantOf(list[0].ExpiresAt.Add(-list[0].Left))
		known = &knownOverrides{store.NewOverrideList(list), now, w.time.now()}
	}
	w.current.Store(known)
	w.seen, w.foreign, w.read = &version, foreign, w.time.now()
	return nil
}

// clock returns the store's clock, as far as it is known.
func (k *knownOverrides) clock(time *stopwatch) store.Instant {
	return k.now + store.Instant((time.now() - k.at).Microseconds())
}
