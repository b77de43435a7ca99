package foreign

import (
	"strings"

	"github.com/limitctl/limitctl/internal/spelling"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// All returns the layouts, in the order of their names.
func All() []Layout {
	return []Layout{
		apisix{},
		boulder{},
		bucket4j{},
		counter{},
		djangoRatelimit{},
		drf{},
		envoy{},
		gcraNs{},
		gitlab{},
		kong{},
		laravel{},
		limitador{},
		limits{},
		nestjs{},
		rackAttack{},
		rateLimitRedis{},
		rateLimiterFlexible{},
		redisCell{},
		redisRate{},
		redisRateWindows{},
		sethvargo{},
		spring{},
		throttled{},
		timeSet{},
		tokenHash{},
		traefik{},
		tyk{},
		ulule{},
		upstash{},
	}
}

// Auto is what --layout takes for all layouts, each recognised by itself.
const Auto = "auto"

// Named returns the layout of a name. The error is a [limiter.ErrInvalid].
func Named(name string) (Layout, error) {
	var names []string
	for _, layout := range All() {
		if layout.Info().Name == name {
			return layout, nil
		}
		names = append(names, layout.Info().Name)
	}
	if near := spelling.Nearest(name, names, 3); near != "" {
		return nil, limiter.Invalidf("layout %q is not known; did you mean %s?", name, near)
	}
	return nil, limiter.Invalidf("layout %q is not known; it is auto or one of %s", name, strings.Join(names, ", "))
}
