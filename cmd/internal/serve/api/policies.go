package api

import (
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/spelling"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// unknownPolicy says which policies there are.
func unknownPolicy(name string, settings *engine.Settings) error {
	if len(settings.Policies) == 0 {
		return limiter.Invalidf("policy %q is unknown; the server's configuration has no policies", shorten(name))
	}
	names := make([]string, len(settings.Policies))
	for i, p := range settings.Policies {
		names[i] = p.Name
	}
	if near := spelling.Nearest(name, names, 2); near != "" {
		return limiter.Invalidf("policy %q is unknown; did you mean %q?", shorten(name), near)
	}
	return limiter.Invalidf("policy %q is unknown; there are %s", shorten(name), strings.Join(names, ", "))
}
