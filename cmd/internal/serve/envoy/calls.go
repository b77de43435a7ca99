package envoy

import (
	"crypto/sha256"
	"encoding/base64"
	"math"
	"net/http"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// call is a descriptor that a policy decides.
type call struct {
	index  int // of the descriptor in the request
	ask    engine.Ask
	answer decision.Answer
	denied bool
	// undecided: nothing is known about the limit: its override is zero, an entry is no valid cost, or one of the
	// calls costs more than its limit ever allows and the store did not say what remains.
	undecided bool
}

type calls []*call

// group is the calls of one operation, and their asks.
type group struct {
	calls []*call
	asks  []engine.Ask
}

func (c calls) of(op store.Op) (g group) {
	for _, each := range c {
		if each.ask.Op == op && !each.undecided {
			g.calls, g.asks = append(g.calls, each), append(g.asks, each.ask)
		}
	}
	return g
}

// callsOf returns a call for each descriptor of r that the configuration has. An error is a [store.ErrInvalid].
func callsOf(r *rls.Request, settings *engine.Settings) (all calls, err error) {
	known := settings.Envoy[r.Domain]
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		for j := range known {
			attributes, matches := match(d, &known[j])
			if !matches {
				continue
			}
			each := &call{index: i, ask: engine.Ask{Settings: settings, Policy: known[j].Policy, Attributes: attributes}}
			each.ask.Op, each.ask.Cost = operation(d, r.Hits)
			each.addCosts(settings)
			if d.HasLimit {
				if err := each.override(&d.Limit, settings); err != nil {
					return nil, err
				}
			}
			all = append(all, each)
			break
		}
	}
	return all, nil
}

// addCosts reads the costs in the entries. An error would let the request pass: so an entry that is no valid cost
// is a denial, and each cost is at least 1.
func (c *call) addCosts(settings *engine.Settings) {
	p := settings.Policy(c.ask.Policy)
	if p == nil {
		return
	}
	var err error
	if c.ask.Costs, err = p.CostsIn(c.ask.Attributes, nil); err != nil {
		c.denied, c.undecided = true, true
	}
	for i := range c.ask.Costs {
		c.ask.Costs[i].Units = max(1, c.ask.Costs[i].Units)
	}
}

// override replaces the policy's limit by Envoy's, if the policy has a single one. With several it is unclear which
// one Envoy means, so they stay.
func (c *call) override(l *rls.LimitOverride, settings *engine.Settings) error {
	period := l.Period()
	if period == 0 {
		return store.Invalidf("the limit of descriptor %d has unit %d and multiplier %d, which is no period", c.index+1, l.Unit,
			l.Multiplier)
	}
	p := settings.Policy(c.ask.Policy)
	switch {
	case p == nil || len(p.Limits) != 1:
	case l.RequestsPerUnit == 0:
		c.denied, c.undecided = true, true
	default:
		c.ask.Limits = []store.Limit{{
			Algorithm: p.Limits[0].Limit.Algorithm, Count: min(int64(l.RequestsPerUnit), store.MaxCount), Period: period,
		}}
	}
	return nil
}

// operation returns the operation and the cost of a descriptor.
func operation(d *rls.Descriptor, ofRequest uint32) (store.Op, int64) {
	hits := uint64(max(1, ofRequest))
	if d.HasHits {
		hits = d.Hits
	}
	switch units := int64(min(hits, store.MaxCount)); {
	case units == 0:
		return store.Peek, 1
	case d.Negative:
		return store.Refund, units
	default:
		return store.Take, units
	}
}

