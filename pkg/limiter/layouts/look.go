package layouts

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/recordformat"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Look is one store key, which some of the [Sources] may know, on its way to an answer: which store keys to read for
// it, and then what they say.
type Look struct {
	StoreKey   string
	candidates []candidate
	query      *admin.Query
	now        store.Instant
}

// Look begins to look at a store key. It returns nil if no layout can have made the key, or the query, whose Keys do
// not matter here, selects none of the limits that it can be of. A pattern of subjects selects store keys, too.
func (s Sources) Look(storeKey string, query *admin.Query) *Look {
	look := Look{StoreKey: storeKey, query: query}
	for _, c := range s.candidates(storeKey, query.Subjects) {
		if look.maySelect(c.key) {
			look.candidates = append(look.candidates, c)
		}
	}
	if len(look.candidates) == 0 {
		return nil
	}
	return &look
}

// maySelect reports whether the query can select limits of a store key with that result of [Layout.Match]. An entry
// can have more behind that name, and more of the store key behind that subject.
func (l *Look) maySelect(key store.Key) bool {
	q, subjects := l.query, []string{key.Subject, l.StoreKey}
	if at := strings.LastIndex(l.StoreKey, key.Subject); at >= 0 {
		subjects = append(subjects, l.StoreKey[at:])
	}
	if !q.Subjects.IsZero() && !slices.ContainsFunc(subjects, q.Subjects.Match) {
		return false
	}
	name := q.Names.LiteralBeginning()
	return q.Names.IsZero() || strings.HasPrefix(name, key.Name) || strings.HasPrefix(key.Name, name)
}

// selects reports whether an entry was asked for.
func (l *Look) selects(e *admin.Entry) bool {
	q := l.query
	isSubject := q.Subjects.IsZero() ||
		slices.ContainsFunc([]string{e.Key.Subject, l.StoreKey, e.StoreKey}, q.Subjects.Match)
	return isSubject && (q.Names.IsZero() || q.Names.Match(e.Key.Name)) && (q.Match == nil || q.Match(e.Key))
}

// StoreKeys returns the store keys to read, each once. now is what the server's clock shows.
func (l *Look) StoreKeys(now store.Instant) []string {
	l.now = now
	storeKeys := []string{l.StoreKey}
	for i := range l.candidates {
		c := &l.candidates[i]
		c.together = c.Layout.Together(l.StoreKey, c.Limit, now)
		for _, storeKey := range c.together {
			if !slices.Contains(storeKeys, storeKey) {
				storeKeys = append(storeKeys, storeKey)
			}
		}
	}
	return storeKeys
}

// Judge finds the limiter of a store key, and returns what is in use of its limits. values returns the value of a
// store key that StoreKeys named. principal is the store key that stands for all that were read together.
//
// A layout that an operator named for the key has it, if the values can be the layout's, and by a mapping alone also
// are plausible beside its limit. Of all others the one that is certain has it. What limitctl wrote is nobody's.
//
// The error concerns this key alone: a [store.ForeignError] if the values cannot be of the layout that an operator
// named other than by a mapping, nor of another one; an [UnsureError] for others that look like a limiter's.
func (l *Look) Judge(values func(storeKey string) Value) (entries []admin.Entry, principal string, err error) {
	value := values(l.StoreKey)
	if IsOwn(&value) {
		return nil, l.StoreKey, nil
	}
	var verdict verdict
	for i := range l.candidates {
		c := &l.candidates[i]
		c.found = &Found{StoreKey: l.StoreKey, Key: c.key, Now: l.now, Limit: c.Limit}
		for _, storeKey := range c.together {
			c.found.Values = append(c.found.Values, values(storeKey))
		}
		verdict.add(c)
	}
	claim := verdict.claim()
	if claim == nil {
		return nil, l.StoreKey, verdict.err(&value)
	}
	entries = slices.DeleteFunc(claim.entries(), func(e admin.Entry) bool { return !l.selects(&e) })
	return entries, claim.together[0], nil
}

