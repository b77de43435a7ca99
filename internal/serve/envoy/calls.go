package envoy

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/limitfields"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// call is a descriptor that the configuration decides.
type call struct {
	index  int // of the descriptor in the request
	rule   *configfile.EnvoyDescriptor
	policy *policy.Policy // nil for none
	// overridden: Envoy's own limit replaces that of the policy.
	overridden bool
	ask        engine.Ask
	answer     decision.Answer
	denied     bool
	// undecided: there is no limit to ask: the descriptor is always or never denied, or the override of the limit is
	// zero.
	undecided bool
}

type calls []*call

// of returns the calls of one operation, and their asks.
func (c calls) of(op store.Op) (group calls, asks []engine.Ask) {
	for _, each := range c {
		if each.ask.Op == op && !each.undecided {
			group, asks = append(group, each), append(asks, each.ask)
		}
	}
	return group, asks
}

// callsOf returns a call for each descriptor of r that the configuration limits, or names as unlimited. An error is a
// [store.ErrInvalid].
func callsOf(r *rls.Request, in *index) (all calls, err error) {
	known := in.domains[r.Domain]
	if known == nil {
		return nil, nil
	}
	var replaced []string
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		rule, attributes := known.find(d)
		if rule == nil {
			continue
		}
		for name, value := range attributes {
			attributes[name] = in.settings.HTTP.Client(rule.Policy, name, value)
		}
		replaced = append(replaced, rule.Replaces...)
		each := &call{index: i, rule: rule, ask: engine.Ask{
			Settings: in.settings, Policy: rule.Policy, Attributes: attributes}}
		switch {
		case rule.Unlimited:
			each.undecided = true
		case rule.Deny:
			each.undecided, each.denied = true, true
			each.policy, each.ask.Policy = engine.DenyPolicy, engine.DenyPolicy.Name
			each.ask.Op, each.ask.Cost = operation(d, r.Hits)
			each.ask.Attributes = policy.Attributes{engine.DeniedAttribute: rule.AttributeOf(d.Text(r.Domain))}
		case rule.Policy == "":
			continue
		default:
			each.ask.Op, each.ask.Cost = operation(d, r.Hits)
			each.policy = in.policies[rule.Policy]
			each.addCosts()
			if d.HasLimit {
				if err := each.override(&d.Limit); err != nil {
					return nil, err
				}
			}
		}
		all = append(all, each)
	}
	if len(replaced) > 0 {
		all = slices.DeleteFunc(all, func(c *call) bool {
			return !c.rule.Unlimited && !c.overridden && c.rule.Name != "" && slices.Contains(replaced, c.rule.Name)
		})
	}
	return all, nil
}

// addCosts reads the costs in the entries. An error would let the request pass: so an entry that is no valid cost is
// more than fits, and each cost is at least 1.
func (c *call) addCosts() {
	if c.policy == nil {
		return
	}
	for _, field := range c.policy.CostFields() {
		text, has := c.ask.Attributes[field]
		if !has {
			continue
		}
		cost, err := policy.ParseFieldCost(field, text)
		if err != nil {
			cost = policy.FieldCost{Field: field, Units: store.MaxCount}
			if c.ask.Op == store.Refund { // of nothing
				c.ask.Op = store.Peek
			}
		}
		cost.Units = max(1, cost.Units)
		delete(c.ask.Attributes, field)
		c.ask.Costs = append(c.ask.Costs, cost)
	}
}

