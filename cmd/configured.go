package cmd

import (
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// configured returns the limit that the configuration has for a key, if it is that of a
// policy and follows from what is in the key; nil if there is no configuration to ask.
func (g *globalOptions) configured() func(limiter.Key) (limiter.Limit, bool) {
	c, err := g.config()
	if err != nil || len(c.Policies) == 0 {
		return nil
	}
	return func(key limiter.Key) (limit limiter.Limit, known bool) {
		parts, is := policy.ParseKey(key)
		if !is {
			return limit, false
		}
		p, err := c.Policy(parts.Policy)
		if err != nil {
			return limit, false
		}
		attributes := policy.Attributes{}
		for _, a := range parts.Attributes {
			attributes[a.Name] = a.Value
		}
		for i := range p.Limits {
			l := &p.Limits[i]
			if l.Name != parts.Limit {
				continue
			}
			for j := range l.Overrides { // one may go by an attribute that the key does not have
				for name := range l.Overrides[j].When {
					if _, has := attributes[name]; !has {
						return limit, false
					}
				}
			}
			limit, _ = l.For(attributes)
			limit, err = limit.Normalize()
			return limit, err == nil
		}
		return limit, false
	}
}
