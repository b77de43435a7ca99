package probe

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// readPlain reads the dialects with one number a field.
func (r *fieldReading) readPlain(header http.Header, there time.Time) {
	kong := r.readKong(header)
	if limit, policies, found := r.readNumbers(header, "RateLimit-", there); found {
		dialect := dialectDraft6
		if kong != nil {
			dialect = dialectKong
		}
		r.addWithPolicies(dialect, limit, policies)
	}
	r.add(dialectKong, kong)
	limit, policies, found := r.readNumbers(header, "X-RateLimit-", there)
	if !found {
		return
	}
	dialect := dialectX
	reset := strings.TrimSpace(header.Get("X-RateLimit-Reset"))
	switch {
	case header.Get("X-RateLimit-Replenish-Rate") != "":
		dialect = dialectSpring
		limit.window, limit.countField = time.Second, "X-RateLimit-Replenish-Rate"
		limit.count = r.number(header, limit.countField)
	case len(policies) > 0:
		dialect = dialectEnvoy
	case isDigits(reset) && len(reset) >= len(strconv.Itoa(leastUnix)):
		if dialect = dialectXUnix; header.Get("X-RateLimit-Used") != "" {
			dialect = dialectGitHub
		}
	case strings.Contains(reset, "."):
		dialect = dialectAPISIX
	}
	r.addWithPolicies(dialect, limit, policies)
}

// addWithPolicies adds the limit that is told of, with its window out of the policies.
func (r *fieldReading) addWithPolicies(dialect string, limit toldLimit, policies []toldLimit) {
	if dialect == dialectDraft6 {
		for i := range r.families {
			if f := &r.families[i]; f.dialect == dialectDraft6 { // RateLimit-Policy
				policies = append(policies, f.limits...)
				f.limits = nil
			}
		}
	}
	for i := range policies {
		if policies[i].count == limit.count {
			limit.window = policies[i].window
		}
	}
	r.add(dialect, []toldLimit{limit})
}

// readNumbers reads the fields Limit, Remaining and Reset after a prefix.
func (r *fieldReading) readNumbers(header http.Header, prefix string, there time.Time) (limit toldLimit, policies []toldLimit, found bool) {
	limit = toldLimit{count: notTold, remaining: notTold, window: notTold,
		countField: prefix + "Limit", leftField: prefix + "Remaining", resetField: prefix + "Reset"}
	if header.Get(limit.countField) == "" && header.Get(limit.leftField) == "" && header.Get(limit.resetField) == "" {
		return limit, nil, false
	}
	limit.count, policies = r.readLimitField(header, limit.countField)
	limit.remaining = r.number(header, limit.leftField)
	text, hasReset := r.single(header, limit.resetField)
	if !hasReset {
		return limit, policies, true
	}
	value, err := strconv.ParseFloat(text, 64)
	isX := strings.HasPrefix(prefix, "X-")
	switch {
	case err != nil || !isDigits(strings.ReplaceAll(strings.TrimPrefix(text, "-"), ".", "")):
		r.problem("%s: %s is not a number", limit.resetField, quote(text))
	case value < 0:
		r.problem("%s: %s is below 0", limit.resetField, shown(text))
	case value >= leastUnixMilliseconds:
		r.problem("%s: %s is a unix time in milliseconds; seconds are usual", limit.resetField, shown(text))
	case value >= leastUnix && !isX:
		r.problem("%s: %s is a unix time; this dialect has seconds until then", limit.resetField, shown(text))
	case value >= leastUnix:
		limit.hasReset = true
		limit.reset = max(-longestWait, min(time.Unix(int64(value), 0).Sub(there), longestWait))
	case strings.Contains(text, ".") && !isX:
		r.problem("%s: %s is not a whole number of seconds", limit.resetField, shown(text))
	default:
		limit.hasReset = true
		limit.reset = time.Duration(min(value, longestWait.Seconds()) * float64(time.Second))
	}
	return limit, policies, true
}

// readLimitField reads a number, behind which policies may stand: "10, 10;w=1".
func (r *fieldReading) readLimitField(header http.Header, field string) (count int64, policies []toldLimit) {
	text, found := r.single(header, field)
	if !found {
		return notTold, nil
	}
	if !strings.ContainsAny(text, ",;") {
		return r.numberIn(field, text), nil
	}
	items, ok := r.items(field, text)
	if !ok {
		return notTold, nil
	}
	count = notTold
	for i := range items {
		n, is := items[i].Value.(int64)
		if !is || n < 0 {
			r.problem("%s: %s is not a list of whole numbers", field, quote(text))
			return notTold, nil
		}
		if i == 0 {
			count = n
		}
		if w := r.parameter(&items[i], field, "w", 1, false); w != notTold {
			policies = append(policies, toldLimit{count: n, window: seconds(w), remaining: notTold, countField: field})
		}
	}
	return count, policies
}

// number reads a field that is a whole number; notTold if it is missing or malformed.
func (r *fieldReading) number(header http.Header, field string) int64 {
	text, found := r.single(header, field)
	if !found {
		return notTold
	}
	return r.numberIn(field, text)
}

func (r *fieldReading) numberIn(field, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil && n < 0:
		r.problem("%s: %d is below 0", field, n)
	case err != nil || !isDigits(text):
		r.problem("%s: %s is not a whole number", field, quote(text))
	case n > store.MaxCount*1000:
		r.problem("%s: %s is too great a number", field, shown(text))
	default:
		return n
	}
	return notTold
}

// readKong reads the pairs of fields that have a period in their name.
func (r *fieldReading) readKong(header http.Header) (limits []toldLimit) {
	for _, period := range kongPeriods {
		name := "X-RateLimit-Limit-" + period.name
		if header.Get(name) == "" {
			continue
		}
		left := "X-RateLimit-Remaining-" + period.name
		limits = append(limits, toldLimit{name: period.name, count: r.number(header, name), window: period.span,
			remaining: r.number(header, left), countField: name, leftField: left})
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
