package layouts

import (
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// djangoRatelimit is the Python library django-ratelimit: a counter. Its key is a hash of
// everything, also of when the window ends, so that it says neither whose it is nor when it ends.
type djangoRatelimit struct{ single }

// djangoRatelimitKept is how long the library keeps a counter from the first request on: a little
// longer than the period. It is 0 if the period is not known.
func djangoRatelimitKept(found *Found) time.Duration {
	if found.Limit.Period == 0 {
		return 0
	}
	return found.Limit.Period + 5*time.Second
}

// Info implements [Layout]. The facts are from github.com/jsocol/django-ratelimit e1130454.
func (djangoRatelimit) Info() Info {
	return Info{
		Name: "django-ratelimit", Writer: "django-ratelimit 4",
		Example:  ":1:rl:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		Prefixes: []string{":1:rl:"}, Needs: "the count",
	}
}

// Match implements [Layout].
func (djangoRatelimit) Match(storeKey string, asked bool) (store.Key, bool) {
	rest, ok := cutDjango(storeKey, asked)
	if !ok {
		return store.Key{}, false
	}
	hash, ok := strings.CutPrefix(rest, "rl:")
	return store.Key{Subject: hash, Name: "django-ratelimit"}, ok && isSHA256(hash)
}

// Decode implements [Layout]. Denied requests count, too. Since it is not known when the window
// ends, the period of the limit is left out.
func (djangoRatelimit) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	limit := store.Limit{Algorithm: store.FixedWindow, Count: found.Limit.Count, Burst: found.Limit.Count}
	kept := lifetime{longest: djangoRatelimitKept(found), passes: true}
	return kept.reading(found, countEntry(limit, count, -1), value.TTL > 0 && value.TTL < longestLimit)
}
