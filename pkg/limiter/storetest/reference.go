package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// matchesTheReference sends the same random requests at the same instants to the store and to the pure Go
// algorithms, with limits that change midway, and compares the answers.
func matchesTheReference(t *testing.T, h Harness, kind store.Kind) {
	var now time.Time
	backend := h.New(t, func() time.Time { return now })
	sequences := h.Sequences
	if testing.Short() {
		sequences = max(1, sequences/100)
	}
	for n := range sequences {
		r := rand.New(rand.NewPCG(uint64(n), uint64(kind)))
		c := newComparison(r, kind, fmt.Sprintf("sequence:%d", n))
		if n < dumped {
			c.dump = func() string { return h.dump(t, backend) }
		}
		now = epoch.Add(time.Duration(r.Int64N(int64(time.Hour))))
		for range 2 + r.IntN(12) {
			if difference := c.step(backend, &now); difference != "" {
				t.Fatalf("sequence %d of %s:\n%s\n%s", n, kind, strings.Join(c.trace, "\n"), difference)
			}
		}
		if c.dump != nil {
			clearStore(backend)
		}
	}
}

// dumped is how many sequences also check that a call which changes nothing in the reference writes nothing.
const dumped = 60

// comparison is one sequence: the keys' limits, and their states in the reference.
type comparison struct {
	r      *rand.Rand
	reqs   []store.Request
	states []*store.State
	tokens map[string]*store.TokenRecord
	ended  bool // a token, which only the reference is sure to have forgotten
	last   []store.Decision
	trace  []string
	dump   func() string // what the store keeps; nil if that is not checked
}

// newComparison returns a comparison of a random number of limits: mostly one, up to four.
func newComparison(r *rand.Rand, kind store.Kind, subject string) *comparison {
	c := &comparison{r: r, tokens: map[string]*store.TokenRecord{}}
	limits := 1 + r.IntN(5)/4*r.IntN(4)
	for i := range 2 {
		c.tokens[fmt.Sprintf("%s:%d", subject, i)] = new(store.TokenRecord)
	}
	for i := range limits {
		if i > 0 {
			kind = anyKind(r)
		}
		key := store.Key{Subject: subject, Name: fmt.Sprintf("limit-%d", i)}
		c.reqs = append(c.reqs, store.Request{Key: key, Limit: randomLimit(r, kind)})
		c.states = append(c.states, new(store.State))
	}
	return c
}

// step makes one random request of both and returns how the answers differ.
func (c *comparison) step(backend store.Store, now *time.Time) string {
	*now = now.Add(c.pause(store.InstantOf(*now)))
	op := []store.Op{store.Take, store.Take, store.Take, store.Take, store.Take, store.Peek, store.Refund,
		store.Adjust, store.Charge, store.Settle, store.TakeUpTo}[c.r.IntN(11)]
	token := c.token(op)
	most := c.reqs[0].Limit.Capacity() + 3
	upTo := 1 + c.r.Int64N(most)
	for i := range c.reqs {
		if c.r.IntN(8) == 0 {
			c.change(i)
		}
		req := &c.reqs[i]
		req.Shadow = c.r.IntN(6) == 0
		req.Cost = c.cost(req.Limit)
		if req.Shadow && c.r.IntN(4) == 0 {
			req.Cost = min(store.MaxCount, req.Limit.Capacity()+1)
		}
		if op == store.Adjust {
			req.Cost = c.r.Int64N(req.Limit.Capacity() + 1)
		}
		c.charging(op, req, token, upTo)
		req.Leave = c.leave(op, req)
		req.NotAfter = 0
	}
	if op == store.Refund && c.r.IntN(2) == 0 {
		notAfter := store.InstantOf(*now) + store.Instant(c.r.IntN(3)) - 1
		for i := range c.reqs {
			c.reqs[i].NotAfter = notAfter
		}
	}
	before := ""
	if c.dump != nil {
		before = c.dump()
	}
	changed, difference := c.compare(backend, op, *now)
	if difference == "" && c.dump != nil && !changed && !c.forgets(store.InstantOf(*now)) && c.dump() != before {
		return fmt.Sprintf("nothing changed, and yet the store did\nfrom %s\nto   %s", before, c.dump())
	}
	return difference
}

// compare makes one call of both, with the comparison's requests. It returns whether that changed anything in the
// reference, and how the answers differ or which law they break.
func (c *comparison) compare(backend store.Store, op store.Op, now time.Time) (changed bool, difference string) {
	want, got := make([]store.Decision, len(c.reqs)), make([]store.Decision, len(c.reqs))
	before, at := make([]int64, len(c.reqs)), store.InstantOf(now)
	for i, s := range c.states {
		before[i] = s.Used(at)
	}
	normalized, wantErr := store.NormalizeAll(nil, op, c.reqs)
	repeated := false
	if wantErr == nil {
		record := new(store.TokenRecord)
		if token := c.reqs[0].Token; token != "" {
			record = c.tokens[token]
		}
		repeated = !record.IsZero() && record.Expires > at
		c.ended = c.ended || !record.IsZero() && record.Expires <= at
		var changes store.Changes
		changes, wantErr = store.Decide(op, normalized, c.states, want, record, at)
		changed = changes.States || changes.Token
	}
	c.trace = append(c.trace, fmt.Sprintf("%d %s %+v -> %+v %v", now.UnixMicro(), op, c.reqs, want, wantErr))
	err := backend.Decide(context.Background(), op, c.reqs, got)
	if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		return changed, fmt.Sprintf("the store's error is %v", err)
	}
	if err != nil {
		if errors.Is(err, store.ErrInvalid) != errors.Is(wantErr, store.ErrInvalid) ||
			errors.Is(err, store.ErrNeverFits) != errors.Is(wantErr, store.ErrNeverFits) ||
			errors.Is(err, store.ErrUnknownToken) != errors.Is(wantErr, store.ErrUnknownToken) {
			return changed, fmt.Sprintf("the store's error %v is of another kind", err)
		}
		return changed, ""
	}
	if c.last = want; !slices.Equal(got, want) {
		return changed, fmt.Sprintf("the store answers %+v", got)
	}
	return changed, c.judge(op, normalized, before, want, repeated, at)
}

