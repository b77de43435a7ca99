package headers

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

const (
	policyField = "RateLimit-Policy"
	stateField  = "RateLimit"
)

// readStructured reads RateLimit-Policy and RateLimit, in draft-8 or draft-7. A policy of draft-6 is in
// RateLimit-Policy, too.
func (r *Reading) readStructured(header http.Header) {
	policies, policyDialect := r.readPolicies(header)
	text, hasState := r.joined(header, stateField)
	if !hasState {
		if policyDialect == DialectDraft7 && header.Get("RateLimit-Limit")+header.Get("RateLimit-Remaining") != "" {
			policyDialect = DialectDraft6
		}
		r.add(policyDialect, policies)
		return
	}
	if isDictionary(text) {
		r.add(DialectDraft7, r.readDraft7(text, policies))
		if policyDialect == DialectDraft8 {
			r.problem("%s is of %s, and %s of %s", policyField, DialectDraft8, stateField, DialectDraft7)
		}
		return
	}
	if policyDialect == DialectDraft7 {
		r.problem("%s is of %s, and %s of %s", policyField, DialectDraft7, stateField, DialectDraft8)
		policies = nil
	}
	limits := r.readDraft8(text, policies)
	if limits == nil {
		limits = policies
	}
	r.add(DialectDraft8, limits)
}

// joined returns the value of a field whose lines are parts of one list.
func (r *Reading) joined(header http.Header, name string) (text string, found bool) {
	values := values(header, name)
	if len(values) == 0 {
		return "", false
	}
	text = strings.Join(values, ", ")
	if len(text) > longestValue {
		r.problem("%s is %d bytes long", name, len(text))
		return "", false
	}
	return text, true
}

// isDictionary reports whether RateLimit is the dictionary of draft-7.
func isDictionary(text string) bool {
	for _, key := range []string{"limit=", "remaining=", "reset="} {
		if strings.HasPrefix(strings.TrimSpace(text), key) {
			return true
		}
	}
	return false
}

// readPolicies reads RateLimit-Policy. Its dialect is draft-8 if policies have names, else draft-7, which has the
// form of draft-6.
func (r *Reading) readPolicies(header http.Header) (limits []Limit, dialect string) {
	text, found := r.joined(header, policyField)
	if !found {
		return nil, ""
	}
	dialect = DialectDraft8
	items, ok := r.items(policyField, text)
	if !ok {
		return nil, dialect
	}
	for i := range items {
		item := &items[i]
		limit := Limit{Count: NotTold, Remaining: NotTold, Window: NotTold, CountField: policyField}
		switch value := item.Value.(type) {
		case string:
			limit.name = value
			if limit.CountField += " " + quote(value); named(limits, value) != nil {
				r.problem("%s has %s twice", policyField, quote(value))
				continue
			}
			limit.Count = r.parameter(item, limit.CountField, "q", 0, true)
			limit.Unit = r.unit(item, limit.CountField)
			if pk, has := item.Params.Get("pk"); has {
				if _, is := pk.([]byte); !is {
					r.problem("%s: pk is not a Byte Sequence, such as :MTI=:", limit.CountField)
				}
			}
		case int64:
			dialect = DialectDraft7
			if limit.Count = value; value < 0 {
				r.problem("%s: %d is below 0", policyField, value)
				limit.Count = NotTold
			}
		default:
			r.problem("%s: %s is not a String; the name of a policy stands in quotes", policyField, Shown(fmt.Sprint(value)))
			continue
		}
		if w := r.parameter(item, limit.CountField, "w", 1, false); w != NotTold {
			limit.Window = seconds(w)
		}
		limits = append(limits, limit)
	}
	return limits, dialect
}

// unit returns what a policy of draft-8 counts; "" for requests.
func (r *Reading) unit(item *httpsfv.Item, where string) string {
	qu, has := item.Params.Get("qu")
	if !has {
		return ""
	}
	unit, is := qu.(string)
	if !is {
		r.problem("%s: qu is not a String", where)
		return ""
	}
	if unit == "requests" || unit == "request" {
		return ""
	}
	return unit
}