// verdict sorts the candidates by how they read the values.
type verdict struct {
	asked             *candidate   // that an operator named for the key
	certain, possible []*candidate // that can read the values
	wrong             []*candidate // that cannot
}

func (v *verdict) add(c *candidate) {
	if c.asked {
		v.asked = c
	}
	switch c.reading, c.wrong = decode(c.Layout, c.found); {
	case c.wrong != nil:
		v.wrong = append(v.wrong, c)
	case len(c.reading.Entries) == 0: // it is gone, or says nothing
	case c.reading.Certain:
		v.certain = append(v.certain, c)
	default:
		v.possible = append(v.possible, c)
	}
}

// claim returns the candidate that has the key, or nil.
func (v *verdict) claim() *candidate {
	switch {
	case v.asked != nil && len(v.asked.reading.Entries) > 0 && (!v.asked.mapped || v.asked.isPlausible()):
		return v.asked
	case len(v.certain) == 1:
		return v.certain[0]
	}
	return nil
}

// err says why no layout has the key, if that is worth a message.
func (v *verdict) err(value *Value) error {
	likely := append(v.certain, v.possible...)
	if v.asked != nil && v.asked.mapped {
		if v.asked.wrong != nil { // among others that would have it, if any
			likely, v.wrong = nil, []*candidate{v.asked}
		} else if len(v.asked.reading.Entries) > 0 {
			likely = []*candidate{v.asked}
		}
	}
	if len(likely) == 0 && (v.asked == nil || v.asked.wrong == nil) {
		v.wrong = slices.DeleteFunc(v.wrong, func(c *candidate) bool { return c.Layout.Info().Prefixes == nil })
		if len(v.wrong) == 0 { // only limiters whose keys can be any would have it
			return nil
		}
	}
	if v.asked != nil && v.asked.wrong != nil && !v.asked.mapped {
		return &store.ForeignError{StoreKey: value.StoreKey,
			Holds: v.asked.wrong.Error() + ", which " + v.asked.Layout.Info().Name + " does not write"}
	}
	unsure := &UnsureError{StoreKey: value.StoreKey}
	if len(likely) == 0 {
		likely, unsure.Wrong = v.wrong, v.wrong[0].wrong.Error()
	} else {
		unsure.NeverExpires = value.TTL < 0
	}
	for _, c := range likely {
		unsure.Layouts = append(unsure.Layouts, c.Layout.Info().Name)
	}
	slices.Sort(unsure.Layouts)
	if len(likely) == 1 {
		for _, e := range slices.Backward(likely[0].reading.Entries) {
			if len(e.Defects) > 0 {
				unsure.Defect = e.Defects[0].Text
			}
		}
	}
	return unsure
}

// UnsureError says why a store key that looks like a limiter's was left out. It is not a [store.ForeignError], and no
// reason for a command to fail: nobody asked for just this key, or the key is in order and another limiter's.
type UnsureError struct {
	StoreKey string
	// Layouts are the names of those that the key looks like. If Wrong is not set, each of them may have written it.
	Layouts []string
	// Defect is what is wrong with the key if it is of the only one of Layouts, such as "no expiry, so the key stays".
	Defect string
	// Wrong is what is wrong with the value if none of Layouts can have written it.
	Wrong string
	// NeverExpires: the key can be of Layouts, and the store keeps it for ever, so it may deny for ever.
	NeverExpires bool
}

// Error names the key and the layouts. A key that is not printable is quoted.
func (e *UnsureError) Error() string {
	text, layouts := "key "+strconv.Quote(e.StoreKey), strings.Join(e.Layouts, " or ")
	if e.Wrong != "" {
		return text + " holds " + e.Wrong + ", which " + layouts + " does not write"
	}
	if text += " may be of " + layouts; e.Defect != "" {
		return text + ": " + e.Defect
	}
	if e.NeverExpires {
		text += ", and has no TTL"
	}
	return text
}

