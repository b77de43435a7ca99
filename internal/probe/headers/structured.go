package headers

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

const (
	policyField = "RateLimit-Policy"
	stateField  = "RateLimit"
)

// The forms of fields, as messages say them. The lists and the dictionary are structured fields (RFC 9651).
const (
	policyForm     = `"NAME";q=COUNT;w=SECONDS or COUNT;w=SECONDS`
	stateForm      = `"NAME";r=COUNT;t=SECONDS`
	dictionaryForm = "limit=COUNT, remaining=COUNT, reset=SECONDS"
)

// readFields reads all dialects of header fields.
func (r *Reading) readFields(header http.Header, there time.Time) {
	var policies []Limit
	if text, found := r.value(header, policyField, true); found {
		policies = r.readList(policyField, text, policyForm)
	}
	text, found := r.value(header, stateField, true)
	switch key, _, _ := strings.Cut(text, "="); {
	case key == "limit" || key == "remaining" || key == "reset":
		r.add(DialectDraft7, r.readDraft7(text, policies)...)
	case found:
		r.add(DialectDraft8, r.readDraft8(text, policies)...)
	case len(policies) > 0 && policies[0].name != "":
		r.add(DialectDraft8, policies...)
	case header.Get("RateLimit-Limit")+header.Get("RateLimit-Remaining") == "": // else they are those of draft-6
		r.add(DialectDraft7, policies...)
	}
	r.readPlain(header, DialectDraft6, "RateLimit-", policies, there)
	r.readPlain(header, DialectX, "X-RateLimit-", nil, there)
}

// value returns the value of a field, whose lines are parts of a list or must be the same.
func (r *Reading) value(header http.Header, name string, isList bool) (text string, found bool) {
	values := header.Values(name)
	text = strings.Join(values, ", ")
	if len(text) > longestValue {
		r.problem("%s is %d bytes long", name, len(text))
		return "", false
	}
	if len(values) > 1 && !isList {
		if text = values[0]; slices.ContainsFunc(values, func(other string) bool { return other != text }) {
			r.problem("%s is there %d times, with different values", name, len(values))
			return "", false
		}
	}
	return strings.TrimSpace(text), len(values) > 0
}

// malformed notes that a field has another form than it should.
func (r *Reading) malformed(field, text, form string) {
	r.problem("%s: %s is not %s", field, quote(text), form)
}

// readList reads a list of policies, or with stateForm of states; nil if it is malformed.
func (r *Reading) readList(field, text, form string) (limits []Limit) {
	list, err := httpsfv.UnmarshalList([]string{text})
	good := err == nil && len(list) > 0 && len(list) <= mostLimits
	for _, member := range list {
		item, isItem := member.(httpsfv.Item)
		if !isItem {
			good = false
			break
		}
		number := func(parameter string, least, end int64) int64 {
			value, has := item.Params.Get(parameter)
			n, is := value.(int64)
			if has && (!is || n < least || n >= end) {
				good = false
			}
			if !is {
				return NotTold
			}
			return n
		}
		limit := Limit{Count: number("q", 0, 1e15), Remaining: number("r", 0, 1e15), Window: NotTold, CountField: field}
		if w := number("w", 1, 1e15); w != NotTold {
			limit.Window = seconds(w)
		}
		if t := number("t", 0, leastUnix); t != NotTold {
			limit.Reset, limit.HasReset = seconds(t), true
		}
		if unit, has := item.Params.Get("qu"); has && unit != "requests" && unit != "request" {
			limit.Unit = Shown(fmt.Sprint(unit))
		}
		switch value := item.Value.(type) {
		case string:
			limit.name, limit.CountField = value, field+" "+quote(value)
		case int64:
			limit.Count = value
		default:
			good = false
		}
		limit.LeftField, limit.ResetField = limit.CountField+" r", limit.CountField+" t"
		needed := limit.Count
		if form == stateForm {
			needed = limit.Remaining
			_, isItem = item.Value.(string)
		}
		good = good && isItem && needed >= 0
		limits = append(limits, limit)
	}
	if !good {
		r.malformed(field, text, form)
		return nil
	}
	return limits
}