// match returns the attributes of d, if it has exactly the entries of known.
func match(d *rls.Descriptor, known *configfile.EnvoyDescriptor) (policy.Attributes, bool) {
	if len(d.Entries) != len(known.Entries) {
		return nil, false
	}
	values := make([]string, len(known.Entries))
	for i := range known.Entries {
		wanted := &known.Entries[i]
		found := false
		for j := range d.Entries {
			if e := &d.Entries[j]; e.Key == wanted.Key && (!wanted.Fixed || e.Value == wanted.Value) {
				values[i], found = e.Value, true
				break
			}
		}
		if !found {
			return nil, false
		}
	}
	attributes := make(policy.Attributes, len(values))
	for i := range known.Entries {
		if name := known.Entries[i].Attribute; name != "" {
			attributes[name] = attributeOf(values[i], len(values))
		}
	}
	return attributes, true
}

// emptyValue replaces an empty value, which no attribute can have. All clients without a value share their limits,
// since an error would let all of them pass.
const emptyValue = "(empty)"

// attributeOf returns the form of an entry's value in keys. A long value is cut and ends with a hash of the whole
// value, so that a client cannot make its key too long to be limited. of is the most values of a key.
func attributeOf(value string, of int) string {
	if value == "" {
		return emptyValue
	}
	const (
		room    = 800 // of the 1,024 bytes of a subject; the rest is for names
		escaped = 3   // the most that a byte takes
		hash    = 24  // bytes: 192 bits
	)
	longest := max(room/of, 48)
	if len(value) <= longest/escaped {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	mark := "~" + base64.RawURLEncoding.EncodeToString(sum[:hash])
	return value[:(longest-len(mark))/escaped] + mark
}

// appendResponse appends the RateLimitResponse to a request with that many descriptors.
func (c calls) appendResponse(response []byte, descriptors int, headers httplimit.Headers) []byte {
	overall := rls.OK
	for _, each := range c {
		if each.denied {
			overall = rls.OverLimit
		}
	}
	response = rls.AppendOverall(response, overall)
	var all limitSet
	next := 0
	for i := range descriptors {
		s := rls.Status{Code: rls.OK}
		if next < len(c) && c[next].index == i {
			each := c[next]
			next++
			s = each.status()
			if headers != 0 && !each.undecided {
				all.add(&each.answer)
			}
		}
		response = rls.AppendStatus(response, &s)
	}
	if len(all.decisions) > 0 {
		header := http.Header{}
		headers.Set(header, all.names(), all.reqs, all.decisions)
		response = appendHeaders(response, header)
	}
	return response
}

// status is Envoy's status of a descriptor, about the limit that is nearest to its end.
func (c *call) status() rls.Status {
	s := rls.Status{Code: rls.OK}
	if c.denied {
		s.Code = rls.OverLimit
	}
	if c.undecided {
		return s
	}
	tightest := -1
	for i := range c.answer.Decisions {
		if d := &c.answer.Decisions[i]; !d.Shadow && !d.Unguarded && (tightest < 0 || tighter(d, &c.answer.Decisions[tightest])) {
			tightest = i
		}
	}
	if tightest < 0 {
		return s
	}
	d, limit := &c.answer.Decisions[tightest], c.answer.Effective(tightest)
	s.HasLimit = true
	s.Name = c.answer.Policy.Name + "/" + c.answer.LimitName(tightest)
	s.RequestsPerUnit, s.Unit = clamped(limit.Count), rls.UnitOf(limit.Period)
	s.Remaining = clamped(d.Remaining)
	until := d.ResetAfter
	if !d.Allowed && d.RetryAfter > 0 {
		until = d.RetryAfter
	}
	s.HasReset, s.ResetSeconds = true, uint64((until+time.Second-1)/time.Second)
	return s
}

// tighter reports whether d is nearer to its end than other.
func tighter(d, other *store.Decision) bool {
	if d.Allowed != other.Allowed {
		return !d.Allowed
	}
	if !d.Allowed && d.RetryAfter != other.RetryAfter {
		return d.RetryAfter > other.RetryAfter
	}
	return d.Remaining < other.Remaining
}

// clamped converts n to the range of Envoy's messages.
func clamped(n int64) uint32 { return uint32(max(0, min(n, math.MaxUint32))) }
