package layouts

import (
	"strings"

	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// All returns the layouts, in the order of their names.
func All() []Layout {
	return []Layout{
		apisix{},
		bucket4j{},
		counter,
		djangoRatelimit{},
		drf{},
		envoy{},
		gcraNs,
		kong{},
		laravel{},
		limits{},
		nestjs{},
		rackAttack{},
		rateLimitRedis,
		rateLimiterFlexible,
		redisCell,
		redisRate{},
		spring{},
		throttled,
		timeSet{},
		tokenHash{},
		traefik{},
		ulule,
		upstash{},
	}
}

// Auto is what --layout takes for all layouts, each recognised by itself.
const Auto = "auto"

// nearNames returns the names of the layouts that somebody may have meant: those that have the name
// in theirs or in that of their limiter, such as "spring" or "express", else the one that is spelled
// nearly like it. It is empty if there are none, or too many to be a help.
func nearNames(name string, names []string) string {
	const shortest, most = 3, 4
	text := strings.ToLower(name)
	var near []string
	for _, layout := range All() {
		info := layout.Info()
		if len(text) >= shortest && (strings.Contains(info.Name, text) || strings.Contains(strings.ToLower(info.Writer), text)) {
			near = append(near, info.Name)
		}
	}
	if len(near) == 0 || len(near) > most {
		return texts.Nearest(name, names, min(3, len(name)/2))
	}
	return strings.Join(near, " or ")
}

// Named returns the layout of a name. The error is a [store.ErrInvalid].
func Named(name string) (Layout, error) {
	var names []string
	for _, layout := range All() {
		if layout.Info().Name == name {
			return layout, nil
		}
		names = append(names, layout.Info().Name)
	}
	if near := nearNames(name, names); near != "" {
		return nil, store.Invalidf("layout %q is not known; did you mean %s?", name, near)
	}
	return nil, store.Invalidf("layout %q is not known; it is auto or one of %s", name, strings.Join(names, ", "))
}
