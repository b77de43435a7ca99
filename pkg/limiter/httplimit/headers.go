package httplimit

import (
	"math/bits"
	"net/http"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Headers selects the header fields that inform a client about its limits.
type Headers uint8

const (
	// RateLimit is RateLimit-Policy and RateLimit, the structured fields of
	// draft-ietf-httpapi-ratelimit-headers. They list all limits.
	RateLimit Headers = 1 << iota
	// XRateLimit is X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset (unix
	// seconds), of the limit that has the least left.
	XRateLimit
	// RetryAfter is Retry-After on a denial, in whole seconds.
	RetryAfter

	// AllHeaders selects all fields.
	AllHeaders = RateLimit | XRateLimit | RetryAfter
)

// The names of the fields in the form of [http.Header], so that Get and Set of handlers find them.
const (
	policyField     = "Ratelimit-Policy"
	rateLimitField  = "Ratelimit"
	limitField      = "X-Ratelimit-Limit"
	remainingField  = "X-Ratelimit-Remaining"
	resetField      = "X-Ratelimit-Reset"
	retryAfterField = "Retry-After"
)

// Set replaces the fields that h selects by those of the decisions on reqs. names are the names of the limits in
// the policy, in the same order. nil means that there is no policy: then a single limit is called "default", and
// several have the names of their keys, such as "token-bucket/1m".
//
//	RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
//	RateLimit: "burst";r=99;t=1,"daily";r=999;t=87
//	X-RateLimit-Limit: 100
//	X-RateLimit-Remaining: 99
//	X-RateLimit-Reset: 1700000001
//
// In RateLimit-Policy q is the count of the limit, and w its period in seconds, rounded up. For a period below one
// second, q is the number that fits into a second, rounded down. So the fields never promise more than the limit
// allows in the long run. q does not include the burst, which a client can have saved up, so r can be greater than
// q. X-RateLimit-Limit is the capacity, the most that r can be.
//
// In RateLimit r is what remains, and t the time until more remains, in seconds, rounded up: the retry after of a
// limit that denied, the next unit of a bucket, the end of a window. For the sliding algorithms t is the reset
// after, since nothing nearer is known; more can remain earlier. X-RateLimit-Reset is the instant of t for its
// limit, and not before Retry-After, so that a client can sleep until then and is allowed. It is by this machine's
// clock, like the field Date, except for the end of a window of a calendar, which is the same by all.
//
// Retry-After is the time until the same request is allowed, if nobody else takes. It is never less than the t of a
// limit that denied.
//
// The fields leave out what cannot deny: shadow limits, and limits from which an operator exempted the client. A
// limit without a decision, or with one by a failure policy, is in RateLimit-Policy only, since its usage is
// unknown. A limit that an override or a local share changes appears as changed. A block appears as a limit with
// nothing left until it ends.
func (h Headers) Set(header http.Header, names []string, reqs []store.Request, decisions []store.Decision) {
	h.set(header, names, reqs, decisions, time.Now)
}

// field is the name of a field and the end of its value in the text of all values.
type field struct {
	name string
	end  int
}

// set is Set with a clock. It runs on every request, so it writes all values into one text and then cuts it.
func (h Headers) set(header http.Header, names []string, reqs []store.Request, decisions []store.Decision, clock func() time.Time) {
	var room [512]byte
	var fieldRoom [6]field
	text, fields := room[:0], fieldRoom[:0]
	end := func(name string, before int) {
		if len(text) > before {
			fields = append(fields, field{name, len(text)})
		}
	}
	tightest, retryAfter, denied := -1, time.Duration(0), false
	for i := range decisions {
		d := &decisions[i]
		if !isInTheWay(d) {
			continue
		}
		denied = denied || !d.Allowed
		retryAfter = max(retryAfter, d.RetryAfter)
		if isKnown(d) && (tightest < 0 || isTighter(d, &decisions[tightest])) {
			tightest = i
		}
	}
	if h&RateLimit != 0 {
		for i := range decisions {
			if d := &decisions[i]; isInTheWay(d) {
				limit := effective(&reqs[i].Limit, d)
				text = appendPolicy(appendItem(text, 0, names, reqs, i), &limit)
			}
		}
		end(policyField, 0)
		before := len(text)
		for i := range decisions {
			if d := &decisions[i]; isInTheWay(d) && isKnown(d) {
				limit := effective(&reqs[i].Limit, d)
				text = appendItem(text, before, names, reqs, i)
				text = strconv.AppendInt(append(text, ";r="...), d.Remaining, 10)
				text = strconv.AppendInt(append(text, ";t="...), wholeSeconds(untilMore(&limit, d)), 10)
			}
		}
		end(rateLimitField, before)
	}
	number := func(name string, n int64) {
		before := len(text)
		text = strconv.AppendInt(text, n, 10)
		end(name, before)
	}
	if h&XRateLimit != 0 && tightest >= 0 {
		d := &decisions[tightest]
		limit := effective(&reqs[tightest].Limit, d)
		number(limitField, limit.Capacity())
		number(remainingField, d.Remaining)
		wait := untilMore(&limit, d)
		if denied {
			wait = max(wait, retryAfter)
		}
		reset := wholeSeconds(time.Duration(clock().UnixNano()) + wait)
		if end, has := limit.WindowEnd(d.At); has && wait == d.ResetAfter && wait == end.Sub(d.At.Time()) {
			reset = end.Unix() // a whole second of every clock
		}
		number(resetField, reset)
	}
	if h&RetryAfter != 0 && denied && retryAfter > 0 {
		number(retryAfterField, wholeSeconds(retryAfter))
	}
	put(header, fields, string(text))
}

// put sets the fields to the parts of text.
func put(header http.Header, fields []field, text string) {
	values, begin := make([]string, len(fields)), 0
	for i, f := range fields {
		values[i] = text[begin:f.end]
		header[f.name] = values[i : i+1 : i+1]
		begin = f.end
	}
}

// isInTheWay reports whether d can deny.
func isInTheWay(d *store.Decision) bool {
	return !d.Shadow && (d.Override == nil || d.Override.Effect != store.OverrideExempt)
}

// isKnown reports whether the usage is known.
func isKnown(d *store.Decision) bool { return !d.Unguarded }

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

// appendPolicy appends the parameters of RateLimit-Policy.
func appendPolicy(text []byte, limit *store.Limit) []byte {
	quota, window := limit.Count, max(1, wholeSeconds(limit.Period))
	if limit.Period < time.Second && limit.Period >= store.MinPeriod {
		quota = quota * int64(time.Second) / int64(limit.Period) // at most 10¹⁸ before dividing
	}
	text = strconv.AppendInt(append(text, ";q="...), quota, 10)
	return strconv.AppendInt(append(text, ";w="...), window, 10)
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

// wholeSeconds rounds up, so that a client which waits that long is not early.
func wholeSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}
