package layouts

import (
	"net/netip"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// rateLimitRedis is rate-limit-redis, the store of express-rate-limit for Node.js: a counter,
// which begins with the first request of a window.
type rateLimitRedis struct{ plainCounter }

// Info implements [Layout]. The facts are from github.com/express-rate-limit/rate-limit-redis 570da544.
func (rateLimitRedis) Info() Info {
	return Info{
		Name: "rate-limit-redis", Writer: "rate-limit-redis, the store of express-rate-limit",
		Example: "rl:203.0.113.9", Prefixes: []string{"rl:"}, Needs: "the limit",
	}
}

// Match implements [Layout]. limitctl's own keys begin alike, but have braces.
func (rateLimitRedis) Match(storeKey string, asked bool) (store.Key, bool) {
	subject, usual := strings.CutPrefix(storeKey, "rl:")
	return store.Key{Subject: subject, Name: "rate-limit-redis"}, subject != "" && (usual || asked)
}

// Decode implements [Layout]. A counter without an expiry counts for nothing: the next request
// begins a new one.
func (rateLimitRedis) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	hits, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	limit := fromFirst(found.Limit)
	subject, usual := strings.CutPrefix(found.StoreKey, "rl:")
	ours := usual && isClient(subject)
	if value.TTL <= 0 {
		entry := countEntry(limit, 0, 0)
		if value.TTL < 0 {
			entry.Defects = lifetime{passes: true, never: "a hit taken back after the window's end"}.defects(&entry, found.Values)
		}
		// Only hits that are taken back leave such a counter, so it is below 0.
		return Reading{Entries: []admin.Entry{entry}, Certain: ours && hits < 0}, nil
	}
	entry := countEntry(limit, hits, value.TTL)
	return Reading{Entries: []admin.Entry{entry}, Certain: ours && couldBePeriod(value.TTL)}, nil
}

// isClient reports whether a subject is what express-rate-limit calls a client unless it is
// configured otherwise: an address, or the network of one of IPv6.
func isClient(subject string) bool {
	if isAddress(subject) {
		return true
	}
	network, err := netip.ParsePrefix(subject)
	return err == nil && network.Addr().Is6()
}