// mostPerSecond is about as many requests as a server counts under one key in a second.
const mostPerSecond = 100_000

// isPlausible reports whether what was read of a key can be of the limit that an operator says: a pattern such as
// "rl:*" is also of keys that its author did not think of. Not more may be in use than can have come in a period, and
// the key may not stay for much longer. One that never expires is, unless it counts for nothing: then leaving it does
// no harm.
func (c *candidate) isPlausible() bool {
	if c.reading.Certain {
		return true
	}
	for i := range c.reading.Entries {
		e := &c.reading.Entries[i]
		// For how long units of the limit can count: a period, or until a bucket is full.
		longest := time.Duration(0)
		if limit := &e.Limit; limit.Period > 0 && limit.Count > 0 {
			longest = durationOf(math.Ceil(float64(limit.Capacity())/float64(limit.Count)) * float64(limit.Period))
		}
		forEver, kept := false, lifetime{longest: longest}
		for j := range c.found.Values {
			switch value := &c.found.Values[j]; {
			case value.Type == NoValue:
			case value.TTL < 0:
				forEver = true
			case kept.isAbsurd(value.TTL) && !kept.inMilliseconds(value.TTL):
				return false
			}
		}
		tooMuch := e.LimitKnown() && (e.Used-e.Limit.Capacity())/mostPerSecond > int64(longest/time.Second)
		if forEver && isUnused(e) || !forEver && e.UsedKnown() && tooMuch {
			return false
		}
	}
	return true
}

// partsOf returns those of values that are there.
func partsOf(values []Value) (parts []admin.Member) {
	for i := range values {
		if value := &values[i]; value.Type != NoValue {
			parts = append(parts, admin.Member{StoreKey: value.StoreKey, Type: string(value.Type)})
		}
	}
	return parts
}

// entries are those of the reading, with the fields that the layout leaves to its caller.
func (c *candidate) entries() []admin.Entry {
	for i := range c.reading.Entries {
		e := &c.reading.Entries[i]
		if e.Key == (store.Key{}) {
			e.Key = c.key
		}
		if len(e.Record.Members) == 0 {
			e.Record.Members = partsOf(c.found.Values)
		}
		e.StoreKey, e.Layout, e.At, e.Record.Key = c.together[0], c.Layout.Info().Name, c.found.Now, e.Key
		e.TTL = c.ttl(e.Record.Members)
	}
	return c.reading.Entries
}

// ttl is how long the store keeps the first of an entry's members, or for ever if it keeps any of them so.
func (c *candidate) ttl(parts []admin.Member) (ttl time.Duration) {
	first := true
	for i := range c.found.Values {
		switch value := &c.found.Values[i]; {
		case !slices.ContainsFunc(parts, func(p admin.Member) bool { return p.StoreKey == value.StoreKey }):
		case value.TTL < 0:
			return value.TTL
		case first:
			ttl, first = value.TTL, false
		}
	}
	return ttl
}

// keptWithLimits are the keys of what limitctl keeps with limits, from the "!" behind the prefix on.
var keptWithLimits = keysLike(`^(?:id$|token:|token-sha256:|\{(?:audit\}$|override\}(?:$|:)|denials:[^}]*\}(?:$|:)|` +
	`[^}]*\}:token:|[^}]*\}:token-sha256:))`)

// IsOwn reports whether limitctl wrote a value itself, under whatever prefix: the record of a limit, or what it keeps
// with limits.
func IsOwn(value *Value) bool {
	if value.Type == StringValue && bytes.HasPrefix(value.Text, []byte(recordformat.Magic)) {
		if _, err := store.DecodeRecordLimit(value.Text); err == nil {
			return true
		}
	}
	_, rest, is := strings.Cut(value.StoreKey, "!")
	return is && keptWithLimits().MatchString(rest)
}
