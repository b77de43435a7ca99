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
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// call is a descriptor that a policy decides.
type call struct {
	index  int // of the descriptor in the request
	ask    engine.Ask
	answer decision.Answer
	denied bool
	// undecided: no store was asked, as the limit is zero, or one of the calls asks for more than
	// its limit ever allows.
	undecided bool
}

type calls []*call

// group is calls of one operation, and their asks.
type group struct {
	calls []*call
	asks  []engine.Ask
}

func (c calls) of(op limiter.Op) (g group) {
	for _, each := range c {
		if each.ask.Op == op && !each.undecided {
			g.calls, g.asks = append(g.calls, each), append(g.asks, each.ask)
		}
	}
	return g
}

// callsOf returns what the descriptors of r ask, leaving out those that the configuration does not
// have. The error is a [limiter.ErrInvalid].
func callsOf(r *request, settings *engine.Settings) (all calls, err error) {
	known := settings.Envoy[r.domain]
	for i := range r.descriptors {
		d := &r.descriptors[i]
		for j := range known {
			attributes, matches := match(d, &known[j])
			if !matches {
				continue
			}
			each := &call{index: i, ask: engine.Ask{Policy: known[j].Policy, Attributes: attributes}}
			each.ask.Op, each.ask.Cost = d.operation(r.hits)
			if d.hasLimit {
				if err := each.override(&d.limit, settings); err != nil {
					return nil, err
				}
			}
			all = append(all, each)
			break
		}
	}
	return all, nil
}

// override puts Envoy's limit in the place of the policy's, if that has a single one: of several it
// could mean any, so they stay.
func (c *call) override(l *limitOverride, settings *engine.Settings) error {
	period := l.period()
	if period == 0 {
		return limiter.Invalidf("the limit of descriptor %d has unit %d and multiplier %d, which is no period", c.index+1, l.unit, l.multiplier)
	}
	for _, p := range settings.Policies {
		if p.Name == c.ask.Policy && len(p.Limits) == 1 {
			if l.requestsPerUnit == 0 {
				c.denied, c.undecided = true, true
				return nil
			}
			c.ask.Limits = []limiter.Limit{{
				Algorithm: p.Limits[0].Limit.Algorithm, Count: min(int64(l.requestsPerUnit), limiter.MaxCount), Period: period,
			}}
		}
	}
	return nil
}

// operation is what a descriptor asks for, and of how many units.
func (d *descriptor) operation(ofRequest uint32) (limiter.Op, int64) {
	hits := uint64(max(1, ofRequest))
	if d.hasHits {
		hits = d.hits
	}
	switch units := int64(min(hits, limiter.MaxCount)); {
	case units == 0:
		return limiter.Peek, 1
	case d.negative:
		return limiter.Refund, units
	default:
		return limiter.Take, units
	}
}

// match returns the attributes of d, if it has exactly the entries that known names.
func match(d *descriptor, known *configfile.EnvoyDescriptor) (policy.Attributes, bool) {
	if len(d.entries) != len(known.Entries) {
		return nil, false
	}
	values := make([]string, len(known.Entries))
	for i := range known.Entries {
		wanted := &known.Entries[i]
		found := false
		for j := range d.entries {
			if e := &d.entries[j]; e.key == wanted.Key && (!wanted.Fixed || e.value == wanted.Value) {
				values[i], found = e.value, true
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

// emptyValue stands for a value that is empty, which no attribute can be. All clients without one
// share their limits, as an error would let all of them pass.
const emptyValue = "(empty)"

// attributeOf returns what stands for the value of an entry in keys. A long value is cut, and a
// hash of all of it stands for the rest, so that no client can make its key too long to be
// limited. of is how many values a key has at most.
func attributeOf(value string, of int) string {
	if value == "" {
		return emptyValue
	}
	const (
		room    = 800 // of the 1,024 bytes of a subject; the rest is for names
		escaped = 3   // what a byte takes at most
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

// appendResponse appends a RateLimitResponse to a request of so many descriptors.
func (c calls) appendResponse(response []byte, descriptors int, headers httplimit.Headers) []byte {
	overall := codeOK
	for _, each := range c {
		if each.denied {
			overall = codeOverLimit
		}
	}
	response = appendVarint(response, 1, uint64(overall))
	var names []string
	var reqs []limiter.Request
	var decisions []limiter.Decision
	next := 0
	for i := range descriptors {
		s := status{code: codeOK}
		if next < len(c) && c[next].index == i {
			each := c[next]
			next++
			s = each.status()
			if headers != 0 && !each.undecided {
				for j := range each.answer.Decisions {
					names = append(names, each.answer.LimitName(j))
				}
				reqs = append(reqs, each.answer.Requests...)
				decisions = append(decisions, each.answer.Decisions...)
			}
		}
		response = appendStatus(response, &s)
	}
	if len(decisions) > 0 {
		header := http.Header{}
		headers.Set(header, names, reqs, decisions)
		response = appendHeaders(response, header)
	}
	return response
}

// status is what Envoy is told of a descriptor: of the limit that is nearest to its end.
func (c *call) status() status {
	s := status{code: codeOK}
	if c.denied {
		s.code = codeOverLimit
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
	s.hasLimit = true
	s.name = c.answer.Policy.Name + "/" + c.answer.LimitName(tightest)
	s.requestsPerUnit, s.unit = clamped(limit.Count), unitOf(limit.Period)
	s.remaining = clamped(d.Remaining)
	until := d.ResetAfter
	if !d.Allowed {
		until = d.RetryAfter
	}
	s.resetSeconds = int64((until + time.Second - 1) / time.Second)
	return s
}

// tighter reports whether d says more of what is in the way than other does.
func tighter(d, other *limiter.Decision) bool {
	if d.Allowed != other.Allowed {
		return !d.Allowed
	}
	if !d.Allowed && d.RetryAfter != other.RetryAfter {
		return d.RetryAfter > other.RetryAfter
	}
	return d.Remaining < other.Remaining
}

// units are the units of time of Envoy's messages, by their numbers. A month and a year are what
// envoyproxy/ratelimit takes them for.
var units = [...]time.Duration{
	1: time.Second, 2: time.Minute, 3: time.Hour, 4: day, 5: 30 * day, 6: 365 * day, 7: 7 * day,
}

const day = 24 * time.Hour

// unitOf returns the unit that is exactly that period, or 0, which says that it is not known.
func unitOf(period time.Duration) int32 {
	for unit, length := range units {
		if length == period && length > 0 {
			return int32(unit)
		}
	}
	return 0
}

// period returns how long the limit's unit is; 0 for one that is not known, or too long.
func (l *limitOverride) period() time.Duration {
	if l.unit < 0 || int(l.unit) >= len(units) {
		return 0
	}
	length, multiplier := units[l.unit], time.Duration(max(1, l.multiplier))
	if length == 0 || multiplier > math.MaxInt64/length {
		return 0
	}
	return length * multiplier
}