// override replaces the policy's limit by Envoy's, if the policy has a single one. With several it is unclear which
// one Envoy means, so they stay.
func (c *call) override(l *rls.LimitOverride) error {
	period := l.Period()
	if period == 0 {
		return store.Invalidf("the limit of descriptor %d has unit %d and multiplier %d, which is no period", c.index+1,
			l.Unit,
			l.Multiplier)
	}
	p := c.policy
	c.overridden = p != nil && len(p.Limits) == 1
	switch {
	case !c.overridden:
	case l.RequestsPerUnit == 0:
		c.denied, c.undecided = true, true
	default:
		c.ask.Limits = []store.Limit{{
			Algorithm: p.Limits[0].Limit.Algorithm, Count: min(int64(l.RequestsPerUnit), store.MaxCount),
			Period: period,
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

// appendResponse appends the RateLimitResponse to a request with that many descriptors.
func (c calls) appendResponse(response []byte, descriptors int, settings *engine.Settings) []byte {
	headers, own := settings.HTTP.Headers, settings.EnvoyOptions.Headers
	if own != (configfile.EnvoyHeaders{}) {
		headers = 0
	}
	overall := rls.OK
	for _, each := range c {
		if each.denied && !settings.EnvoyOptions.Shadow {
			overall = rls.OverLimit
		}
	}
	response = rls.AppendOverall(response, overall)
	var all told
	var nearest rls.Status
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
			// or none yet
			if s.HasLimit && (s.Code > nearest.Code || s.Code == nearest.Code && s.Remaining < nearest.Remaining) {
				nearest = s
			}
		}
		response = rls.AppendStatus(response, &s)
	}
	if nearest.HasLimit && own.Limit != "" {
		response = rls.AppendHeader(response, own.Limit, strconv.FormatUint(uint64(nearest.RequestsPerUnit), 10))
		response = rls.AppendHeader(response, own.Remaining, strconv.FormatUint(uint64(nearest.Remaining), 10))
		response = rls.AppendHeader(response, own.Reset, strconv.FormatUint(nearest.ResetSeconds, 10))
	}
	if len(all.decisions) > 0 {
		header := http.Header{}
		limitfields.Set(header, limitfields.Selection(headers), all.limits, all.reqs, all.decisions, time.Now())
		for _, name := range slices.Sorted(maps.Keys(header)) { // so that equal answers are equal bytes
			response = rls.AppendHeader(response, strings.ToLower(name), header[name][0])
		}
	}
	return response
}

// status is Envoy's status of a descriptor, about the limit that is nearest to its end.
func (c *call) status() rls.Status {
	s := rls.Status{Code: rls.OK}
	if c.denied {
		s.Code = rls.OverLimit
	}
	if c.rule.Unlimited {
		s.Remaining = math.MaxUint32
	}
	if c.undecided {
		return s
	}
	tightest := -1
	for i := range c.answer.Decisions {
		if d := &c.answer.Decisions[i]; !d.Shadow && !d.Unguarded &&
			(tightest < 0 || tighter(d, &c.answer.Decisions[tightest])) {
			tightest = i
		}
	}
	if tightest < 0 {
		return s
	}
	d, limit := &c.answer.Decisions[tightest], c.answer.Effective(tightest)
	s.HasLimit = true
	if s.Name = c.rule.Name; s.Name == "" {
		s.Name = c.answer.Policy.Name + "/" + c.answer.LimitName(tightest)
	}
	s.RequestsPerUnit, s.Unit = clamped(limit.Count), rls.UnitOf(limit.Period)
	if limit.Calendar != nil {
		s.Unit = rls.UnitNamed(limit.PeriodText())
	}
	s.Remaining = clamped(d.Remaining)
	until := d.ResetAfter
	if !d.Allowed && d.RetryAfter > 0 {
		until = d.RetryAfter
	}
	s.HasReset, s.ResetSeconds = true, uint64((until+time.Second-1)/time.Second)
	return s
}

// told is the limits of all descriptors that the header fields tell the client.
type told struct {
	limits    []policy.Limit
	reqs      []store.Request
	decisions []store.Decision
}

// add adds the limits of a descriptor, with names as in current_limit, by which a client joins its fields. If several
// descriptors have a limit, it keeps the one that is nearest to its end.
func (t *told) add(answer *decision.Answer) {
	for i := range answer.Decisions {
		limit := answer.Policy.Limits[i]
		limit.Name = answer.Policy.Name + "/" + limit.Name
		at := slices.IndexFunc(t.limits, func(l policy.Limit) bool { return l.Name == limit.Name })
		switch {
		case at < 0:
			t.limits = append(t.limits, limit)
			t.reqs, t.decisions = append(t.reqs, answer.Requests[i]), append(t.decisions, answer.Decisions[i])
		case tighter(&answer.Decisions[i], &t.decisions[at]):
			t.reqs[at], t.decisions[at] = answer.Requests[i], answer.Decisions[i]
		}
	}
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
