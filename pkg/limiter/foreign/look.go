package foreign

import (
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Look is one store key, which some of the [Sources] may know, on its way to an answer: which
// store keys to read for it, and then what they say.
type Look struct {
	StoreKey   string
	candidates []candidate
	now        limiter.Instant
}

// Look begins to look at a store key. It returns nil if no layout can have made the key, or the
// query selects none of the limits that it can be of. A pattern of subjects selects store keys,
// too.
func (s Sources) Look(storeKey string, query *limiter.Query) *Look {
	look := Look{StoreKey: storeKey, candidates: s.candidates(storeKey, query.Subjects)}
	look.candidates = slices.DeleteFunc(look.candidates, func(c candidate) bool {
		return query.Keys == nil && !selects(query, c.key, storeKey)
	})
	if len(look.candidates) == 0 {
		return nil
	}
	return &look
}

func selects(query *limiter.Query, key limiter.Key, storeKey string) bool {
	return (query.Subjects.Match(key.Subject) || query.Subjects.Match(storeKey)) &&
		(query.Names.IsZero() || query.Names.Match(key.Name)) && (query.Match == nil || query.Match(key))
}

// StoreKeys returns the store keys to read, each once. now is what the server's clock shows.
func (l *Look) StoreKeys(now limiter.Instant) []string {
	l.now = now
	storeKeys := []string{l.StoreKey}
	for i := range l.candidates {
		for _, storeKey := range l.together(i) {
			if !slices.Contains(storeKeys, storeKey) {
				storeKeys = append(storeKeys, storeKey)
			}
		}
	}
	return storeKeys
}

func (l *Look) together(i int) []string {
	c := &l.candidates[i]
	return c.Layout.Together(l.StoreKey, c.Limit, l.now)
}

// UnsureError says that a store key may be of a limiter, and which these are. It concerns one
// key, and is not a [limiter.ForeignError]: nobody asked for just this key.
type UnsureError struct {
	StoreKey string
	// Layouts are the names of those that may have written it.
	Layouts []string
}

// Error names the key and the layouts.
func (e *UnsureError) Error() string {
	return "key " + e.StoreKey + " may be of " + strings.Join(e.Layouts, " or ")
}

// Judge returns the entries that the values say something about; values returns what a store
// key holds, for those that StoreKeys named. principal is the store key that stands for all
// that were read together: a scan that comes across the others leaves them out. The error is an
// [UnsureError], or a [limiter.ForeignError] for a key that a layout was asked for and cannot
// read. Of a key that is nobody's there is no entry and no error.
func (l *Look) Judge(values func(storeKey string) Value) (entries []limiter.Entry, principal string, err error) {
	var certain, asked, possible []claim
	var wrong error
	for i := range l.candidates {
		c := claim{candidate: &l.candidates[i], together: l.together(i)}
		c.found = &Found{StoreKey: l.StoreKey, Key: c.key, Now: l.now, Limit: c.Limit}
		for _, storeKey := range c.together {
			c.found.Values = append(c.found.Values, values(storeKey))
		}
		var err error
		if c.reading, err = c.Layout.Decode(c.found); err != nil {
			holds := err.Error() + ", which " + c.Layout.Info().Name + " does not write"
			wrong = &limiter.ForeignError{StoreKey: l.StoreKey, Holds: holds}
			continue
		}
		possible = append(possible, c)
		if c.reading.Certain {
			certain = append(certain, c)
		}
		if c.asked {
			asked = append(asked, c)
		}
	}
	switch {
	case len(certain) == 1:
		return certain[0].entries(), certain[0].together[0], nil
	case len(certain) == 0 && len(asked) == 1:
		return asked[0].entries(), asked[0].together[0], nil
	case len(possible) == 0 && len(l.candidates) == 1: // in what was asked for, and of no other
		return nil, l.StoreKey, wrong
	case len(possible) == 0:
		return nil, l.StoreKey, nil
	}
	unsure := &UnsureError{StoreKey: l.StoreKey}
	for i := range possible {
		unsure.Layouts = append(unsure.Layouts, possible[i].Layout.Info().Name)
	}
	slices.Sort(unsure.Layouts)
	return nil, l.StoreKey, unsure
}

// claim is a reading of a layout that knows the key.
type claim struct {
	*candidate
	found    *Found
	reading  Reading
	together []string
}

// entries are those of the reading, with what the layout left to us.
func (c *claim) entries() []limiter.Entry {
	for i := range c.reading.Entries {
		e := &c.reading.Entries[i]
		if e.Key == (limiter.Key{}) {
			e.Key = c.key
		}
		if e.StoreKey == "" {
			e.StoreKey = c.together[0]
		}
		e.Layout = c.Layout.Info().Name
		e.At = c.found.Now
		first := len(e.Record.Parts) == 0
		for j := range c.found.Values {
			value := &c.found.Values[j]
			if value.Type == NoValue {
				continue
			}
			if first {
				e.Record.Parts = append(e.Record.Parts, limiter.Part{StoreKey: value.StoreKey, Type: string(value.Type)})
			}
		}
		e.TTL = c.ttl()
		e.Record.Key = e.Key
	}
	return c.reading.Entries
}

// ttl is how long the store keeps the first of the values, or for ever if it keeps any so.
func (c *claim) ttl() (ttl time.Duration) {
	first := true
	for i := range c.found.Values {
		switch value := &c.found.Values[i]; {
		case value.Type == NoValue:
		case value.TTL < 0:
			return value.TTL
		case first:
			ttl, first = value.TTL, false
		}
	}
	return ttl
}
