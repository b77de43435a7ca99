package layouts

import (
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// form is a layout as data, of limiters that keep a counter or an arrival time as text under one key.
type form struct {
	single
	info Info
	// match returns whose a key is. Keys are anything without it.
	match func(storeKey string, asked bool) (subject string, ok bool)
	// certain reports whether a value can hardly be anybody else's. Without it none is certain.
	certain func(found *Found, number int64) bool
	// interval is how far apart the units of a limit are in ns, of an arrival time; nil is a counter.
	interval func(*store.Limit) int64
	// noTTL is what a counter without an expiry means to the limiter, and never the known issue of one.
	noTTL noTTL
	never string
	// finish, if it is not nil, changes what follows of an arrival time, and of how long its key is kept.
	finish func(entry *admin.Entry, kept *lifetime, s spacing)
}

// noTTL is what a counter without an expiry means.
type noTTL int

const (
	counts     noTTL = iota // it never begins again
	beginsAnew              // the next request begins a new one
	blocks                  // a block for ever, or a limit without a period: no defect
)

var (
	// counter is a window as hand-written limiters keep it. An integer that expires can be anything.
	counter = &form{info: Info{Name: "counter", Writer: "hand-written windows: INCR and EXPIRE",
		Example: "rate_limit:203.0.113.9", Needs: "the limit"}, match: likeALimiter}
	// ulule counts denied requests, too. Its middleware counts by addresses (github.com/ulule/limiter f0ada6cb).
	ulule = &form{info: Info{Name: "ulule", Writer: "ulule/limiter v3", Example: "limiter:203.0.113.9",
		Prefixes: []string{"limiter:"}, Needs: "the limit"},
		never: "ulule/limiter#233", match: matchUlule, certain: isUlules}
	// rateLimiterFlexible has no keys for blocks: whoever is blocked has more than his points in the counter, which
	// is kept for as long as the block lasts. A counter is below 0 after rewards
	// (github.com/animir/node-rate-limiter-flexible 3c9c8262).
	rateLimiterFlexible = &form{info: Info{Name: "rate-limiter-flexible",
		Writer:  "rate-limiter-flexible for Node.js (RateLimiterRedis, RateLimiterValkey)",
		Example: "rlflx:203.0.113.9", Prefixes: []string{"rlflx:"}, Needs: "the limit",
		Beyond: "Processes with inMemoryBlockOnConsumed go on denying from their own memory until that block ends."},
		noTTL: blocks, match: behindRlflx, certain: isRlflx}
	// rateLimitRedis is the store of express-rate-limit. limitctl's own keys begin alike, but have braces
	// (github.com/express-rate-limit/rate-limit-redis 570da544).
	rateLimitRedis = &form{info: Info{Name: "rate-limit-redis",
		Writer:  "rate-limit-redis, the store of express-rate-limit",
		Example: "rl:203.0.113.9", Prefixes: []string{"rl:"}, Needs: "the limit"},
		noTTL: beginsAnew, never: "a hit taken back after the window's end", match: behindRl, certain: isExpress}

	// gcraNs is any limiter that keeps an arrival time in ns: they write the same under keys of any form, and no key
	// is certain. A lock, or a job that is to run later, can keep such a time, and keep it until then.
	gcraNs = &form{info: Info{Name: "gcra-ns",
		Writer:  "limiters that keep a time in nanoseconds: throttled, redis-cell, Valkey, Dragonfly",
		Example: "api:203.0.113.9", KeepsArrival: true, Needs: "the limit and the burst"},
		interval: wholeInterval, match: notVaried}
	// throttled calls MaxBurst what is one less than the burst (github.com/throttled/throttled 9e814f27).
	throttled = &form{info: Info{Name: "throttled", Writer: "throttled/throttled v2",
		Example: "throttled:203.0.113.9\nget\n/\n", KeepsArrival: true, Needs: "the limit and the burst"},
		interval: wholeInterval, certain: isThrottleds, finish: roundThrottled}
	// redisCell calls max_burst what is one less than the burst (github.com/brandur/redis-cell 4d423387,
	// github.com/dragonflydb/dragonfly f8eca6d0).
	redisCell = &form{info: Info{Name: "redis-cell", Writer: "redis-cell for Redis and Valkey, Dragonfly",
		Example: "user:123", KeepsArrival: true, Needs: "the limit and the burst"},
		interval: floatInterval, finish: wholeMicroseconds}
)

// Info implements [Layout].
func (f *form) Info() Info { return f.info }

// Match implements [Layout].
func (f *form) Match(storeKey string, asked bool) (store.Key, bool) {
	subject, ok := storeKey, true
	if f.match != nil {
		subject, ok = f.match(storeKey, asked)
	}
	return store.Key{Subject: subject, Name: f.info.Name}, ok && subject != ""
}

// Decode implements [Layout].
func (f *form) Decode(found *Found) (Reading, error) {
	if f.interval != nil {
		return f.arrival(found)
	}
	value := &found.Values[0]
	count, err := countOf(value)
	if err == nil && count < 0 && f.noTTL == counts {
		err = errors.New("a negative count")
	}
	if err != nil {
		return Reading{}, err
	}
	certain := f.certain != nil && f.certain(found, count)
	limit, ends := fromFirst(found.Limit), value.TTL
	kept := lifetime{longest: limit.Period, never: f.never}
	switch {
	case f.noTTL == blocks: // the time to wait is the TTL also of a block, which is longer than the period
		return Reading{Entries: []admin.Entry{countEntry(limit, count, ends)}, Certain: certain}, nil
	case f.noTTL == beginsAnew && ends <= 0:
		count, ends, kept.passes = 0, 0, true
	case ends < 0 && limit.Period > 0: // nothing better can be said, and the library says so
		ends = limit.Period
	}
	return kept.reading(found, countEntry(limit, count, ends), certain)
}

// arrival decodes an arrival time.
func (f *form) arrival(found *Found) (Reading, error) {
	entry, s, err := arrivalEntry(found, f.interval)
	if err != nil {
		return Reading{}, err
	}
	kept := lifetime{needed: entry.ResetAfter, passes: true}
	if f.finish != nil && entry.UsedKnown() {
		f.finish(&entry, &kept, s)
	}
	return kept.reading(found, entry, f.certain != nil && f.certain(found, 0))
}

func likeALimiter(storeKey string, asked bool) (string, bool) {
	return storeKey, asked || isNamedLikeALimiter(storeKey)
}

func behindRlflx(storeKey string, asked bool) (string, bool) {
	return behind(storeKey, "rlflx:", asked)
}

func behindRl(storeKey string, asked bool) (string, bool) { return behind(storeKey, "rl:", asked) }

// behind returns what is behind a limiter's usual prefix, or all of a key that was asked for.
func behind(storeKey, prefix string, asked bool) (subject string, ok bool) {
	subject, usual := strings.CutPrefix(storeKey, prefix)
	return subject, usual || asked
}

// matchUlule: the prefix can be changed, and has a colon behind it.
func matchUlule(storeKey string, asked bool) (subject string, ok bool) {
	if subject, ok = cutPrefix(storeKey, "limiter:", asked); !ok && asked {
		_, subject, ok = strings.Cut(storeKey, ":")
	}
	return subject, ok
}

func isUlules(found *Found, _ int64) bool {
	address, usual := strings.CutPrefix(found.StoreKey, "limiter:")
	return usual && isAddress(address) && found.Values[0].TTL >= 0 && found.Values[0].TTL < longestLimit
}

func isRlflx(found *Found, points int64) bool {
	return strings.HasPrefix(found.StoreKey, "rlflx:") && points >= 0 && couldBePeriod(found.Values[0].TTL)
}

// isExpress: only hits that are taken back leave a counter without an expiry, so it is below 0. A client is an
// address, or the network of one of IPv6, unless it is configured otherwise.
func isExpress(found *Found, hits int64) bool {
	subject, usual := strings.CutPrefix(found.StoreKey, "rl:")
	if network, err := netip.ParsePrefix(subject); !isAddress(subject) && (err != nil || !network.Addr().Is6()) {
		return false
	}
	ttl := found.Values[0].TTL
	return usual && (couldBePeriod(ttl) || ttl <= 0 && hits < 0)
}

// isVaried reports whether a key has the form that throttled's middleware gives it: parts of a
// request, each with a line feed behind it.
func isVaried(storeKey string) bool { return len(storeKey) > 1 && strings.HasSuffix(storeKey, "\n") }

func notVaried(storeKey string, asked bool) (string, bool) {
	return storeKey, asked || !isVaried(storeKey)
}

// isThrottleds reports whether a key is the middleware's, and kept until the arrival time in it, which throttled
// rounds down to seconds. It keeps a key for one at least. Others write the same value under keys of any form.
func isThrottleds(found *Found, _ int64) bool {
	arrival, _ := arrivalOf(&found.Values[0])
	ahead := time.Duration(arrival - nanoseconds(found.Now))
	return isVaried(found.StoreKey) && ahead >= -time.Second &&
		agrees(max(0, ahead-time.Second), found.Values[0].TTL, 2*time.Second)
}

// roundThrottled: the expiry is rounded down to seconds. That counts if a unit comes back in less.
func roundThrottled(_ *admin.Entry, kept *lifetime, s spacing) {
	const latency = 250 * time.Millisecond // of the server's answer
	kept.rounding = min(time.Second, max(latency, time.Duration(s.interval)))
}

// floatInterval is a quotient of floats, which is not the same for periods of months.
func floatInterval(limit *store.Limit) int64 {
	return int64(float64(limit.Period) / float64(limit.Count))
}

// wholeMicroseconds: what remains is a quotient of whole µs. Dragonfly's is one of ns.
func wholeMicroseconds(entry *admin.Entry, _ *lifetime, s spacing) {
	left, micros := s.tolerance-int64(entry.ResetAfter), int64(time.Microsecond)
	if s.interval >= micros && left > -s.interval {
		entry.Remaining = max(0, int64(float64(left/micros)/float64(s.interval/micros)))
	}
}
