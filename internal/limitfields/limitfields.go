// Package limitfields writes the header fields that inform an HTTP client about its limits.
package limitfields

import (
	"math/bits"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Selection selects fields.
type Selection uint8

// The fields; package httplimit describes them.
const (
	RateLimit Selection = 1 << iota
	XRateLimit
	RetryAfter
)

// The names of the fields in the form of [http.Header].
const (
	policyField     = "Ratelimit-Policy"
	rateLimitField  = "Ratelimit"
	limitField      = "X-Ratelimit-Limit"
	remainingField  = "X-Ratelimit-Remaining"
	resetField      = "X-Ratelimit-Reset"
	retryAfterField = "Retry-After"
)

// Set replaces the selected fields by those of the decisions on reqs. limits are those of the policy, in the same
// order; nil if there is none. now is the time for X-RateLimit-Reset.
func Set(
	header http.Header, s Selection, limits []policy.Limit, reqs []store.Request, decisions []store.Decision,
	now time.Time,
) {
	if s == 0 {
		return
	}
	var room, room2 [192]byte
	policies, states := room[:0], room2[:0] // of RateLimit-Policy and RateLimit
	var tightest *store.Decision
	var tightestLimit store.Limit
	var tightestWait, retryAfter time.Duration
	denied := false
	for i := range decisions {
		d := &decisions[i]
		if d.Shadow || d.Override != nil && d.Override.Effect == store.OverrideExempt {
			continue // it cannot deny
		}
		denied, retryAfter = denied || !d.Allowed, max(retryAfter, d.RetryAfter)
		limit := effective(&reqs[i].Limit, d)
		quota := limit.Count
		if limit.Period < time.Second && limit.Period >= store.MinPeriod {
			quota = quota * int64(time.Second) / int64(limit.Period) // at most 10¹⁸ before dividing
		}
		policies = appendParameter(appendItem(policies, limits, reqs, i), ";q=", quota)
		policies = appendParameter(policies, ";w=", max(1, WholeSeconds(limit.Period)))
		if d.Unguarded {
			if !d.Allowed {
				retryAfter = max(retryAfter, time.Second) // nobody knows when the store is back
			}
			continue // the usage is unknown
		}
		wait := untilMore(&limit, d)
		states = appendParameter(appendItem(states, limits, reqs, i), ";r=", d.Remaining)
		states = appendParameter(states, ";t=", WholeSeconds(wait))
		if tightest == nil || isTighter(d, tightest) {
			tightest, tightestLimit, tightestWait = d, limit, wait
		}
	}
	values := make([]string, 0, 6) // one allocation for all fields
	put := func(name string, isSelected bool, value string) {
		if isSelected {
			values = append(values, value)
			header[name] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	put(policyField, s&RateLimit != 0 && len(policies) > 0, string(policies))
	put(rateLimitField, s&RateLimit != 0 && len(states) > 0, string(states))
	if s&XRateLimit != 0 && tightest != nil {
		if denied {
			tightestWait = max(tightestWait, retryAfter)
		}
		put(limitField, true, strconv.FormatInt(tightestLimit.Capacity(), 10))
		put(remainingField, true, strconv.FormatInt(tightest.Remaining, 10))
		put(resetField, true, strconv.FormatInt(WholeSeconds(time.Duration(now.UnixNano())+tightestWait), 10))
	}
	put(retryAfterField, s&RetryAfter != 0 && denied && retryAfter > 0, strconv.FormatInt(WholeSeconds(retryAfter), 10))
}

// isTighter reports whether to report d rather than other.
func isTighter(d, other *store.Decision) bool {
	if d.Remaining != other.Remaining {
		return d.Remaining < other.Remaining
	}
	return max(d.RetryAfter, d.ResetAfter) > max(other.RetryAfter, other.ResetAfter)
}

// effective returns the limit by which d was decided when the request had limit.
func effective(limit *store.Limit, d *store.Decision) store.Limit {
	l := d.Override.Apply(*limit)
	if d.LocalShare != 0 {
		l = d.LocalShare.Of(l)
	}
	if d.At > 0 {
		l = l.InWindow(d.At)
	}
	return l
}

// untilMore returns the time until more of d's key remains, or a longer time if that is not known.
func untilMore(limit *store.Limit, d *store.Decision) time.Duration {
	if !d.Allowed && d.RetryAfter > 0 {
		return d.RetryAfter
	}
	if !limit.Algorithm.HasBurst() || d.Used < 1 || limit.Count < 1 || limit.Period < 1 {
		return d.ResetAfter
	}
	// A bucket drains evenly: once the rest of the last unit is gone, what is left takes (used-1) × period ÷ count.
	hi, lo := bits.Mul64(uint64(d.Used-1), uint64(limit.Period))
	if hi >= uint64(limit.Count) {
		return d.ResetAfter
	}
	others, _ := bits.Div64(hi, lo, uint64(limit.Count))
	unit := limit.Period/time.Duration(limit.Count) + 2*time.Microsecond
	// Units charged under another limit can drain at another rate, so this can be wrong.
	if more := d.ResetAfter - time.Duration(others); others <= uint64(store.MaxDrain) && more > 0 && more <= unit {
		return more
	}
	return d.ResetAfter
}

// WholeSeconds rounds up, so that a client which waits that long is not early.
func WholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func appendParameter(text []byte, name string, value int64) []byte {
	return strconv.AppendInt(append(text, name...), value, 10)
}

// appendItem appends the name of limit i as the next member of a list of structured fields (RFC 9651): a String, which
// has printable ASCII only. All other bytes, and "%", become %XX, so that different names stay different.
func appendItem(text []byte, limits []policy.Limit, reqs []store.Request, i int) []byte {
	const digits = "0123456789ABCDEF"
	if len(text) > 0 {
		text = append(text, ',')
	}
	text = append(text, '"')
	name := Name(limits, reqs, i)
	for _, c := range []byte(name) {
		switch {
		case c == '"' || c == '\\':
			text = append(text, '\\', c)
		case c < ' ' || c > '~' || c == '%':
			text = append(text, '%', digits[c>>4], digits[c&15])
		default:
			text = append(text, c)
		}
	}
	for j := range i { // a list must not have a name twice, but two subjects can have limits of the same name
		if limits == nil && Name(nil, reqs, j) == name {
			text = append(text, '+')
		}
	}
	return append(text, '"')
}

// Name returns the name of limit i in the fields: that in the policy, or without one that of its key. A single limit
// that nobody named is "default".
func Name(limits []policy.Limit, reqs []store.Request, i int) string {
	if limits != nil {
		return limits[i].Name
	}
	name := reqs[i].Key.Name
	if len(reqs) == 1 && (name == "" || strings.Contains(name, "/") && name == reqs[i].Limit.DefaultName()) {
		return "default"
	}
	if name == "" {
		return reqs[i].Limit.DefaultName()
	}
	return name
}
