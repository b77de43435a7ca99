package foreign

import (
	"errors"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// ulule is github.com/ulule/limiter v3: a counter whose window begins with the first request,
// and ends with the key. Denied requests count, too.
type ulule struct{}

// Info implements [Layout].
func (ulule) Info() Info {
	return Info{
		Name: "ulule", Called: "a window of ulule/limiter", Writer: "ulule/limiter v3", Example: "limiter:203.0.113.9",
		Type: "string", Prefixes: []string{"limiter:"}, Needs: "the limit", Source: "github.com/ulule/limiter f0ada6cb",
	}
}

// Match implements [Layout]. The prefix can be changed, and has a colon behind it.
func (l ulule) Match(storeKey string, asked bool) (limiter.Key, bool) {
	subject, ok := cutPrefix(storeKey, "limiter:", asked)
	if !ok && asked {
		_, subject, ok = strings.Cut(storeKey, ":")
	}
	return limiter.Key{Subject: subject, Name: l.Info().Name}, ok && subject != ""
}

// Together implements [Layout].
func (ulule) Together(storeKey string, _ limiter.Limit, _ limiter.Instant) []string {
	return []string{storeKey}
}

// Decode implements [Layout]. Only a counter of an address under the usual prefix is Certain,
// which is what the middleware counts by. Other keys could be anybody's.
func (ulule) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	if value.Type == NoValue {
		return Reading{}, nil
	}
	count, err := requestsOf(value)
	if err != nil {
		return Reading{}, err
	}
	entry := ownWindowEntry(found, count)
	entry.Defects = lifetime{longest: entry.Limit.Period, never: "ulule/limiter#233"}.defects(&entry, value)
	address, usual := strings.CutPrefix(found.StoreKey, "limiter:")
	return Reading{Entries: []limiter.Entry{entry}, Certain: usual && isAddress(address) && value.TTL >= 0 && value.TTL < longestLimit}, nil
}

// requestsOf reads a count of requests, of which none were given back ahead.
func requestsOf(value *Value) (count int64, err error) {
	if count, err = countOf(value); err == nil && count < 0 {
		err = errors.New("a negative count")
	}
	return count, err
}

// ownWindowEntry is the entry of a counter whose window begins with its first request, and ends
// with its key. A key that does not expire would get an expiry at the next count from 0 on, so
// the window of an unknown end lasts the period at least.
func ownWindowEntry(found *Found, count int64) limiter.Entry {
	entry := limiter.Entry{Limit: withAlgorithm(found.Limit, limiter.FixedWindow), Decision: limiter.Decision{Used: count}}
	if entry.Limit == (limiter.Limit{}) {
		entry.Limit.Algorithm = limiter.FixedWindow
	}
	entry.Limit.FromFirst = entry.Limit.Algorithm == limiter.FixedWindow
	ends := found.Values[0].TTL
	if entry.ResetTold = ends >= 0; !entry.ResetTold {
		ends = entry.Limit.Period
	}
	entry.ResetAfter = ends
	countedEntry(&entry, ends)
	return entry
}

// SetRemaining implements [Setter].
func (ulule) SetRemaining(found *Found, remaining int64) ([]Write, error) {
	return countLeaving(remaining, found.StoreKey, &found.Limit)
}
