package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// WholeShare is the [Canary.Share] of all values.
const WholeShare = 10_000

// Canary is the next version of a policy, which is tried beside the one in force. Its functions must be quick and safe for
// concurrent use; each can be nil.
type Canary struct {
	// Next is the next version of the policy.
	Next *Policy
	// Share is for how many of [WholeShare] values of the attribute By the next version decides. Each process chooses the same
	// values, whatever the versions are, and a larger share has the values of a smaller one. A call without the attribute is
	// decided by the version in force. With a share of 0 the next version decides nothing, and is only judged: a shadow.
	Share int
	By    string
	// Ended reports whether the trial is over.
	Ended func() bool
	// Judged gets the takes of a shadow, as [store.Trial] says.
	Judged func(t *store.Trial, reqs []store.Request, decisions []store.Decision, next []bool)
	// Decided gets the takes under a share, and whether the next version decided.
	Decided func(byNext bool, reqs []store.Request, decisions []store.Decision)
	// Unfit is called if a call lacks what the next version needs, such as an attribute. The version in force decides it alone.
	Unfit func()
}

// InShare reports whether a value is one of share of [WholeShare] values.
func InShare(value string, share int) bool {
	sum := sha256.Sum256([]byte(value))
	return int(binary.BigEndian.Uint64(sum[:8])%WholeShare) < share
}

// WithCanary returns a copy of p that tries the next version. [Policy.Prepare] then prepares both, and each of them accepts
// the attributes of the other.
//
// A limit of the next version shares the usage of the limit with its name, if that has the same attributes, algorithm and
// period. Any other one is renamed: its name has [store.NextSuffix], and so have its keys.
func (p *Policy) WithCanary(c Canary) *Policy {
	own, next := *p, *c.Next
	next.Limits = slices.Clone(next.Limits)
	for i := range next.Limits {
		if l := &next.Limits[i]; !p.SharesUsage(&next, l) {
			l.Name += store.NextSuffix
		}
	}
	c.Next = &next
	own.canary, own.beside = &c, &next
	next.canary, next.beside = nil, p
	return &own
}

// Next returns the version that is tried beside p, with the names under which its limits count; nil for none.
func (p *Policy) Next() *Policy {
	if p.canary == nil {
		return nil
	}
	return p.canary.Next
}

// SharesUsage reports whether l, a limit of the next version of p, counts as the limit of p with its name does, so that
// both have the same keys: with the same attributes, algorithm and period, also in each exception.
func (p *Policy) SharesUsage(next *Policy, l *Limit) bool {
	at := slices.IndexFunc(p.Limits, func(old Limit) bool { return old.Name == l.Name })
	if at < 0 || !slices.Equal(p.HashBy, next.HashBy) || !slices.Equal(p.Limits[at].By, l.By) {
		return false
	}
	old := &p.Limits[at]
	if !countsLike(old.Limit, l.Limit) {
		return false
	}
	// Exceptions with another algorithm or period must be for the same requests.
	others := func(l *Limit) (others []Exception) {
		for _, e := range l.Exceptions {
			if !countsLike(l.Limit, e.Limit) {
				others = append(others, e)
			}
		}
		return others
	}
	one, other := others(old), others(l)
	if len(one) == 0 && len(other) == 0 {
		return true
	}
	return slices.EqualFunc(old.Exceptions, l.Exceptions, func(a, b Exception) bool {
		return maps.Equal(a.When, b.When) && countsLike(a.Limit, b.Limit)
	})
}

// countsLike reports whether two limits have the same algorithm and period.
func countsLike(a, b store.Limit) bool {
	a, _ = a.Normalize() // both are valid
	b, _ = b.Normalize()
	return a.Algorithm == b.Algorithm && a.Period == b.Period && a.Slices == b.Slices && a.Calendar == b.Calendar
}

// preparedCanary is what a prepared policy knows of the version beside it.
type preparedCanary struct {
	*Canary
	next *Prepared
	// here and there count the takes under a share.
	here, there *store.Trial
}

func prepareCanary(c *Canary) *preparedCanary {
	prepared := &preparedCanary{Canary: c, next: c.Next.Prepare()}
	if c.Decided != nil {
		decided := func(byNext bool) *store.Trial {
			return &store.Trial{Judged: func(_ *store.Trial, reqs []store.Request, decisions []store.Decision, _ []bool) {
				c.Decided(byNext, reqs, decisions)
			}}
		}
		prepared.here, prepared.there = decided(false), decided(true)
	}
	prepared.next.counted = prepared.there
	return prepared
}

// For returns the version of the policy that decides a call: p, or the next one that it tries.
func (p *Prepared) For(attributes Attributes, costs ...FieldCost) *Prepared {
	c := p.tried
	if c == nil || c.Share == 0 || attributes[c.By] == "" || !InShare(attributes[c.By], c.Share) || c.ended() {
		return p
	}
	if !c.next.fits(attributes, costs) {
		c.unfit()
		return p
	}
	return c.next
}

// fits reports whether the policy can decide a call.
func (p *Prepared) fits(attributes Attributes, costs []FieldCost) bool {
	return p.accepts(attributes) && p.acceptsCosts(costs)
}

func (c *preparedCanary) ended() bool { return c.Ended != nil && c.Ended() }

func (c *preparedCanary) unfit() {
	if c.Unfit != nil {
		c.Unfit()
	}
}

// trial returns what is to be judged of a call; nil for nothing.
func (p *Prepared) trial(attributes Attributes, cost int64, costs []FieldCost) *store.Trial {
	c := p.tried
	if c == nil {
		return p.counted
	}
	if c.ended() {
		return nil
	}
	if c.Share > 0 {
		return c.here
	}
	if !c.next.fits(attributes, costs) {
		c.unfit()
		return nil
	}
	requests, _, err := c.next.AppendRequests(make([]store.Request, 0, len(c.next.Limits)), nil, attributes, cost, costs...)
	if err != nil {
		return nil
	}
	for i := range requests {
		requests[i].SetDefaults()
	}
	return &store.Trial{Requests: requests, Judged: c.Judged}
}
