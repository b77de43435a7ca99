package layouts

import (
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// rateLimiterFlexible is RateLimiterRedis of rate-limiter-flexible for Node.js: a counter of
// points, which begins with the first request of a duration.
//
// There are no keys for blocks: whoever is blocked has more than his points in the counter, and
// it is kept for as long as the block lasts, which may be for ever.
type rateLimiterFlexible struct{ single }

// Info implements [Layout]. The facts are from github.com/animir/node-rate-limiter-flexible 3c9c8262.
func (rateLimiterFlexible) Info() Info {
	return Info{
		Name:    "rate-limiter-flexible",
		Writer:  "rate-limiter-flexible for Node.js (RateLimiterRedis, RateLimiterValkey)",
		Example: "rlflx:203.0.113.9", Prefixes: []string{"rlflx:"}, Needs: "the limit",
		Beyond: "Processes with inMemoryBlockOnConsumed go on denying from their own memory until that block ends.",
	}
}

// Match implements [Layout]. The prefix is keyPrefix and a colon, or nothing.
func (rateLimiterFlexible) Match(storeKey string, asked bool) (store.Key, bool) {
	subject, usual := strings.CutPrefix(storeKey, "rlflx:")
	return store.Key{Subject: subject, Name: "rate-limiter-flexible"}, subject != "" && (usual || asked)
}

// Decode implements [Layout]. A counter is below 0 after rewards. One without an expiry is a
// block for ever, or of a limiter whose duration is 0, so it is not a defect.
func (rateLimiterFlexible) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	points, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	entry := countEntry(fromFirst(found.Limit), points, value.TTL)
	// The time to wait is the TTL also of a block, which is longer than the period.
	certain := strings.HasPrefix(found.StoreKey, "rlflx:") && points >= 0 && couldBePeriod(value.TTL)
	return Reading{Entries: []admin.Entry{entry}, Certain: certain}, nil
}
