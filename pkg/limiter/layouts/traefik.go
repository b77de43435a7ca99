package layouts

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// traefik is the rate limit middleware of Traefik from v3.4 on: a token bucket in a hash, with
// when it was last seen in µs since 1970 by the clock of Traefik.
type traefik struct{ single }

// Info implements [Layout]. The facts are from github.com/traefik/traefik fd5a576d.
func (traefik) Info() Info {
	return Info{
		Name: "traefik", Writer: "Traefik v3.4 and later", Example: "rate:ratelimit@file:203.0.113.9",
		Prefixes: []string{"rate:"}, Needs: "the limit and the burst",
	}
}

// Match implements [Layout]. The key is "rate:<middleware>@<provider>:<source>".
func (traefik) Match(storeKey string, asked bool) (store.Key, bool) {
	rest, ok := cutPrefix(storeKey, "rate:", asked)
	middleware, source, found := strings.Cut(rest, ":")
	return store.Key{Subject: source, Name: "traefik/" + middleware}, ok && found && source != "" && strings.Contains(middleware, "@")
}

// traefikPace is what Traefik makes of a limit.
type traefikPace struct {
	rate     float64       // tokens a µs
	maxDelay time.Duration // how long a request waits for its token at most
	kept     time.Duration // the expiry from each request on
}

func traefikPaceOf(limit *store.Limit) traefikPace {
	perSecond := float64(limit.Count) * float64(time.Second) / float64(limit.Period)
	pace := traefikPace{rate: perSecond / 1e6, maxDelay: time.Second / 2, kept: 2 * time.Second}
	if perSecond >= 1 {
		pace.maxDelay = time.Second / (time.Duration(perSecond) * 2)
	} else {
		pace.kept = time.Second + time.Duration(1/perSecond)*time.Second
	}
	return pace
}

// Decode implements [Layout]. The steps are those of its script, for one request.
func (l traefik) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	last, tokens, err := l.parse(value)
	if err != nil {
		return Reading{}, err
	}
	entry := admin.Entry{Limit: withAlgorithm(found.Limit, store.TokenBucket), UsedUnknown: true}
	kept := lifetime{passes: true}
	if entry.LimitKnown() {
		pace, capacity := traefikPaceOf(&entry.Limit), float64(entry.Limit.Capacity())
		tokens = min(tokens+pace.rate*float64(max(0, int64(found.Now)-last)), capacity)
		heldEntry(&entry, tokens)
		entry.ResetAfter = durationOf((capacity - tokens) / pace.rate * 1000)
		if tokens < 1 { // a request waits for its token, unless that is too long
			entry.Delay = durationOf((1 - tokens) / pace.rate * 1000)
		}
		if entry.Allowed = entry.Delay <= pace.maxDelay; !entry.Allowed {
			entry.Delay, entry.RetryAfter = 0, entry.Delay
		}
		kept.longest, kept.needed = pace.kept, entry.ResetAfter
	}
	// No other hash has these two fields, a time of Traefik's and such a key.
	const oldest = 366 * 24 * time.Hour
	age := time.Duration(int64(found.Now)-last) * time.Microsecond
	return kept.reading(found, entry, age > -time.Minute && age < oldest)
}

// parse returns when a bucket was last seen, in µs since 1970, and what it held.
func (traefik) parse(value *Value) (last int64, tokens float64, err error) {
	if value.Type != HashValue {
		return 0, 0, notA(value.Type, HashValue)
	}
	lastText, hasLast := value.Field("last")
	tokensText, hasTokens := value.Field("tokens")
	if !hasLast || !hasTokens || value.Length != 2 {
		return 0, 0, errors.New("a hash without the fields last and tokens alone")
	}
	// Before Redis 7 a script writes such a number with an exponent.
	lastFloat, err := strconv.ParseFloat(lastText, 64)
	tokens, tokensErr := strconv.ParseFloat(tokensText, 64)
	if err != nil || tokensErr != nil || !(lastFloat >= 0 && lastFloat < 1<<53) || math.IsNaN(tokens) || math.IsInf(tokens, 0) {
		return 0, 0, errors.New("a hash whose last or tokens is not a number")
	}
	return int64(lastFloat), tokens, nil
}
