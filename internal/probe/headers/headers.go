// Package headers reads what answers say about their limits, in all dialects.
package headers

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// farClock is by how much an instant of the endpoint's clock may be off: it has whole seconds, and so has the field
// Date by which that clock is known.
const farClock = 3 * time.Second

// The dialects of fields about limits, the newest first. What single servers add is read, and has the name of what it
// is added to.
const (
	// DialectDraft8 is RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-08
	// to -10: lists of named policies.
	DialectDraft8 = "draft-8"
	// DialectDraft7 is its -07: "RateLimit: limit=100, remaining=50, reset=30".
	DialectDraft7 = "draft-7"
	// DialectDraft6 is its -03 to -06: RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset.
	DialectDraft6 = "draft-6"
	// DialectX is X-RateLimit-Limit, -Remaining and -Reset, and what Envoy, GitHub and others make of it.
	DialectX = "x-ratelimit"
	// DialectRLS is what Envoy's rate limit services say in the statuses of their answers.
	DialectRLS = "rls"
)

const (
	longestValue = 4096 // bytes of a field that are read
	mostLimits   = 32   // limits that are read from one field
	longestQuote = 60   // bytes of a field that are shown
	NotTold      = -1
)

// Reading is what one answer says about limits.
type Reading struct {
	// Limits are in the order of their dialects.
	Limits []Limit
	// RetryAfter is NotTold if it is missing or malformed, and below 0 for a date that is over. RetryText is the text
	// of the field.
	RetryAfter time.Duration
	RetryText  string
	// RetryWithin is by how much RetryAfter may be off: a date comes from another clock.
	RetryWithin time.Duration
	// RetryProblem is what is wrong with Retry-After.
	RetryProblem string
	// Problems are what is wrong with the other fields, each with the field's name.
	Problems []string
}

// Limit is what an answer says about one limit.
type Limit struct {
	Dialect string
	// name is the policy's name, if it has one.
	name string
	// Count and Window are the policy, and Remaining is what is left; NotTold if it is missing.
	Count, Remaining int64
	Window           time.Duration
	// Reset is how long until there is more, or until everything is back, if HasReset. ResetWithin is by how much it
	// may be off: an instant comes from another clock.
	Reset, ResetWithin time.Duration
	HasReset           bool
	// Unit is what is counted; empty for requests.
	Unit string
	// CountField, LeftField and ResetField are the names of the fields, such as "X-RateLimit-Remaining".
	CountField, LeftField, ResetField string
}

// Text is the policy as its field says it, such as "X-RateLimit-Limit 10 in 1m".
func (l *Limit) Text() string {
	text := fmt.Sprint(l.CountField, " ", l.Count)
	if l.Window != NotTold {
		text += " in " + store.FormatPeriod(l.Window)
	}
	return text
}

// tightest returns the limit of requests with the least left; nil if none says what is left.
func tightest(limits []Limit) (found *Limit) {
	for i := range limits {
		l := &limits[i]
		if l.Unit == "" && l.Remaining != NotTold && (found == nil || l.Remaining < found.Remaining) {
			found = l
		}
	}
	return found
}

// families returns the limits of each dialect.
func (r *Reading) families() (all [][]Limit) {
	for i, begin := 1, 0; i <= len(r.Limits); i++ {
		if i == len(r.Limits) || r.Limits[i].Dialect != r.Limits[begin].Dialect {
			all, begin = append(all, r.Limits[begin:i]), i
		}
	}
	return all
}

// aboutLimits reports whether a field can be about a limit.
func aboutLimits(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, "Ratelimit") || strings.HasPrefix(name, "X-Ratelimit") {
			return true
		}
	}
	return false
}

// AddDialects adds the dialects of a reading to those that were seen before.
func (r *Reading) AddDialects(seen []string) []string {
	for i := range r.Limits {
		if dialect := r.Limits[i].Dialect; !slices.Contains(seen, dialect) {
			seen = append(seen, dialect)
		}
	}
	return seen
}

// isKept reports whether a cache kept the answer for a while.
func isKept(header http.Header) bool {
	age, err := strconv.Atoi(header.Get("Age"))
	return err == nil && age > 0
}

