package httplimit

import (
	"math/bits"
	"net/http"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Headers are the header fields that tell a client of its limits.
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

	// AllHeaders is all of them.
	AllHeaders = RateLimit | XRateLimit | RetryAfter
)

// The names of the fields as [http.Header] has them, so that Get and Set of handlers find
// them. Names of fields mean the same in any case, and HTTP/2 has them in lower case anyway.
const (
	policyField     = "Ratelimit-Policy"
	rateLimitField  = "Ratelimit"
	limitField      = "X-Ratelimit-Limit"
	remainingField  = "X-Ratelimit-Remaining"
	resetField      = "X-Ratelimit-Reset"
	retryAfterField = "Retry-After"
)

// Set sets those of the fields that h names, for decisions about requests, in place of what
// header has of them. names are those of the limits in the same order, as a policy has them.
// nil is that there is no policy: then a single limit is called "default", and several are
// called what their keys are, such as "token-bucket/1m".
//
//	RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
//	RateLimit: "burst";r=99;t=1,"daily";r=999;t=87
//	X-RateLimit-Limit: 100
//	X-RateLimit-Remaining: 99
//	X-RateLimit-Reset: 1700000001
//
// In RateLimit-Policy q is the count of the limit, and w its period in seconds, rounded up.
// A period below one second is told as what fits into a second, rounded down. So it is never
// more than the limit allows for long. A burst is not part of it: it is what a
// client can have saved up, and so r can be greater than q. X-RateLimit-Limit is the capacity, the
// most that r can be.
//
// In RateLimit r is what is left, and t how long until there is more, in seconds, rounded
// up: the wait of a limit that denied, the next unit of a bucket, the end of a window. For the
// sliding algorithms it is when all is unused again, since nothing nearer is known; there can
// be more before. X-RateLimit-Reset is the same instant of that limit, and not before Retry-After, so that who
// sleeps until then is not kept longer than it has to be. It is by this machine's clock, which is also what
// the field Date shows.
//
// Retry-After is when the same request is allowed, if nobody else takes. It is never before
// the t of a limit that denied.
//
// Only what is in a client's way is told. Left out are shadows, and limits that an operator
// exempted the client from. What was not asked, or was decided by a failure policy because
// the store is away, is in RateLimit-Policy only, as nothing is known of it. A limit that an
// operator's override has changed, or of which a local share decides, is told as changed.
// A block is told as a limit with nothing left until it ends.
func (h Headers) Set(header http.Header, names []string, reqs []store.Request, decisions []store.Decision) {
	h.set(header, names, reqs, decisions, time.Now)
}

// field is a field and where its value ends in the text of all values.
type field struct {
	name string
	end  int
}

// set is Set with a clock. It makes one text of all values, and cuts it up, since it runs on
// every request.
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
		number(resetField, wholeSeconds(time.Duration(clock().UnixNano())+wait))
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

// isInTheWay reports whether d can keep a client from something.
func isInTheWay(d *store.Decision) bool {
	return !d.Shadow && (d.Override == nil || d.Override.Effect != store.OverrideExempt)
}

// isKnown reports whether anything is known of what is used.
func isKnown(d *store.Decision) bool { return !d.Unguarded }

// isTighter reports whether d is to be told rather than other.
func isTighter(d, other *store.Decision) bool {
	if d.Remaining != other.Remaining {
		return d.Remaining < other.Remaining
	}
	return max(d.RetryAfter, d.ResetAfter) > max(other.RetryAfter, other.ResetAfter)
}

// effective is the limit that d was made by, when limit was asked for.
func effective(limit *store.Limit, d *store.Decision) store.Limit {
	l := *limit
	if d.Override != nil {
		l = d.Override.Apply(l)
	}
	if d.LocalShare != 0 {
		l = d.LocalShare.Of(l)
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

// untilMore returns how long until the key of d has more left, or longer where that is not known.
func untilMore(limit *store.Limit, d *store.Decision) time.Duration {
	if !d.Allowed && d.RetryAfter > 0 {
		return d.RetryAfter
	}
	if !limit.Algorithm.HasBurst() || d.Used < 1 || limit.Count < 1 || limit.Period < 1 {
		return d.ResetAfter
	}
	// A bucket drains evenly: what is left once the rest of the last unit is gone takes (used-1) × period ÷ count.
	hi, lo := bits.Mul64(uint64(d.Used-1), uint64(limit.Period))
	if hi >= uint64(limit.Count) {
		return d.ResetAfter
	}
	others, _ := bits.Div64(hi, lo, uint64(limit.Count))
	unit := limit.Period/time.Duration(limit.Count) + 2*time.Microsecond
	// What was charged under another limit can drain at another rate, so this can be off.
	if more := d.ResetAfter - time.Duration(others); others <= uint64(store.MaxDrain) && more > 0 && more <= unit {
		return more
	}
	return d.ResetAfter
}

// wholeSeconds rounds up, so that a client that waits that long does not come too early.
func wholeSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}
