package layouts

import (
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// nestjs is the Redis storage of NestJS' throttler: a counter, which begins with the first
// request of a window, and a key that is there while the client is blocked.
type nestjs struct{}

const nestjsHits, nestjsBlocked = "}:hits", "}:blocked"

// Info implements [Layout].
func (nestjs) Info() Info {
	return Info{
		Name: "nestjs", Called: "a counter of NestJS' throttler",
		Writer:  "@nest-lab/throttler-storage-redis and nestjs-throttler-storage-redis",
		Example: "{" + strings.Repeat("9f8a7b6c", 8) + ":default}:hits", Type: "string", Prefixes: []string{"{"}, Needs: "the limit",
		Source: "github.com/jmcdo29/nest-lab 4ed4b21c",
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
	hits, blocked := int64(0), time.Duration(0)
	if counter.Type != NoValue {
		var err error
		if hits, err = countOf(counter); err != nil {
			return Reading{}, err
		}
	}
	if block.Type != NoValue {
		if _, err := countOf(block); err != nil {
			return Reading{}, err
		}
		blocked = block.TTL
	}
	limit := fromFirst(found.Limit)
	if block.Type != NoValue && blocked <= 0 {
		hits = 0 // with the next request a new count begins
	}
	entry := countEntry(limit, hits, max(0, counter.TTL))
	if counter.TTL < 0 && hits > 0 {
		entry.ResetTold, entry.RetryTold = false, entry.Allowed
	}
	if blocked > 0 {
		blockEntry(&entry, blocked)
	}
	entry.Defects = lifetime{passes: true}.defects(&entry, counter, block)
	subject := found.Key.Subject
	certain := isSHA256(subject) && counter.TTL <= store.MaxPeriod && block.TTL <= store.MaxPeriod
	return Reading{Entries: []admin.Entry{entry}, Certain: certain}, nil
}

// SetRemaining implements [Setter]. It ends a block.
func (nestjs) SetRemaining(found *Found, remaining int64) ([]Write, error) {
	limit := fromFirst(found.Limit)
	writes, err := setCounter(&found.Values[0], limit, remaining, limit.Period)
	if err != nil {
		return nil, err
	}
	if block := &found.Values[1]; block.Type != NoValue {
		writes = append(writes, Write{StoreKey: block.StoreKey, Gone: true})
	}
	return writes, nil
}
