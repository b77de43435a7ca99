package probe

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

// readStructured reads RateLimit-Policy and RateLimit, in draft-8 or draft-7. A policy of
// draft-6 stands in RateLimit-Policy, too.
func (r *fieldReading) readStructured(header http.Header) {
	policies, policyDialect := r.readPolicies(header)
	text, hasState := r.joined(header, stateField)
	if !hasState {
		if policyDialect == dialectDraft7 && header.Get("RateLimit-Limit")+header.Get("RateLimit-Remaining") != "" {
			policyDialect = dialectDraft6
		}
		r.add(policyDialect, policies)
		return
	}
	if isDictionary(text) {
		r.add(dialectDraft7, r.readDraft7(text, policies))
		if policyDialect == dialectDraft8 {
			r.problem("%s is of %s, and %s of %s", policyField, dialectDraft8, stateField, dialectDraft7)
		}
		return
	}
	if policyDialect == dialectDraft7 {
		r.problem("%s is of %s, and %s of %s", policyField, dialectDraft7, stateField, dialectDraft8)
		policies = nil
	}
	limits := r.readDraft8(text, policies)
	if limits == nil {
		limits = policies
	}
	r.add(dialectDraft8, limits)
}

// joined is the value of a field whose lines are parts of one list.
func (r *fieldReading) joined(header http.Header, name string) (text string, found bool) {
	values := header.Values(name)
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

// isDictionary reports whether RateLimit is meant as the dictionary of draft-7.
func isDictionary(text string) bool {
	for _, key := range []string{"limit=", "remaining=", "reset="} {
		if strings.HasPrefix(strings.TrimSpace(text), key) {
			return true
		}
	}
	return false
}

// readPolicies reads RateLimit-Policy. Its dialect is draft-8 if policies have names, and else
// draft-7, which is also that of draft-6.
func (r *fieldReading) readPolicies(header http.Header) (limits []toldLimit, dialect string) {
	text, found := r.joined(header, policyField)
	if !found {
		return nil, ""
	}
	dialect = dialectDraft8
	items, ok := r.items(policyField, text)
	if !ok {
		return nil, dialect
	}
	for i := range items {
		item := &items[i]
		limit := toldLimit{count: notTold, remaining: notTold, window: notTold, countField: policyField}
		switch value := item.Value.(type) {
		case string:
			limit.name = value
			if limit.countField += " " + quote(value); named(limits, value) != nil {
				r.problem("%s has %s twice", policyField, quote(value))
				continue
			}
			limit.count = r.parameter(item, limit.countField, "q", 0, true)
			limit.unit = r.unit(item, limit.countField)
			if pk, has := item.Params.Get("pk"); has {
				if _, is := pk.([]byte); !is {
					r.problem("%s: pk is not a Byte Sequence, such as :MTI=:", limit.countField)
				}
			}
		case int64:
			dialect = dialectDraft7
			if limit.count = value; value < 0 {
				r.problem("%s: %d is below 0", policyField, value)
				limit.count = notTold
			}
		default:
			r.problem("%s: %s is not a String; the name of a policy stands in quotes", policyField, shown(fmt.Sprint(value)))
			continue
		}
		if w := r.parameter(item, limit.countField, "w", 1, false); w != notTold {
			limit.window = seconds(w)
		}
		limits = append(limits, limit)
	}
	return limits, dialect
}

// unit is what a policy of draft-8 counts, "" for requests.
func (r *fieldReading) unit(item *httpsfv.Item, where string) string {
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
func (r *fieldReading) items(field, text string) ([]httpsfv.Item, bool) {
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

// parameter reads an Integer of at least that much; notTold if there is none.
func (r *fieldReading) parameter(item *httpsfv.Item, where, name string, least int64, required bool) int64 {
	value, has := item.Params.Get(name)
	if !has {
		if required {
			r.problem("%s has no %s", where, name)
		}
		return notTold
	}
	n, is := value.(int64)
	switch {
	case !is:
		r.problem("%s: %s=%s is not an Integer", where, name, shown(fmt.Sprint(value)))
	case n < least && least > 0:
		r.problem("%s: %s=%d; it must be above 0", where, name, n)
	case n < least:
		r.problem("%s: %s=%d is below 0", where, name, n)
	default:
		return n
	}
	return notTold
}

// readDraft8 reads RateLimit of draft-8, whose policies were read already.
func (r *fieldReading) readDraft8(text string, policies []toldLimit) (limits []toldLimit) {
	items, ok := r.items(stateField, text)
	if !ok {
		return nil
	}
	for i := range items {
		item := &items[i]
		name, is := item.Value.(string)
		if !is {
			r.problem("%s: %s is not a String; the name of a policy stands in quotes", stateField, shown(fmt.Sprint(item.Value)))
			continue
		}
		where := stateField + " " + quote(name)
		limit := toldLimit{name: name, count: notTold, window: notTold}
		if policy := named(policies, name); policy != nil {
			limit = *policy
		} else if len(policies) > 0 {
			r.problem("%s: there is no such policy in %s", where, policyField)
		}
		limit.remaining = r.parameter(item, where, "r", 0, true)
		limit.leftField = where + " r"
		if t := r.parameter(item, where, "t", 0, false); t != notTold {
			limit.resetField = where + " t"
			r.setReset(&limit, t)
		}
		limits = append(limits, limit)
	}
	return limits
}

// readDraft7 reads RateLimit of draft-7.
func (r *fieldReading) readDraft7(text string, policies []toldLimit) []toldLimit {
	dictionary, err := httpsfv.UnmarshalDictionary([]string{text})
	if err != nil {
		r.problem("%s: %s is not a dictionary of structured fields (RFC 9651)", stateField, quote(text))
		return policies
	}
	number := func(key string) int64 {
		member, has := dictionary.Get(key)
		if !has {
			r.problem("%s has no %s", stateField, key)
			return notTold
		}
		item, _ := member.(httpsfv.Item)
		n, is := item.Value.(int64)
		switch {
		case !is:
			r.problem("%s: %s is not an Integer", stateField, key)
			return notTold
		case n < 0:
			r.problem("%s: %s=%d is below 0", stateField, key, n)
			return notTold
		}
		return n
	}
	limit := toldLimit{count: number("limit"), window: notTold, remaining: number("remaining"),
		countField: stateField + " limit", leftField: stateField + " remaining", resetField: stateField + " reset"}
	for i := range policies {
		if policies[i].count == limit.count {
			limit.window = policies[i].window
		}
	}
	if limit.window == notTold && len(policies) > 0 && policies[0].name == "" {
		r.problem("%s: limit=%d is not in %s", stateField, limit.count, policyField)
	}
	if reset := number("reset"); reset != notTold {
		r.setReset(&limit, reset)
	}
	return []toldLimit{limit}
}

// setReset sets how long until the reset, which must be seconds and not a time of day.
func (r *fieldReading) setReset(limit *toldLimit, n int64) {
	switch {
	case n >= leastUnixMilliseconds:
		r.problem("%s=%d is a unix time in milliseconds; this dialect has seconds until then", limit.resetField, n)
	case n >= leastUnix:
		r.problem("%s=%d is a unix time; this dialect has seconds until then", limit.resetField, n)
	default:
		limit.reset, limit.hasReset = seconds(n), true
	}
}

// Numbers from leastUnix on are times and not durations: it is a day in 2001, and 31 years.
const (
	leastUnix             = 1_000_000_000
	leastUnixMilliseconds = leastUnix * 1000
)

// seconds is a number of seconds, bounded so that sums of it fit.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(longestWait/time.Second))) * time.Second
}

func named(limits []toldLimit, name string) *toldLimit {
	for i := range limits {
		if limits[i].name == name {
			return &limits[i]
		}
	}
	return nil
}
