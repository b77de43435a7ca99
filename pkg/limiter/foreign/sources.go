package foreign

import (
	"slices"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Source says for which keys a layout is meant.
type Source struct {
	Layout Layout
	// Keys are the store keys that an operator says are the layout's; zero if none were
	// named, and the layout's usual ones are.
	Keys limiter.Pattern
	// Limit is what the operator says of the limits of these keys; zero is not said.
	Limit limiter.Limit
}

// Sources are the layouts that a store is looked at by. The first one that has a key says
// which limit it has.
type Sources []Source

// candidate is a source that may have a key.
type candidate struct {
	*Source
	key   limiter.Key
	asked bool
}

// candidates returns the layouts that can have made a store key. What the operator selects is
// subjects: if that is a pattern of store keys, the layouts are taken to be asked for them.
func (s Sources) candidates(storeKey string, subjects limiter.Pattern) (found []candidate) {
	selected := subjects.LiteralBeginning() != "" && subjects.Match(storeKey)
	for i := range s {
		source := &s[i]
		asked := len(s) == 1 && selected
		if !source.Keys.IsZero() {
			if asked = source.Keys.Match(storeKey); !asked {
				continue
			}
		}
		if slices.ContainsFunc(found, func(c candidate) bool { return c.Layout == source.Layout }) {
			continue // a mapping before it has the key
		}
		if key, ok := source.Layout.Match(storeKey, asked); ok {
			found = append(found, candidate{source, key, asked})
		}
	}
	return found
}

// Prefixes returns what all store keys of the sources begin with; nil if that may be anything.
func (s Sources) Prefixes() (prefixes []string) {
	for i := range s {
		of := s[i].Layout.Info().Prefixes
		if !s[i].Keys.IsZero() {
			of = []string{s[i].Keys.LiteralBeginning()}
		}
		if of == nil || slices.Contains(of, "") {
			return nil
		}
		prefixes = append(prefixes, of...)
	}
	slices.Sort(prefixes)
	return slices.Compact(prefixes)
}

// commonBeginning is the longest text that all of texts begin with.
func commonBeginning(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	common := texts[0]
	for _, text := range texts[1:] {
		for !strings.HasPrefix(text, common) {
			common = common[:len(common)-1]
		}
	}
	return common
}

// Glob returns a glob in the form of Redis that matches all store keys of the sources.
func (s Sources) Glob() string {
	return limiter.EscapeGlob(commonBeginning(s.Prefixes())) + "*"
}