// problem notes what is wrong with a field.
func (r *Reading) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// add adds the limits of a dialect.
func (r *Reading) add(dialect string, limits ...Limit) {
	for _, l := range limits {
		l.Dialect = dialect
		r.Limits = append(r.Limits, l)
	}
}

// readRetryAfter reads Retry-After, which is a number of seconds or a date.
func (r *Reading) readRetryAfter(header http.Header, there time.Time) {
	values := header["Retry-After"]
	if len(values) == 0 {
		return
	}
	text := strings.TrimSpace(strings.Join(values, ", "))
	r.RetryText = Shown(text)
	n, err := strconv.ParseInt(text, 10, 64)
	date, wrong := http.ParseTime(text)
	switch {
	case err == nil && isDigits(text) && n <= int64(longestWait/time.Second):
		r.RetryAfter = time.Duration(n) * time.Second
	case wrong == nil:
		r.RetryWithin = farClock
		r.RetryAfter = max(-longestWait, min(date.Sub(there), longestWait)).Truncate(time.Microsecond) // never NotTold
	default:
		r.RetryProblem = fmt.Sprintf("Retry-After: %s is neither a whole number of seconds nor a date", quote(text))
	}
}

// longestWait bounds the durations that are read, so that their sums fit.
const longestWait = 100 * 366 * 24 * time.Hour

