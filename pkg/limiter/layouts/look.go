package layouts

import (
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Look is one store key, which some of the [Sources] may know, on its way to an answer: which
// store keys to read for it, and then what they say.
type Look struct {
	StoreKey   string
	candidates []candidate
	query      *admin.Query
	// keys were asked for instead of the query's selection.
	keys []store.Key
	now  store.Instant
}

// Look begins to look at a store key. It returns nil if no layout can have made the key, or the
// query selects none of the limits that it can be of. A pattern of subjects selects store keys,
// too; without one all are selected. The query's Keys do not matter here, see [Sources.LookFor].
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

// LookFor begins to look at a store key for limits that a scan found there: keys are those of the
// entries, with their names. It returns nil if the layouts that the names begin with are not
// among the sources, or cannot have made the store key.
func (s Sources) LookFor(storeKey string, keys ...store.Key) *Look {
	look := Look{StoreKey: storeKey, keys: keys}
	for _, key := range keys {
		c, ok := s.named(storeKey, LayoutOf(key))
		if ok && !slices.ContainsFunc(look.candidates, func(other candidate) bool { return other.Layout == c.Layout }) {
			look.candidates = append(look.candidates, c)
		}
	}
	if len(look.candidates) == 0 {
		return nil
	}
	return &look
}

// maySelect reports whether the query can select limits of a store key with that result of [Layout.Match].
// An entry can have more behind that name, and more of the store key behind that subject.
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
	if l.keys != nil {
		return slices.Contains(l.keys, e.Key)
	}
	q := l.query
	isSubject := q.Subjects.IsZero() || q.Subjects.Match(e.Key.Subject) || q.Subjects.Match(l.StoreKey) || q.Subjects.Match(e.StoreKey)
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

// Judge finds the limiter of a store key, and returns what is in use of its limits. values returns the
// value of a store key that StoreKeys named. principal is the store key that stands for all that were
// read together: a scan that meets the others leaves them out.
//
// A layout that an operator named for the key has it, if the values can be the layout's. By a mapping
// alone they also have to be plausible beside its limit. Of all others the one that is certain has it.
// What limitctl wrote itself is nobody's, whatever its prefix.
//
// The error concerns this key alone. It is a [store.ForeignError] if an operator named a layout
// for the key, other than by a mapping alone, and the values cannot be of that layout or of another
// one that is known. It is an [UnsureError] in all other cases in which the key looks like a
// limiter's and was left out. A key that looks like nobody's has no entry and no error.
func (l *Look) Judge(values func(storeKey string) Value) (entries []admin.Entry, principal string, err error) {
	value := values(l.StoreKey)
	if IsOwn(&value) {
		return nil, l.StoreKey, nil
	}
	var verdict verdict
	for i := range l.candidates {
		c := &l.candidates[i]
		c.found = &Found{StoreKey: l.StoreKey, Key: c.key, Now: l.now, Limit: c.Limit, Values: make([]Value, len(c.together))}
		for j, storeKey := range c.together {
			c.found.Values[j] = values(storeKey)
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
			likely = nil
			v.wrong = []*candidate{v.asked}
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
		return &store.ForeignError{StoreKey: value.StoreKey, Holds: notWritten(v.asked.Layout, v.asked.wrong)}
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
	if len(likely) == 1 {
		unsure.Defect = likely[0].defect()
	}
	slices.Sort(unsure.Layouts)
	return unsure
}

// defect is the first defect of what was read, in words.
func (c *candidate) defect() string {
	for i := range c.reading.Entries {
		if defects := c.reading.Entries[i].Defects; len(defects) > 0 {
			return defects[0].Text
		}
	}
	return ""
}

// notWritten describes values that a layout cannot read.
func notWritten(layout Layout, wrong error) string {
	return wrong.Error() + ", which " + layout.Info().Name + " does not write"
}

// partsOf returns those of values that are there, whole.
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
		if e.StoreKey == "" {
			e.StoreKey = c.together[0]
		}
		if len(e.Record.Members) == 0 {
			e.Record.Members = partsOf(c.found.Values)
		}
		e.Layout, e.At, e.TTL, e.Record.Key = c.Layout.Info().Name, c.found.Now, c.ttl(e.Record.Members), e.Key
	}
	return c.reading.Entries
}

// ttl is how long the store keeps the first of an entry's members, or for ever if it keeps any of them so.
// Values that are not members, such as what all limits share, do not count.
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
