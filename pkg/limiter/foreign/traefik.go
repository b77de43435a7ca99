package foreign

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// traefik is the rate limit middleware of Traefik from v3.4 on: a token bucket in a hash, with
// when it was last seen in µs since 1970 by the clock of Traefik.
type traefik struct{}

// Info implements [Layout].
func (traefik) Info() Info {
	return Info{
		Name: "traefik", Called: "a Traefik bucket", Writer: "Traefik v3.4 and later", Example: "rate:ratelimit@file:203.0.113.9", Type: "hash",
		Prefixes: []string{"rate:"}, Needs: "the limit and the burst", Source: "github.com/traefik/traefik fd5a576d",
	}
}

// Match implements [Layout]. The key is "rate:<middleware>@<provider>:<source>".
func (traefik) Match(storeKey string, _ bool) (limiter.Key, bool) {
	rest, ok := strings.CutPrefix(storeKey, "rate:")
	middleware, source, found := strings.Cut(rest, ":")
	return limiter.Key{Subject: source, Name: "traefik/" + middleware}, ok && found && source != "" && strings.Contains(middleware, "@")
}

// Together implements [Layout].
func (traefik) Together(storeKey string, _ limiter.Limit, _ limiter.Instant) []string {
	return []string{storeKey}
}

// Decode implements [Layout].
func (traefik) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	switch {
	case value.Type == NoValue:
		return Reading{}, nil
	case value.Type != HashValue:
		return Reading{}, notA(value.Type, HashValue)
	}
	lastText, hasLast := value.Field("last")
	tokensText, hasTokens := value.Field("tokens")
	if !hasLast || !hasTokens || value.Length != 2 {
		return Reading{}, errors.New("a hash without the fields last and tokens alone")
	}
	last, err := strconv.ParseInt(lastText, 10, 64)
	tokens, tokensErr := strconv.ParseFloat(tokensText, 64)
	if err != nil || tokensErr != nil || last < 0 || math.IsNaN(tokens) || math.IsInf(tokens, 0) {
		return Reading{}, errors.New("a hash whose last or tokens is not a number")
	}
	entry := bucketEntry(found, tokens, time.Duration(int64(found.Now)-last)*time.Microsecond)
	return Reading{Entries: []limiter.Entry{entry}, Certain: true}, nil
}

// bucketEntry is the entry of a token bucket that held so many tokens a while ago.
func bucketEntry(found *Found, tokens float64, ago time.Duration) limiter.Entry {
	entry := limiter.Entry{Limit: withAlgorithm(found.Limit, limiter.TokenBucket), UsedUnknown: true}
	if !entry.LimitKnown() {
		return entry
	}
	capacity, rate := float64(entry.Limit.Capacity()), float64(entry.Limit.Count)/float64(entry.Limit.Period)
	tokens = min(capacity, tokens+float64(max(0, ago))*rate)
	entry.UsedUnknown = false
	entry.Remaining = max(0, int64(math.Floor(tokens)))
	entry.Used = entry.Limit.Capacity() - int64(math.Floor(tokens))
	entry.ResetAfter = time.Duration((capacity - tokens) / rate)
	if entry.Allowed = tokens >= 1; !entry.Allowed {
		entry.RetryAfter = time.Duration(math.Ceil((1 - tokens) / rate))
	}
	return entry
}
