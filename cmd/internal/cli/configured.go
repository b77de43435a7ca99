package cli

import (
	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Configured returns the limit that the configuration has for a key, if it is that of a
// policy and follows from what is in the key; nil if there is no configuration to ask.
func Configured(g *Globals) func(store.Key) (store.Limit, bool) {
	c, err := g.Config()
	if err != nil || len(c.Policies) == 0 {
		return nil
	}
	limits := allowance.NewConfiguredLimits(c.Policies)
	return func(key store.Key) (limit store.Limit, known bool) {
		candidates := limits.Candidates(key)
		if len(candidates) != 1 { // an override may go by an attribute that the key does not have
			return limit, false
		}
		return candidates[0].Limit, true
	}
}

// keysOf returns the keys that a subject has by the configuration; none if it has mistakes.
func keysOf(g *Globals, subject string) []store.Key {
	c, err := g.Config()
	if err != nil {
		return nil
	}
	return allowance.KeysOf(c.Policies, subject)
}
