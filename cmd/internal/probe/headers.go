package probe

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The dialects in which headers tell of limits.
const (
	// dialectDraft8 is RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-08
	// to -10: lists of named policies.
	dialectDraft8 = "draft-8"
	// dialectDraft7 is its -07: "RateLimit: limit=100, remaining=50, reset=30".
	dialectDraft7 = "draft-7"
	// dialectDraft6 is its -03 to -06: RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset.
	dialectDraft6 = "draft-6"
	// dialectKong is draft-6 and a pair of fields for each period, such as X-RateLimit-Limit-Minute.
	dialectKong = "kong"
	// dialectX is X-RateLimit-Limit, -Remaining and -Reset in seconds.
	dialectX = "x-ratelimit"
	// dialectXUnix is the same with a unix time in X-RateLimit-Reset.
	dialectXUnix = "x-ratelimit-unix"
	// dialectGitHub is dialectXUnix with X-RateLimit-Used.
	dialectGitHub = "github"
	// dialectAPISIX is dialectX with a fraction in X-RateLimit-Reset.
	dialectAPISIX = "apisix"
	// dialectEnvoy is dialectX with policies in X-RateLimit-Limit: "10, 10;w=1".
	dialectEnvoy = "envoy"
	// dialectSpring is X-RateLimit-Remaining, -Replenish-Rate and -Burst-Capacity.
	dialectSpring = "spring-gateway"
)

const (
	longestValue = 4096 // bytes of a field that are read
	mostLimits   = 32   // limits that are read out of one field
	longestQuote = 60   // bytes of a field that are shown
	notTold      = -1
)

// fieldReading is what the header of one answer tells.
type fieldReading struct {
	families []fieldFamily
	// retryAfter is notTold if it is missing or malformed. retryText is how it was written.
	retryAfter time.Duration
	retryText  string
	retryDate  bool
	// retryProblem is what is wrong with Retry-After.
	retryProblem string
	// problems are what is wrong with the other fields, each with the field's name.
	problems []string
}

// fieldFamily is the fields of one dialect in one answer.
type fieldFamily struct {
	dialect string
	limits  []toldLimit
}

// toldLimit is what an answer tells of one limit.
type toldLimit struct {
	// name is that of the policy, if it has one.
	name string
	// count and window are the policy, and remaining what is left; notTold if it is not said.
	count, remaining int64
	window           time.Duration
	// reset is how long until there is more, or until all is back, if hasReset.
	reset    time.Duration
	hasReset bool
	// unit is what is counted, empty for requests.
	unit string
	// countField, leftField and resetField say where it stands, such as "X-RateLimit-Remaining".
	countField, leftField, resetField string
}

// tightest is the limit with the least left; nil if none says what is left.
func (f *fieldFamily) tightest() *toldLimit {
	var found *toldLimit
	for i := range f.limits {
		if l := &f.limits[i]; l.remaining != notTold && (found == nil || l.remaining < found.remaining) {
			found = l
		}
	}
	return found
}

// readHeader reads what the header of an answer tells that came at an instant of the clock here.
// skew is by how much the clock of the other side is ahead.
func readHeader(header http.Header, answered time.Time, skew time.Duration) fieldReading {
	r := fieldReading{retryAfter: notTold}
	there := answered.Add(skew)
	r.readRetryAfter(header, there)
	if age, err := strconv.Atoi(header.Get("Age")); err == nil && age > 0 {
		return r // it is of another answer, which a cache kept
	}
	r.readStructured(header)
	r.readPlain(header, there)
	return r
}

// problem notes what is wrong with a field.
func (r *fieldReading) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// add adds a family that tells something.
func (r *fieldReading) add(dialect string, limits []toldLimit) {
	if len(limits) > 0 {
		r.families = append(r.families, fieldFamily{dialect, limits})
	}
}

// readRetryAfter reads Retry-After, which is a number of seconds or a date.
func (r *fieldReading) readRetryAfter(header http.Header, there time.Time) {
	values := header.Values("Retry-After")
	if len(values) == 0 {
		return
	}
	text := strings.TrimSpace(values[0])
	r.retryText = shown(text)
	if len(values) > 1 {
		r.retryProblem = fmt.Sprintf("Retry-After is there %d times", len(values))
		return
	}
	if isDigits(text) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > int64(longestWait/time.Second) {
			r.retryProblem = fmt.Sprintf("Retry-After: %s is too great a number of seconds", r.retryText)
			return
		}
		r.retryAfter = time.Duration(n) * time.Second
		return
	}
	if date, err := http.ParseTime(text); err == nil {
		r.retryDate = true
		if r.retryAfter = date.Sub(there); r.retryAfter < 0 {
			r.retryAfter = 0
		}
		return
	}
	r.retryProblem = fmt.Sprintf("Retry-After: %s is neither a whole number of seconds nor a date", quote(text))
}

// longestWait bounds the durations that are read, so that sums of them fit.
const longestWait = 100 * 366 * 24 * time.Hour

// single returns the value of a field that may be there once.
func (r *fieldReading) single(header http.Header, name string) (text string, found bool) {
	values := header.Values(name)
	if len(values) == 0 {
		return "", false
	}
	for _, other := range values[1:] {
		if other != values[0] {
			r.problem("%s is there %d times, with different values", name, len(values))
			return "", false
		}
	}
	if len(values[0]) > longestValue {
		r.problem("%s is %d bytes long", name, len(values[0]))
		return "", false
	}
	return strings.TrimSpace(values[0]), true
}

// quote is a text of the other side in quotes, short and printable.
func quote(text string) string {
	if len(text) > longestQuote {
		return strconv.QuoteToASCII(text[:longestQuote]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

// shown is a text of the other side, in quotes if it needs them.
func shown(text string) string {
	if quoted := quote(text); quoted != `"`+text+`"` || strings.Contains(text, ",") || text == "" {
		return quoted
	}
	return text
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// skewOf returns by how much the other side's clock is ahead of the one here, by the field Date.
// It has whole seconds only, so less than two seconds is none.
func skewOf(header http.Header, sent, answered time.Time) time.Duration {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return 0
	}
	const coarse = 2 * time.Second
	if skew := date.Sub(sent); skew < -coarse || date.Sub(answered) > coarse {
		return skew
	}
	return 0
}
