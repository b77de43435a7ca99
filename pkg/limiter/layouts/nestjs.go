package layouts

import (
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// nestjs is the Redis storage of NestJS' throttler: a counter, which begins with the first
// request of a window, and a key that is there while the client is blocked.
type nestjs struct{}

const nestjsHits, nestjsBlocked = "}:hits", "}:blocked"

// Info implements [Layout]. The facts are from github.com/jmcdo29/nest-lab 4ed4b21c.
func (nestjs) Info() Info {
	return Info{
		Name: "nestjs", Writer: "@nest-lab/throttler-storage-redis and nestjs-throttler-storage-redis",
		Example: "{" + strings.Repeat("9f8a7b6c", 8) + ":default}:hits", Prefixes: []string{"{"}, Needs: "the limit",
	}
}

// Match implements [Layout]. The key is "{<key>:<throttler>}:hits", or ":blocked" at its end. The
// key in it is a hash of the route and the client, unless the application makes its own.
func (nestjs) Match(storeKey string, asked bool) (store.Key, bool) {
	group, ok := nestjsGroup(storeKey)
	_, inside, opened := strings.Cut(group, "{")
	at := strings.LastIndexByte(inside, ':')
	if !ok || !opened || at <= 0 || !asked && group[0] != '{' {
		return store.Key{}, false
	}
	return store.Key{Subject: inside[:at], Name: "nestjs/" + inside[at+1:]}, true
}

// nestjsGroup is what the two keys have in common.
func nestjsGroup(storeKey string) (group string, ok bool) {
	if group, ok = strings.CutSuffix(storeKey, nestjsHits); ok {
		return group, true
	}
	return strings.CutSuffix(storeKey, nestjsBlocked)
}

// Together implements [Layout].
func (nestjs) Together(storeKey string, _ store.Limit, _ store.Instant) []string {
	group, _ := nestjsGroup(storeKey)
	return []string{group + nestjsHits, group + nestjsBlocked}
}

// Decode implements [Layout]. The first request above the limit blocks. Neither key denies for
// ever without an expiry: the next request gives one to the counter, and ends such a block.
func (nestjs) Decode(found *Found) (Reading, error) {
	counter, block := &found.Values[0], &found.Values[1]
	counts, err := countsOf(found.Values)
	if err != nil {
		return Reading{}, err
	}
	hits, isBlocked := counts[0], block.Type != NoValue
	if isBlocked && block.TTL <= 0 {
		hits, isBlocked = 0, false // with the next request a new count begins
	}
	entry := countEntry(fromFirst(found.Limit), hits, max(0, counter.TTL))
	if counter.TTL < 0 && hits > 0 {
		entry.ResetTold, entry.RetryTold = false, entry.Allowed
	}
	if isBlocked {
		blockEntry(&entry, block.TTL)
	}
	certain := isSHA256(found.Key.Subject) && counter.TTL <= store.MaxPeriod && block.TTL <= store.MaxPeriod
	return lifetime{passes: true}.reading(found, entry, certain)
}
