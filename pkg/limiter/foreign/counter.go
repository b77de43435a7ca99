package foreign

import "github.com/limitctl/limitctl/pkg/limiter/store"

// counter is a window as hand-written limiters keep it: INCR, and EXPIRE at the first request.
type counter struct{}

// Info implements [Layout].
func (counter) Info() Info {
	return Info{
		Name: "counter", Called: "a counter", Writer: "hand-written windows: INCR and EXPIRE", Example: "rate_limit:203.0.113.9",
		Type: "string", Needs: "the limit",
	}
}

// Match implements [Layout]. Keys are anything.
func (l counter) Match(storeKey string, asked bool) (store.Key, bool) {
	return store.Key{Subject: storeKey, Name: l.Info().Name}, storeKey != "" && (asked || isNamedLikeALimiter(storeKey))
}

// Together implements [Layout].
func (counter) Together(storeKey string, _ store.Limit, _ store.Instant) []string {
	return []string{storeKey}
}

// Decode implements [Layout]. No counter is Certain: an integer that expires can be anything.
func (counter) Decode(found *Found) (Reading, error) {
	return decodeOwnWindow(found, "", false)
}

// SetRemaining implements [Setter].
func (counter) SetRemaining(found *Found, remaining int64) ([]Write, error) {
	return setCounter(&found.Values[0], found.Limit, remaining, found.Limit.Period)
}
