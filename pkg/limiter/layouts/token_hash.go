package layouts

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// tokenHash is a token bucket as hand-written limiters keep it: a hash of the tokens and of
// when they were refilled, "last_refill" or "last_refill_ts". That can be in seconds, ms, µs or
// ns, since nobody can take one for another.
type tokenHash struct{ single }

// refillFields are the names of the field that says when a bucket was refilled.
var refillFields = [...]string{"last_refill", "last_refill_ts"}

// Info implements [Layout].
func (tokenHash) Info() Info {
	return Info{
		Name: "token-hash", Writer: "hand-written token buckets: a hash of tokens and last_refill, or last_refill_ts",
		Example: "bucket:203.0.113.9", Needs: "the limit and the burst",
	}
}

// Match implements [Layout]. Keys are anything.
func (l tokenHash) Match(storeKey string, _ bool) (store.Key, bool) {
	return store.Key{Subject: storeKey, Name: l.Info().Name}, storeKey != ""
}

// refilled is when a bucket was refilled, as its hash has it.
type refilled struct {
	field, text string
	unit        time.Duration
}

// parse reads a bucket. exact: it has no other fields.
func (tokenHash) parse(found *Found) (tokens float64, at refilled, exact bool, err error) {
	value := &found.Values[0]
	if value.Type != HashValue {
		return 0, at, false, notA(value.Type, HashValue)
	}
	tokensText, has := value.Field("tokens")
	for _, at.field = range refillFields {
		if text, hasTime := value.Field(at.field); hasTime {
			at.text = text
			break
		}
	}
	if !has || at.text == "" {
		return 0, at, false, errors.New("a hash without the fields tokens and last_refill")
	}
	tokens, err = strconv.ParseFloat(tokensText, 64)
	number, timeErr := strconv.ParseFloat(at.text, 64)
	if err != nil || math.IsNaN(tokens) || math.Abs(tokens) > math.MaxInt64 {
		return 0, at, false, errors.New("a hash whose tokens are not a number")
	}
	var known bool
	if at.unit, known = unitOf(number, found.Now); timeErr != nil || !known {
		return 0, at, false, errors.New("a hash whose " + at.field + " is not a time")
	}
	return tokens, at, value.Length == 2, nil
}

// Decode implements [Layout]. A bucket is Certain if it has the two fields and no others, and
// expires. One that is kept for ever may be what somebody owns, such as the tokens of a game.
func (l tokenHash) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	tokens, at, exact, err := l.parse(found)
	if err != nil {
		return Reading{}, err
	}
	ago := since(at.text, at.unit, found.Now)
	entry := bucketEntry(found, tokens, ago)
	kept := lifetime{passes: true}
	if value.TTL >= 0 && entry.UsedKnown() {
		kept.needed = entry.ResetAfter
	}
	certain := exact && ago > -time.Minute && value.TTL >= 0 && value.TTL < longestLimit
	return kept.reading(found, entry, certain)
}