// forgets reports whether the store may have forgotten, or may still know, something that has ended.
func (c *comparison) forgets(now store.Instant) bool {
	for _, token := range c.tokens {
		if c.ended || !token.IsZero() && token.Expires <= now {
			return true
		}
	}
	return slices.ContainsFunc(c.states, func(s *store.State) bool { return !s.IsZero() && s.Used(now) == 0 })
}

// change gives request i another count and burst, or another limit altogether.
func (c *comparison) change(i int) {
	limit := &c.reqs[i].Limit
	other := randomLimit(c.r, kindOf(*limit))
	switch c.r.IntN(4) {
	case 0:
		other = randomLimit(c.r, anyKind(c.r))
	case 1:
	default:
		other = withPeriod(other, *limit)
		if _, err := other.Normalize(); err != nil {
			other.Burst = 0
		}
	}
	*limit = other
}

func anyKind(r *rand.Rand) store.Kind {
	kinds := store.Kinds()
	return kinds[r.IntN(len(kinds))]
}

func randomLimit(r *rand.Rand, kind store.Kind) store.Limit {
	most := kind.Algorithm().MaxCount()
	units := func() int64 {
		if r.IntN(3) > 0 {
			return 1 + r.Int64N(12)
		}
		return 1 + r.Int64N(most)
	}
	periods := []time.Duration{time.Millisecond, 7 * time.Millisecond, time.Second, 10 * time.Second, time.Minute,
		time.Hour,
		24 * time.Hour, store.MaxPeriod}
	limit := LimitOf(kind, units(), periods[r.IntN(len(periods))])
	if r.IntN(4) == 0 {
		limit.Period = store.MinPeriod +
			time.Duration(r.Int64N(int64((store.MaxPeriod-store.MinPeriod)/time.Microsecond)))*time.Microsecond
	}
	if kind.HasSlices() {
		limit = inSlices(limit, cuts[r.IntN(len(cuts))])
	}
	if kind.InCalendar() {
		limit = inCalendar(limit.Count, calendars[r.IntN(len(calendars))])
	}
	if kind.Algorithm().HasBurst() && r.IntN(2) == 0 {
		limit.Burst = units()
		if _, err := limit.Normalize(); err != nil {
			limit.Burst = 0
		}
	}
	return limit
}

func (c *comparison) cost(limit store.Limit) int64 {
	capacity := limit.Capacity()
	if c.r.IntN(32) == 0 { // errors
		return []int64{-1, 0, capacity + 1}[c.r.IntN(3)]
	}
	switch c.r.IntN(4) {
	case 0:
		return 1 + c.r.Int64N(capacity)
	case 1:
		return capacity
	}
	return min(capacity, 1+c.r.Int64N(3))
}

// leave returns what a request of op leaves, mostly nothing, and otherwise at most so much that it fits.
func (c *comparison) leave(op store.Op, req *store.Request) int64 {
	if c.r.IntN(3) > 0 {
		return 0
	}
	most := req.Limit.Capacity()
	switch {
	case req.Shadow:
		most = min(store.MaxCount, most+3)
	case op == store.TakeUpTo:
		most--
	default:
		most -= req.Cost
	}
	if c.r.IntN(3) == 0 {
		return max(0, most)
	}
	return c.r.Int64N(max(0, most) + 1)
}

// pause returns a time in which something can expire, and sometimes a negative one. Not while usage has expired: then
// both answers are right, since a store may still know the key.
func (c *comparison) pause(now store.Instant) time.Duration {
	limit := c.reqs[c.r.IntN(len(c.reqs))].Limit
	period := int64(limit.Period / time.Microsecond)
	if end, has := limit.InWindow(now).WindowEnds(); has && c.r.IntN(4) == 0 { // the bound, and beside it
		beside := []time.Duration{-time.Millisecond, -time.Microsecond, 0, time.Microsecond, time.Millisecond}
		return max(0, end.Sub(now.Time())+beside[c.r.IntN(len(beside))])
	}
	var us int64
	width := period / max(1, limit.Slices)
	switch c.r.IntN(10) {
	case 0:
		us = 0
	case 1:
		us = 1
	case 2:
		us = c.r.Int64N(3 * period)
	case 3:
		us = period - 1 + c.r.Int64N(3)
	case 4:
		us = -c.r.Int64N(period)
		if c.forgets(now) {
			us = 0
		}
	case 5:
		us = c.r.Int64N(2 * width)
	case 6:
		us = max(0, c.r.Int64N(1+max(1, limit.Slices))*width-1+c.r.Int64N(3))
	case 7: // to what an answer or a token said, or a microsecond before
		said := []time.Duration{now.Until(c.tokens[c.reqs[0].Key.Subject+":0"].Expires)}
		for _, d := range c.last {
			said = append(said, d.RetryAfter, d.ResetAfter)
		}
		by := max(0, said[c.r.IntN(len(said))]-time.Duration(c.r.IntN(2))*time.Microsecond)
		if by.Hours() < 5*366*24 { // records end in 2112
			us = by.Microseconds()
		}
	default:
		us = c.r.Int64N(period/limit.Count + 2)
	}
	return time.Duration(us) * time.Microsecond
}