// items reads a list whose members are items.
func (r *Reading) items(field, text string) ([]httpsfv.Item, bool) {
	list, err := httpsfv.UnmarshalList([]string{text})
	switch {
	case err != nil:
		r.problem("%s: %s is not a list of structured fields (RFC 9651)", field, quote(text))
		return nil, false
	case len(list) == 0:
		r.problem("%s is empty", field)
		return nil, false
	case len(list) > mostLimits:
		r.problem("%s has %d members", field, len(list))
		return nil, false
	}
	items := make([]httpsfv.Item, 0, len(list))
	for _, member := range list {
		item, is := member.(httpsfv.Item)
		if !is {
			r.problem("%s: %s has a list inside the list", field, quote(text))
			return nil, false
		}
		items = append(items, item)
	}
	return items, true
}

// parameter reads an Integer that is at least some number; NotTold if there is none.
func (r *Reading) parameter(item *httpsfv.Item, where, name string, least int64, required bool) int64 {
	value, has := item.Params.Get(name)
	if !has {
		if required {
			r.problem("%s has no %s", where, name)
		}
		return NotTold
	}
	n, is := value.(int64)
	switch {
	case !is:
		r.problem("%s: %s=%s is not an Integer", where, name, Shown(fmt.Sprint(value)))
	case n < least && least > 0:
		r.problem("%s: %s=%d; it must be above 0", where, name, n)
	case n < least:
		r.problem("%s: %s=%d is below 0", where, name, n)
	default:
		return n
	}
	return NotTold
}

// readDraft8 reads RateLimit of draft-8. Its policies were read before.
func (r *Reading) readDraft8(text string, policies []Limit) (limits []Limit) {
	items, ok := r.items(stateField, text)
	if !ok {
		return nil
	}
	for i := range items {
		item := &items[i]
		name, is := item.Value.(string)
		if !is {
			r.problem("%s: %s is not a String; the name of a policy stands in quotes", stateField, Shown(fmt.Sprint(item.Value)))
			continue
		}
		where := stateField + " " + quote(name)
		limit := Limit{name: name, Count: NotTold, Window: NotTold}
		if policy := named(policies, name); policy != nil {
			limit = *policy
		} else if len(policies) > 0 {
			r.problem("%s: there is no such policy in %s", where, policyField)
		}
		limit.Remaining = r.parameter(item, where, "r", 0, true)
		limit.LeftField = where + " r"
		if t := r.parameter(item, where, "t", 0, false); t != NotTold {
			limit.ResetField = where + " t"
			r.setReset(&limit, t)
		}
		limits = append(limits, limit)
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
		n, is := item.Value.(int64)
		switch {
		case !is:
			r.problem("%s: %s is not an Integer", stateField, key)
			return NotTold
		case n < 0:
			r.problem("%s: %s=%d is below 0", stateField, key, n)
			return NotTold
		}
		return n
	}
	limit := Limit{Count: number("limit"), Window: NotTold, Remaining: number("remaining"),
		CountField: stateField + " limit", LeftField: stateField + " remaining", ResetField: stateField + " reset"}
	for i := range policies {
		if policies[i].Count == limit.Count {
			limit.Window = policies[i].Window
		}
	}
	if limit.Window == NotTold && len(policies) > 0 && policies[0].name == "" {
		r.problem("%s: limit=%d is not in %s", stateField, limit.Count, policyField)
	}
	if reset := number("reset"); reset != NotTold {
		r.setReset(&limit, reset)
	}
	return []Limit{limit}
}

// setReset sets the time until the reset, which must be in seconds and not a time of day.
func (r *Reading) setReset(limit *Limit, n int64) {
	switch {
	case n >= leastUnixMilliseconds:
		r.problem("%s=%d is a unix time in milliseconds; this dialect has seconds until then", limit.ResetField, n)
	case n >= LeastUnix:
		r.problem("%s=%d is a unix time; this dialect has seconds until then", limit.ResetField, n)
	default:
		limit.Reset, limit.HasReset = seconds(n), true
	}
}

// Numbers from leastUnix on are times and not durations: as a time it is a day in 2001, as a duration 31 years.
const (
	LeastUnix             = 1_000_000_000
	leastUnixMilliseconds = LeastUnix * 1000
)

// seconds returns a number of seconds, bounded so that sums of it fit.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(longestWait/time.Second))) * time.Second
}

func named(limits []Limit, name string) *Limit {
	for i := range limits {
		if limits[i].name == name {
			return &limits[i]
		}
	}
	return nil
}
