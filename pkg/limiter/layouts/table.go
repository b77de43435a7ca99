package layouts

import (
	"strings"

	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// kongNobody stands for a route or service in a key of Kong if its plugin is not configured for one.
const kongNobody = "00000000-0000-0000-0000-000000000000"

// table has the layouts in the order of their names, with where the facts are from.
var table = []*row{
	// github.com/apache/apisix f519a0f0. Until 2026 a key had no "v1", and its number was what remains.
	{info: Info{Name: "apisix", Writer: "Apache APISIX: limit-count in fixed windows",
		Example: "plugin-limit-count:v1:/apisix/routes/1:1626:203.0.113.9", Prefixes: []string{"plugin-limit-count"},
		Needs:  "the limit",
		Beyond: "With sync_interval APISIX counts by itself, and adds its count to Redis at the next sync."},
		keys: keysLike(`^plugin-(?P<name>limit-count)(?::v1:)?` +
			`(?:(?:/apisix)?/(?P<name2>[^:]*):\d+:|(?:/apisix)?/?(?P<name3>[^:]+):)(?P<subject>.+)$`),
		decode: (*row).count, noTTL: beginsAnew, remains: isOldAPISIX, certain: isAPISIX},
	// github.com/bucket4j/bucket4j 731354a7.
	{info: Info{Name: "bucket4j", Writer: "bucket4j 7 and later", Example: "user-42", Needs: "nothing",
		Beyond: "A proxy with an optimization (delaying, predicting, skipping at zero) keeps tokens of its own, " +
			"and can deny until it asks Redis again."},
		decode: decodeBucket4j},
	// An integer that expires can be anything.
	{info: Info{Name: "counter", Writer: "hand-written windows: INCR and EXPIRE",
		Example: "rate_limit:203.0.113.9", Needs: "the limit"},
		usual: isNamedLikeALimiter, decode: (*row).count},
	// github.com/jsocol/django-ratelimit e1130454. The key is a hash of everything, also of when the window ends.
	{info: Info{Name: "django-ratelimit", Writer: "django-ratelimit 4",
		Example:  ":1:rl:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		Prefixes: []string{":1:rl:"}, Needs: "the count"},
		keys:   keysLike(`^:1:rl:(?P<subject>[0-9a-f]{64})$`),
		others: keysLike(`^[^:]*:\d+:rl:(?P<subject>[0-9a-f]{64})$`),
		decode: decodeDjango},
	// github.com/encode/django-rest-framework 751a19fe. Scope and client are not escaped; a client has no line.
	{info: Info{Name: "drf", Writer: "Django REST framework: throttles", Example: ":1:throttle_user_42",
		Prefixes: []string{":1:throttle_"}, Needs: "the count",
		Beyond: "A request that is under way writes back the list that it has read."},
		keys:   keysLike(`^:1:throttle_(?P<name>.+)_(?P<subject>[^_]+)$`),
		others: keysLike(`^[^:]*:\d+:throttle_(?P<name>.+)_(?P<subject>[^_]+)$`), decode: decodeDRF},
	// github.com/envoyproxy/ratelimit f2fb1577.
	{info: Info{Name: "envoy", Writer: "envoyproxy/ratelimit", Example: "edge_remote_address_203.0.113.9_1795294320",
		Needs: "the limit",
		Beyond: "With LOCAL_CACHE_SIZE_IN_BYTES each replica remembers a limit that is reached, and denies until the " +
			"window ends."},
		match: matchEnvoy, decode: decodeEnvoy},
	// Limiters write the same under keys of any form. So does who keeps a lock, or a job that is to run later.
	{info: Info{Name: "gcra-ns", Writer: "limiters that keep a time in nanoseconds: throttled, redis-cell, Valkey, " +
		"Dragonfly",
		Example: "api:203.0.113.9", Needs: "the limit and the burst"},
		usual: isNotThrottleds, decode: (*row).arrival},
	// github.com/Kong/kong 22246ef2.
	{info: Info{Name: "kong", Writer: "Kong: rate-limiting, response-ratelimiting",
		Example:  "ratelimit:" + kongNobody + ":" + kongNobody + ":203.0.113.9:1795294320000:minute",
		Prefixes: []string{"ratelimit:", "response-ratelimit:"}, Needs: "the count",
		Beyond: "With a sync_rate above 0 each worker of Kong has a count of its own, and adds it to Redis at the " +
			"next sync."},
		match: matchKong, decode: decodeKong},
	// github.com/laravel/framework 035c7233 and 050bd033.
	{info: Info{Name: "laravel", Writer: "Laravel (RateLimiter on a Redis cache, and Redis::throttle)",
		Example: "laravel_database_laravel_cache_:da39a3ee5e6b4b0d3255bfef95601890afd80709",
		Needs:   "the limit; of Redis::throttle the count"},
		match: matchLaravel, pair: [2]string{"", ":timer"}, decode: decodeLaravel},
	// github.com/alisaifee/limits f7d1eef5.
	{info: Info{Name: "limits", Writer: "limits for Python, and with it flask-limiter, slowapi and others",
		Example: "LIMITS:LIMITER/203.0.113.9/index/10/1/minute", Prefixes: []string{"LIMITS:", "LIMITER/"},
		Needs: "nothing"},
		match: matchLimits, pair: [2]string{"}", "}/-1"}, decode: decodeLimits},
	// github.com/jmcdo29/nest-lab 4ed4b21c. The subject is a hash, unless the application makes its own.
	{info: Info{Name: "nestjs", Writer: "@nest-lab/throttler-storage-redis and nestjs-throttler-storage-redis",
		Example: "{" + strings.Repeat("9f8a7b6c", 8) + ":default}:hits", Prefixes: []string{"{"}, Needs: "the limit"},
		keys:   keysLike(`^\{(?P<subject>.+):(?P<name>[^:]*)\}:(?:hits|blocked)$`),
		others: keysLike(`^[^{]*\{(?P<subject>.+):(?P<name>[^:]*)\}:(?:hits|blocked)$`),
		pair:   [2]string{"}:hits", "}:blocked"}, decode: decodeNestJS},
	// github.com/rack/rack-attack 728d610d. Its keys may have the namespace of Rails in front.
	{info: Info{Name: "rack-attack", Writer: "Rack::Attack", Example: "rack::attack:29921572:req/ip:203.0.113.9",
		Needs: "the count"},
		match: matchRackAttack, decode: decodeRackAttack},
	// github.com/express-rate-limit/rate-limit-redis 570da544. limitctl's own keys begin alike, but have braces.
	{info: Info{Name: "rate-limit-redis", Writer: "rate-limit-redis, the store of express-rate-limit",
		Example: "rl:203.0.113.9", Prefixes: []string{"rl:"}, Needs: "the limit"},
		keys: keysLike(`^rl:(?P<subject>.+)$`), others: anyKey, decode: (*row).count, noTTL: beginsAnew,
		never: "a hit taken back after the window's end", certain: isExpress},
	// github.com/animir/node-rate-limiter-flexible 3c9c8262. Whoever is blocked has more than his points in the
	// counter, which is kept for as long as the block lasts. A counter is below 0 after rewards.
	{info: Info{Name: "rate-limiter-flexible",
		Writer:  "rate-limiter-flexible for Node.js (RateLimiterRedis, RateLimiterValkey)",
		Example: "rlflx:203.0.113.9", Prefixes: []string{"rlflx:"}, Needs: "the limit",
		Beyond: "Processes with inMemoryBlockOnConsumed go on denying from their own memory until that block ends."},
		keys: keysLike(`^rlflx:(?P<subject>.+)$`), others: anyKey, decode: (*row).count, noTTL: blocks,
		certain: isRlflx},
	// github.com/brandur/redis-cell 4d423387, github.com/dragonflydb/dragonfly f8eca6d0. max_burst is one less than the
	// burst.
	{info: Info{Name: "redis-cell", Writer: "redis-cell for Redis and Valkey, Dragonfly",
		Example: "user:123", Needs: "the limit and the burst"},
		decode: (*row).arrival, micros: true},
	// github.com/go-redis/redis_rate 8eadf45e. The prefix cannot be changed, but a client can put one before it.
	{info: Info{Name: "redis_rate", Writer: "go-redis/redis_rate v8 to v10", Example: "rate:project:123",
		Prefixes: []string{"rate:"}, Needs: "the limit and the burst"},
		keys: keysLike(`^rate:(?P<subject>.+)$`), others: keysLike(`^.*?rate:(?P<subject>.+)$`),
		decode: decodeRedisRate},
	// github.com/spring-cloud/spring-cloud-gateway 5227205c. The subject is the route and the client, or the client
	// alone before 4.2.
	{info: Info{Name: "spring-cloud-gateway", Writer: "Spring Cloud Gateway",
		Example: "request_rate_limiter.{users.42}.tokens", Prefixes: []string{"request_rate_limiter.{"},
		Needs: "the limit and the burst"},
		keys:   keysLike(`^request_rate_limiter\.\{(?P<subject>.+)\}\.(?:tokens|timestamp)$`),
		others: keysLike(`^.*?\.\{(?P<subject>.+)\}\.(?:tokens|timestamp)$`),
		pair:   [2]string{"}.tokens", "}.timestamp"}, decode: decodeSpring},
	// github.com/throttled/throttled 9e814f27. MaxBurst is one less than the burst.
	{info: Info{Name: "throttled", Writer: "throttled/throttled v2",
		Example: "throttled:203.0.113.9\nget\n/\n", Needs: "the limit and the burst"},
		decode: (*row).arrival, certain: isThrottleds},
	{info: Info{Name: "time-set", Writer: "hand-written sliding logs: a sorted set of the times of requests",
		Example: "rate_limit:203.0.113.9", Needs: "the limit"},
		usual: isNamedLikeALimiter, decode: decodeTimeSet},
	{info: Info{Name: "token-hash", Writer: "hand-written token buckets: a hash of tokens and last_refill, or " +
		"last_refill_ts",
		Example: "bucket:203.0.113.9", Needs: "the limit and the burst"},
		decode: decodeTokenHash},
	// github.com/traefik/traefik fd5a576d.
	{info: Info{Name: "traefik", Writer: "Traefik v3.4 and later", Example: "rate:ratelimit@file:203.0.113.9",
		Prefixes: []string{"rate:"}, Needs: "the limit and the burst"},
		keys:   keysLike(`^rate:(?P<name>[^:]*@[^:]*):(?P<subject>.+)$`),
		others: keysLike(`^.*?rate:(?P<name>[^:]*@[^:]*):(?P<subject>.+)$`), decode: decodeTraefik},
	// github.com/ulule/limiter f0ada6cb. It counts denied requests, too; its middleware counts by addresses.
	{info: Info{Name: "ulule", Writer: "ulule/limiter v3", Example: "limiter:203.0.113.9", Prefixes: []string{
		"limiter:"},
		Needs: "the limit"},
		keys: keysLike(`^limiter:(?P<subject>.+)$`), others: keysLike(`^(?:.*?limiter:|[^:]*:)(?P<subject>.+)$`),
		decode: (*row).count, never: "ulule/limiter#233", certain: isUlules},
	// github.com/upstash/ratelimit-js 5b5448a5.
	{info: Info{Name: "upstash", Writer: "@upstash/ratelimit", Example: "@upstash/ratelimit:203.0.113.9:29921572",
		Prefixes: []string{upstashPrefix}, Needs: "the count; of a token bucket the limit and the burst",
		Beyond: "Processes with an ephemeral cache, which is the default, go on denying until the time that they " +
			"were told; " +
			"cachedFixedWindow counts in their memory."},
		match: matchUpstash, together: upstashTogether, decode: decodeUpstash},
}

// All returns the layouts, in the order of their names.
func All() []Layout {
	all := make([]Layout, len(table))
	for i, row := range table {
		all[i] = row
	}
	return all
}

// Auto is what --layout takes for all layouts, each recognised by itself.
const Auto = "auto"

// Named returns the layout of a name. The error is a [store.ErrInvalid].
func Named(name string) (Layout, error) {
	var names []string
	for _, row := range table {
		if row.info.Name == name {
			return row, nil
		}
		names = append(names, row.info.Name)
	}
	if near := texts.Nearest(name, names, min(3, len(name)/2)); near != "" {
		return nil, store.Invalidf("layout %q is not known; did you mean %s?", name, near)
	}
	return nil, store.Invalidf("layout %q is not known; it is auto or one of %s", name, strings.Join(names, ", "))
}