// readDraft8 reads RateLimit of draft-8. Its policies were read before.
func (r *Reading) readDraft8(text string, policies []Limit) []Limit {
	states := r.readList(stateField, text, stateForm)
	if states == nil {
		return policies
	}
	for i := range states {
		s := &states[i]
		if n := slices.IndexFunc(policies, func(l Limit) bool { return l.name == s.name }); n >= 0 {
			p := &policies[n]
			s.Count, s.Window, s.Unit, s.CountField = p.Count, p.Window, p.Unit, p.CountField
		} else if len(policies) > 0 {
			r.problem("%s: there is no such policy in %s", s.CountField, policyField)
		}
	}
	return states
}

// readDraft7 reads RateLimit of draft-7.
func (r *Reading) readDraft7(text string, policies []Limit) []Limit {
	dictionary, err := httpsfv.UnmarshalDictionary([]string{text})
	good := err == nil
	number := func(key string) (n int64) {
		if good {
			member, _ := dictionary.Get(key)
			item, _ := member.(httpsfv.Item)
			n, good = item.Value.(int64)
		}
		good = good && n >= 0
		return n
	}
	limit := Limit{Count: number("limit"), Remaining: number("remaining"), HasReset: true,
		CountField: stateField + " limit", LeftField: stateField + " remaining", ResetField: stateField + " reset"}
	reset := number("reset")
	if !good || reset >= leastUnix {
		r.malformed(stateField, text, dictionaryForm)
		return policies
	}
	limit.Reset = seconds(reset)
	limit.windowOf(policies)
	return []Limit{limit}
}

// windowOf takes the window of the policy with the same count.
func (l *Limit) windowOf(policies []Limit) {
	l.Window = NotTold
	for i := range policies {
		if policies[i].Count == l.Count {
			l.Window = policies[i].Window
		}
	}
}

// Numbers from leastUnix on are times and not durations: as a time it is a day in 2001, as a duration 31 years.
const leastUnix = 1_000_000_000

// seconds returns a number of seconds, bounded so that sums of it fit.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(longestWait/time.Second))) * time.Second
}

// number reads a whole number; NotTold if it is none, or greater than an Integer of a structured field.
func (r *Reading) number(field, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !isDigits(text) || n >= 1e15 {
		r.malformed(field, text, "a whole number")
		return NotTold
	}
	return n
}

// readPlain reads a dialect with one number in a field, whose policies are known. After the first number further
// policies can follow: "10, 10;w=1".
func (r *Reading) readPlain(header http.Header, dialect, prefix string, policies []Limit, there time.Time) {
	limit := Limit{Count: NotTold, Remaining: NotTold,
		CountField: prefix + "Limit", LeftField: prefix + "Remaining", ResetField: prefix + "Reset"}
	count, hasCount := r.value(header, limit.CountField, false)
	left, hasLeft := r.value(header, limit.LeftField, false)
	reset, hasReset := r.value(header, limit.ResetField, false)
	if !hasCount && !hasLeft && !hasReset {
		return
	}
	if strings.ContainsAny(count, ",;") {
		if all := r.readList(limit.CountField, count, "COUNT, COUNT;w=SECONDS"); all != nil {
			limit.Count, policies = all[0].Count, append(policies, all...)
		}
	} else if hasCount {
		limit.Count = r.number(limit.CountField, count)
	}
	if hasLeft {
		limit.Remaining = r.number(limit.LeftField, left)
	}
	if limit.windowOf(policies); hasReset {
		r.readReset(&limit, reset, dialect == DialectX, there)
	}
	r.add(dialect, limit)
}

// readReset reads a number of seconds; in X-RateLimit-Reset it may have a fraction, or be a Unix time.
func (r *Reading) readReset(limit *Limit, text string, isX bool, there time.Time) {
	value, _ := strconv.ParseFloat(text, 64)
	switch {
	case !isDigits(strings.Replace(text, ".", "", 1)), strings.Contains(text, ".") && !isX,
		value >= leastUnix*1000, value >= leastUnix && !isX: // the former are milliseconds
		r.malformed(limit.ResetField, text, "a number of seconds from now")
	case value >= leastUnix:
		limit.HasReset, limit.ResetWithin = true, farClock
		limit.Reset = max(-longestWait, min(time.Unix(int64(value), 0).Sub(there), longestWait))
	default:
		limit.HasReset, limit.Reset = true, time.Duration(min(value, longestWait.Seconds())*float64(time.Second))
	}
}
