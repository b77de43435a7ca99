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

// readFields reads all dialects of header fields.
func (r *Reading) readFields(header http.Header, there time.Time) {
	policies, dialect := r.readPolicies(header)
	text, found := r.joined(header, stateField)
	switch {
	case found && isDictionary(text):
		r.add(DialectDraft7, r.readDraft7(text, policies))
	case found:
		r.add(DialectDraft8, r.readDraft8(text, policies))
	case dialect == DialectDraft7 && header.Get("RateLimit-Limit")+header.Get("RateLimit-Remaining") != "":
		r.readPlain(header, policies, there)
		return
	default:
		r.add(dialect, policies)
	}
	r.readPlain(header, nil, there)
}

// joined returns the value of a field whose lines are parts of one list.
func (r *Reading) joined(header http.Header, name string) (text string, found bool) {
	values := header.Values(name)
	text = strings.Join(values, ", ")
	if len(text) > longestValue {
		r.problem("%s is %d bytes long", name, len(text))
		return "", false
	}
	return text, len(values) > 0
}

// single returns the value of a field that may occur once.
func (r *Reading) single(header http.Header, name string) (text string, found bool) {
	values := header.Values(name)
	switch {
	case len(values) == 0:
		return "", false
	case slices.ContainsFunc(values, func(other string) bool { return other != values[0] }):
		r.problem("%s is there %d times, with different values", name, len(values))
		return "", false
	case len(values[0]) > longestValue:
		r.problem("%s is %d bytes long", name, len(values[0]))
		return "", false
	}
	return strings.TrimSpace(values[0]), true
}

// isDictionary reports whether RateLimit is the dictionary of draft-7.
func isDictionary(text string) bool {
	name, _, found := strings.Cut(strings.TrimSpace(text), "=")
	return found && (name == "limit" || name == "remaining" || name == "reset")
}

// readPolicies reads RateLimit-Policy. Its dialect is draft-8 if policies have names, else draft-7, which has the
// form of draft-6.
func (r *Reading) readPolicies(header http.Header) (limits []Limit, dialect string) {
	text, found := r.joined(header, policyField)
	if !found {
		return nil, ""
	}
	dialect = DialectDraft8
	for _, item := range r.items(policyField, text) {
		limit := Limit{Count: NotTold, Remaining: NotTold, Window: NotTold, CountField: policyField}
		if name, is := item.Value.(string); is {
			limit.name, limit.CountField = name, policyField+" "+quote(name)
			limit.Count = r.parameter(item, limit.CountField, "q", 0, true)
			if unit, has := item.Params.Get("qu"); has && unit != "requests" && unit != "request" {
				limit.Unit = Shown(fmt.Sprint(unit))
			}
		} else {
			dialect, limit.Count = DialectDraft7, r.whole(policyField, item.Value, 0)
		}
		if w := r.parameter(item, limit.CountField, "w", 1, false); w != NotTold {
			limit.Window = seconds(w)
		}
		limits = append(limits, limit)
	}
	return limits, dialect
}

// items reads a list whose members are items.
func (r *Reading) items(field, text string) (items []httpsfv.Item) {
	list, err := httpsfv.UnmarshalList([]string{text})
	for _, member := range list {
		if item, is := member.(httpsfv.Item); is {
			items = append(items, item)
		}
	}
	if err != nil || len(items) != len(list) || len(items) == 0 || len(items) > mostLimits {
		r.problem("%s: %s is not a list of 1 to %d structured fields (RFC 9651)", field, quote(text), mostLimits)
		return nil
	}
	return items
}

// whole returns a value that is an Integer from least on; NotTold if it is none.
func (r *Reading) whole(where string, value any, least int64) int64 {
	n, is := value.(int64)
	if !is || n < least {
		r.problem("%s: %s is not a whole number from %d on", where, Shown(fmt.Sprint(value)), least)
		return NotTold
	}
	return n
}

// number reads a whole number, at most the greatest Integer of a structured field; NotTold if it is none.
func (r *Reading) number(field, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !isDigits(text) || n >= 1e15 {
		r.problem("%s: %s is not a whole number", field, quote(text))
		return NotTold
	}
	return n
}

// parameter reads a parameter that is an Integer from least on; NotTold if there is none.
func (r *Reading) parameter(item httpsfv.Item, where, name string, least int64, required bool) int64 {
	value, has := item.Params.Get(name)
	switch {
	case has:
		return r.whole(where+" "+name, value, least)
	case required:
		r.problem("%s has no %s", where, name)
	}
	return NotTold
}

