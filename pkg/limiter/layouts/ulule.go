package layouts

import (
	"errors"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ulule is github.com/ulule/limiter v3: a counter whose window begins with the first request,
// and ends with the key. Denied requests count, too.
type ulule struct{ plainCounter }

// Info implements [Layout]. The facts are from github.com/ulule/limiter f0ada6cb.
func (ulule) Info() Info {
	return Info{
		Name: "ulule", Writer: "ulule/limiter v3", Example: "limiter:203.0.113.9", Prefixes: []string{"limiter:"},
		Needs: "the limit",
	}
}

// Match implements [Layout]. The prefix can be changed, and has a colon behind it.
func (l ulule) Match(storeKey string, asked bool) (store.Key, bool) {
	subject, ok := cutPrefix(storeKey, "limiter:", asked)
	if !ok && asked {
		_, subject, ok = strings.Cut(storeKey, ":")
	}
	return store.Key{Subject: subject, Name: l.Info().Name}, ok && subject != ""
}

// Decode implements [Layout]. Only a counter of an address under the usual prefix is Certain,
// which is what the middleware counts by. Other keys could be anybody's.
func (ulule) Decode(found *Found) (Reading, error) {
	ttl := found.Values[0].TTL
	address, usual := strings.CutPrefix(found.StoreKey, "limiter:")
	return decodeOwnWindow(found, "ulule/limiter#233", usual && isAddress(address) && ttl >= 0 && ttl < longestLimit)
}

// decodeOwnWindow decodes a counter whose window ends with its key. never is the known issue of one
// that has no expiry.
func decodeOwnWindow(found *Found, never string, certain bool) (Reading, error) {
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	if count < 0 {
		return Reading{}, errors.New("a negative count")
	}
	limit, ends := fromFirst(found.Limit), value.TTL
	if ends < 0 && limit.Period > 0 { // nothing better can be said, and the library says so
		ends = limit.Period
	}
	return lifetime{longest: limit.Period, never: never}.reading(found, countEntry(limit, count, ends), certain)
}