// quote returns a text of the other side in quotes, short and printable.
func quote(text string) string {
	if len(text) > longestQuote {
		return strconv.QuoteToASCII(text[:longestQuote]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

// Shown returns a text of the other side, in quotes if it needs them.
func Shown(text string) string {
	if quoted := quote(text); quoted != `"`+text+`"` || strings.Contains(text, ",") || text == "" {
		return quoted
	}
	return text
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// SkewOf returns how much the other side's clock is ahead of this machine's, by the field Date. It has whole seconds
// only, so less than two seconds is none. What a cache kept tells no clock.
func SkewOf(header http.Header, sent, answered time.Time) time.Duration {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil || isKept(header) {
		return 0
	}
	const coarse = 2 * time.Second
	if skew := date.Sub(sent); skew < -coarse || date.Sub(answered) > coarse {
		return skew
	}
	return 0
}

// readStatuses reads what a rate limit service says besides the header.
func (r *Reading) readStatuses(statuses []rls.Status) {
	statuses = slices.DeleteFunc(slices.Clone(statuses), func(s rls.Status) bool { return !s.HasLimit })
	if len(statuses) > mostLimits {
		r.problem("the answer names more than %d limits", mostLimits)
		statuses = statuses[:mostLimits]
	}
	for i := range statuses {
		s, where := &statuses[i], fmt.Sprintf("limit %d: ", i+1)
		limit := Limit{name: s.Name, Count: int64(s.RequestsPerUnit), Window: rls.UnitPeriod(s.Unit),
			Remaining: int64(s.Remaining), HasReset: s.HasReset, CountField: where + "current_limit",
			LeftField: where + "limit_remaining", ResetField: where + "duration_until_reset"}
		if limit.Count == 0 {
			limit.Count = NotTold
		}
		if limit.Window == 0 {
			limit.Window = NotTold
		}
		if s.HasReset {
			limit.Reset = min(max(0, s.ResetAfter()), longestWait)
		}
		r.add(DialectRLS, limit)
	}
}

// Findings are mistakes in headers, the first of each kind.
type Findings struct {
	kinds []string
	// Texts are the findings in words.
	Texts []string
}

// mostKinds bounds what is kept of a server that makes a new mistake in each answer.
const mostKinds = 32

// Add adds a mistake, if it is the first of its kind.
func (f *Findings) Add(kind, format string, args ...any) {
	if len(f.kinds) > mostKinds || slices.Contains(f.kinds, kind) {
		return
	}
	if len(f.kinds) == mostKinds {
		format, args = "and other mistakes", nil
	}
	f.kinds, f.Texts = append(f.kinds, kind), append(f.Texts, fmt.Sprintf(format, args...))
}

// AddProblem adds what is wrong with a field of one answer.
func (f *Findings) AddProblem(problem string) {
	kind, _, _ := strings.Cut(problem, "=")
	kind, _, _ = strings.Cut(kind, ": ")
	f.Add("syntax "+kind, "%s", problem)
}

// ReadAnswer reads all that an answer says about limits. skew is how much the other side's clock is ahead.
func ReadAnswer(answer *endpoint.Answer, skew time.Duration) Reading {
	r, there := Reading{RetryAfter: NotTold}, answer.Answered.Add(skew)
	r.readRetryAfter(answer.Header, there)
	if !isKept(answer.Header) && aboutLimits(answer.Header) {
		r.readFields(answer.Header, there)
	}
	r.readStatuses(answer.Statuses)
	r.agree()
	return r
}

// agree finds dialects in one answer whose remaining units differ.
func (r *Reading) agree() {
	var first *Limit
	for _, limits := range r.families() {
		switch limit := tightest(limits); {
		case limit == nil:
		case first == nil:
			first = limit
		case limit.Remaining != first.Remaining:
			r.problem("%s and %s contradict each other: %d and %d in one answer",
				first.LeftField, limit.LeftField, first.Remaining, limit.Remaining)
		}
	}
}

// Reported is what an answer says about a limit, and how long a denial says to wait, for an audit; nil if nothing.
func (r *Reading) Reported(told *Limit, denied bool) *interval.Reported {
	waits := denied && r.RetryAfter != NotTold
	if told == nil && !waits {
		return nil
	}
	to := &interval.Reported{Remaining: interval.NotReported, RetryAfter: interval.NotReported,
		ResetAfter: interval.NotReported}
	if told != nil {
		if to.Remaining = told.Remaining; told.HasReset {
			to.ResetAfter, to.ResetWithin = told.Reset, told.ResetWithin
		}
	}
	if waits {
		to.RetryAfter, to.RetryWithin = r.RetryAfter, r.RetryWithin
	}
	return to
}

// About returns what a dialect says about a limit of requests, or for "" the newest one that says anything: the only
// limit, or of several the one that is like it, or else the tightest. It is nil if none is said.
func (r *Reading) About(limit *store.Limit, dialect string) *Limit {
	for _, limits := range r.families() {
		if dialect != "" && dialect != limits[0].Dialect {
			continue
		}
		ofRequests := slices.DeleteFunc(slices.Clone(limits), func(l Limit) bool { return l.Unit != "" })
		i := slices.IndexFunc(ofRequests, func(l Limit) bool { return l.Window != NotTold && l.Tells(limit) })
		if i >= 0 {
			return &ofRequests[i]
		}
		if len(ofRequests) == 1 {
			return &ofRequests[0]
		}
		if least := tightest(ofRequests); least != nil {
			return least
		}
	}
	return nil
}

// Tells reports whether the policy in the fields can be that of a limit, which must be normalized.
func (l *Limit) Tells(limit *store.Limit) bool {
	told := l
	if told.Window == NotTold {
		return told.Count == limit.Count || told.Count == limit.Capacity()
	}
	window := max(time.Second, (limit.Period+time.Second-1)/time.Second*time.Second) // headers have whole seconds
	if told.Window == window && told.Count == limit.Count {
		return true
	}
	if limit.Period < time.Second && told.Window == time.Second {
		return told.Count == limit.Count*int64(time.Second)/int64(limit.Period)
	}
	if !limit.Algorithm.HasBurst() {
		return false
	}
	// The rate of a bucket can be written in many ways.
	return sameRate(told.Count, told.Window, limit.Count, limit.Period)
}

// sameRate reports whether two rates are the same. If a window was rounded up to a whole second, the rate in the
// fields is a little too low.
func sameRate(count int64, window time.Duration, otherCount int64, otherPeriod time.Duration) bool {
	const exactly = 1e-9
	truly := float64(otherCount) / otherPeriod.Seconds()
	least, most := float64(count)/window.Seconds(), float64(count)/window.Seconds()
	if otherPeriod%time.Second != 0 && window > time.Second {
		most = float64(count) / (window - time.Second).Seconds()
	}
	return truly >= least*(1-exactly) && truly <= most*(1+exactly)
}