// readDraft8 reads RateLimit of draft-8. Its policies were read before.
func (r *Reading) readDraft8(text string, policies []Limit) (limits []Limit) {
	for _, item := range r.items(stateField, text) {
		name, is := item.Value.(string)
		if !is {
			r.problem("%s: %s is not a String; the name of a policy stands in quotes", stateField,
				Shown(fmt.Sprint(item.Value)))
			continue
		}
		where := stateField + " " + quote(name)
		limit := Limit{name: name, Count: NotTold, Window: NotTold}
		if i := slices.IndexFunc(policies, func(l Limit) bool { return l.name == name }); i >= 0 {
			limit = policies[i]
		} else if len(policies) > 0 {
			r.problem("%s: there is no such policy in %s", where, policyField)
		}
		limit.LeftField, limit.ResetField = where+" r", where+" t"
		limit.Remaining = r.parameter(item, where, "r", 0, true)
		r.setReset(&limit, r.parameter(item, where, "t", 0, false))
		limits = append(limits, limit)
	}
	if limits == nil {
		return policies
	}
	return limits
}

// readDraft7 reads RateLimit of draft-7.
func (r *Reading) readDraft7(text string, policies []Limit) []Limit {
	dictionary, err := httpsfv.UnmarshalDictionary([]string{text})
	if err != nil {
		r.problem("%s: %s is not a dictionary of structured fields (RFC 9651)", stateField, quote(text))
		return policies
	}
	number := func(key string) int64 {
		member, has := dictionary.Get(key)
		if !has {
			r.problem("%s has no %s", stateField, key)
			return NotTold
		}
		item, _ := member.(httpsfv.Item)
		return r.whole(stateField+" "+key, item.Value, 0)
	}
	limit := Limit{Count: number("limit"), Remaining: number("remaining"),
		CountField: stateField + " limit", LeftField: stateField + " remaining", ResetField: stateField + " reset"}
	limit.windowOf(policies)
	r.setReset(&limit, number("reset"))
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

// setReset sets the time until the reset, which must be in seconds and not a time of day.
func (r *Reading) setReset(limit *Limit, n int64) {
	switch {
	case n >= leastUnix:
		r.problem("%s: %d is too great a number of seconds", limit.ResetField, n)
	case n != NotTold:
		limit.Reset, limit.HasReset = seconds(n), true
	}
}

// Numbers from leastUnix on are times and not durations: as a time it is a day in 2001, as a duration 31 years.
const leastUnix = 1_000_000_000

// seconds returns a number of seconds, bounded so that sums of it fit.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(longestWait/time.Second))) * time.Second
}

// readPlain reads the dialects with one number in a field. policies are those of RateLimit-Policy in draft-6.
func (r *Reading) readPlain(header http.Header, policies []Limit, there time.Time) {
	for _, dialect := range []string{DialectDraft6, DialectX} {
		prefix := map[string]string{DialectDraft6: "RateLimit-", DialectX: "X-RateLimit-"}[dialect]
		limit := Limit{CountField: prefix + "Limit", LeftField: prefix + "Remaining", ResetField: prefix + "Reset"}
		count, hasCount := r.single(header, limit.CountField)
		left, hasLeft := r.single(header, limit.LeftField)
		reset, hasReset := r.single(header, limit.ResetField)
		if !hasCount && !hasLeft && !hasReset {
			continue
		}
		if limit.Count, limit.Remaining = NotTold, NotTold; hasCount {
			limit.Count, policies = r.readLimitField(limit.CountField, count, policies)
		}
		if hasLeft {
			limit.Remaining = r.number(limit.LeftField, left)
		}
		if limit.windowOf(policies); hasReset {
			r.readReset(&limit, reset, dialect == DialectX, there)
		}
		r.add(dialect, []Limit{limit})
		policies = nil
	}
}

// readReset reads a number of seconds; in X-RateLimit-Reset it may have a fraction, or be a Unix time.
func (r *Reading) readReset(limit *Limit, text string, isX bool, there time.Time) {
	value, _ := strconv.ParseFloat(text, 64)
	switch {
	case !isDigits(strings.Replace(text, ".", "", 1)), strings.Contains(text, ".") && !isX:
		r.problem("%s: %s is not a number of seconds", limit.ResetField, quote(text))
	case value >= leastUnix*1000, value >= leastUnix && !isX: // the former are milliseconds
		r.problem("%s: %s is too great a number of seconds", limit.ResetField, Shown(text))
	case value >= leastUnix:
		limit.HasReset, limit.ResetWithin = true, farClock
		limit.Reset = max(-longestWait, min(time.Unix(int64(value), 0).Sub(there), longestWait))
	default:
		limit.HasReset, limit.Reset = true, time.Duration(min(value, longestWait.Seconds())*float64(time.Second))
	}
}

// readLimitField reads a number, which policies may follow: "10, 10;w=1".
func (r *Reading) readLimitField(field, text string, policies []Limit) (count int64, _ []Limit) {
	if !strings.ContainsAny(text, ",;") {
		return r.number(field, text), policies
	}
	count = NotTold
	for i, item := range r.items(field, text) {
		n := r.whole(field, item.Value, 0)
		if i == 0 {
			count = n
		}
		if w := r.parameter(item, field, "w", 1, false); w != NotTold {
			policies = append(policies, Limit{Count: n, Window: seconds(w)})
		}
	}
	return count, policies
}
