package cli

import (
	"cmp"
	"strings"

	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// SettingsToChange is Settings for a command that changes what others use. What protects a context protects its store,
// also if a URL or another context of the same address and prefix names it. The keys of other limiters are under no
// prefix of ours, so for these any protected context of the address counts.
func (g *Globals) SettingsToChange() (*Settings, error) {
	s, err := g.Settings()
	if err != nil {
		return s, err
	}
	c, err := g.Config()
	if err != nil {
		return nil, err
	}
	if s.Context != nil && (s.Context.Protected || s.Context.ReadOnly) {
		return s, nil
	}
	here, err := connect.Address(s.Store.Value)
	if err != nil {
		return nil, err
	}
	for _, x := range c.Contexts {
		samePrefix := cmp.Or(x.Prefix, c.Prefix, store.DefaultPrefix) == s.Prefix.Value
		if s.Guard != nil || !x.Protected || !samePrefix && g.Layouts == nil {
			continue
		}
		if there, err := connect.Address(x.Store); err == nil && there == here {
			s.Guard = x
		}
	}
	return s, nil
}

// IsRedis reports whether the store of a URL has servers.
func IsRedis(url string) bool {
	return !strings.HasPrefix(url, "file:") && !strings.HasPrefix(url, "memory:")
}
