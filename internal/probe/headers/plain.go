package headers

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// readPlain reads the dialects with one number in a field.
func (r *Reading) readPlain(header http.Header, there time.Time) {
	kong := r.readKong(header)
	if limit, policies, found := r.readNumbers(header, draft6, there); found {
		dialect := DialectDraft6
		if kong != nil {
			dialect = DialectKong
		}
		r.addWithPolicies(dialect, limit, policies)
	}
	r.add(DialectKong, kong)
	limit, policies, found := r.readNumbers(header, xFields, there)
	if !found {
		return
	}
	dialect := DialectX
	reset := strings.TrimSpace(header.Get("X-Ratelimit-Reset"))
	switch {
	case header.Get("X-Ratelimit-Replenish-Rate") != "":
		dialect = DialectSpring
		limit.Window, limit.CountField = time.Second, "X-RateLimit-Replenish-Rate"
		limit.Count = r.number(header, limit.CountField)
	case len(policies) > 0:
		dialect = DialectEnvoy
	case isDigits(reset) && len(reset) >= len(strconv.Itoa(LeastUnix)):
		if dialect = DialectXUnix; header.Get("X-Ratelimit-Used") != "" {
			dialect = DialectGitHub
		}
	case strings.Contains(reset, "."):
		dialect = DialectAPISIX
	}
	r.addWithPolicies(dialect, limit, policies)
}

// addWithPolicies adds a limit, with its window from the policies.
func (r *Reading) addWithPolicies(dialect string, limit Limit, policies []Limit) {
	if dialect == DialectDraft6 {
		for i := range r.Families {
			if f := &r.Families[i]; f.Dialect == DialectDraft6 { // RateLimit-Policy
				policies = append(policies, f.Limits...)
				f.Limits = nil
			}
		}
	}
	for i := range policies {
		if policies[i].Count == limit.Count {
			limit.Window = policies[i].Window
		}
	}
	r.add(dialect, []Limit{limit})
}

var (
	draft6 = Limit{Count: NotTold, Remaining: NotTold, Window: NotTold,
		CountField: "RateLimit-Limit", LeftField: "RateLimit-Remaining", ResetField: "RateLimit-Reset"}
	xFields = Limit{Count: NotTold, Remaining: NotTold, Window: NotTold,
		CountField: "X-RateLimit-Limit", LeftField: "X-RateLimit-Remaining", ResetField: "X-RateLimit-Reset"}
)

// readNumbers reads the fields that a limit, of which nothing else is known, names.
func (r *Reading) readNumbers(header http.Header, limit Limit, there time.Time) (_ Limit, policies []Limit, found bool) {
	if len(values(header, limit.CountField))+len(values(header, limit.LeftField))+len(values(header, limit.ResetField)) == 0 {
		return limit, nil, false
	}
	limit.Count, policies = r.readLimitField(header, limit.CountField)
	limit.Remaining = r.number(header, limit.LeftField)
	text, hasReset := r.single(header, limit.ResetField)
	if !hasReset {
		return limit, policies, true
	}
	value, _ := strconv.ParseFloat(text, 64)
	isX := strings.HasPrefix(limit.ResetField, "X-")
	switch {
	case !isDigits(strings.Replace(text, ".", "", 1)), strings.Contains(text, ".") && !isX:
		r.problem("%s: %s is not a number of seconds", limit.ResetField, quote(text))
	case value >= leastUnixMilliseconds, value >= LeastUnix && !isX:
		r.problem("%s: %s is too great a number of seconds", limit.ResetField, Shown(text))
	case value >= LeastUnix:
		limit.HasReset, limit.ResetWithin = true, farClock
		limit.Reset = max(-longestWait, min(time.Unix(int64(value), 0).Sub(there), longestWait))
	default:
		limit.HasReset = true
		limit.Reset = time.Duration(min(value, longestWait.Seconds()) * float64(time.Second))
	}
	return limit, policies, true
}

// readLimitField reads a number, which policies may follow: "10, 10;w=1".
func (r *Reading) readLimitField(header http.Header, field string) (count int64, policies []Limit) {
	text, found := r.single(header, field)
	if !found {
		return NotTold, nil
	}
	if !strings.ContainsAny(text, ",;") {
		return r.numberIn(field, text), nil
	}
	count = NotTold
	for i, item := range r.items(field, text) {
		n := r.whole(field, item.Value, 0)
		if i == 0 {
			count = n
		}
		if w := r.parameter(item, field, "w", 1, false); w != NotTold {
			policies = append(policies, Limit{Count: n, Window: seconds(w), Remaining: NotTold, CountField: field})
		}
	}
	return count, policies
}

// number reads a field that is a whole number; NotTold if it is missing or malformed.
func (r *Reading) number(header http.Header, field string) int64 {
	text, found := r.single(header, field)
	if !found {
		return NotTold
	}
	return r.numberIn(field, text)
}

func (r *Reading) numberIn(field, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case !isDigits(text):
		r.problem("%s: %s is not a whole number", field, quote(text))
	case err != nil || n > store.MaxCount*1000:
		r.problem("%s: %s is too great a number", field, Shown(text))
	default:
		return n
	}
	return NotTold
}

// readKong reads the pairs of fields with a period in their names.
func (r *Reading) readKong(header http.Header) (limits []Limit) {
	if !hasPrefix(header, "X-Ratelimit-Limit-", "X-Ratelimit-Remaining-") {
		return nil
	}
	for _, period := range kongPeriods {
		name, left := "X-RateLimit-Limit-"+period.name, "X-RateLimit-Remaining-"+period.name
		if len(values(header, name))+len(values(header, left)) == 0 {
			continue
		}
		limits = append(limits, Limit{name: period.name, Count: r.number(header, name), Window: period.span,
			Remaining: r.number(header, left), CountField: name, LeftField: left})
	}
	return limits
}

var kongPeriods = []struct {
	name string
	span time.Duration
}{
	{"Second", time.Second}, {"Minute", time.Minute}, {"Hour", time.Hour}, {"Day", 24 * time.Hour},
	{"Month", 30 * 24 * time.Hour}, {"Year", 365 * 24 * time.Hour},
}
