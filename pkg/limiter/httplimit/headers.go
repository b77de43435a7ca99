package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Headers are the header fields that tell a client of its limits.
type Headers uint8

const (
	// RateLimit is RateLimit-Policy and RateLimit, the structured fields of
	// draft-ietf-httpapi-ratelimit-headers. They list all limits.
	RateLimit Headers = 1 << iota
	// XRateLimit is X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset (unix
	// seconds), of the limit that is nearest to its end.
	XRateLimit
	// RetryAfter is Retry-After on a denial, in whole seconds.
	RetryAfter

	// AllHeaders is all of them.
	AllHeaders = RateLimit | XRateLimit | RetryAfter
)

// Set sets those of the headers that h names for a decision about limits of those names.
func (h Headers) Set(header http.Header, names []string, reqs []limiter.Request, decisions []limiter.Decision) {
	sum := limiter.Summarize(decisions)
	if h&RetryAfter != 0 && !sum.Allowed && sum.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(wholeSeconds(sum.RetryAfter), 10))
	}
}

// wholeSeconds rounds up, so that who waits that long does not come too early.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
