package layouts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Source is a layout and the keys that it applies to.
type Source struct {
	Layout Layout
	// Keys are the store keys that an operator assigns to the layout: the source is a mapping then. Zero stands for
	// the layout's usual keys.
	Keys store.Pattern
	// Limit is what the operator gives of the limits of these keys; zero is unknown.
	Limit store.Limit
}

// Sources are the layouts to look for in a store. The first mapping that selects a key determines its layout. The
// first source of a layout that selects a key determines its limit.
type Sources []Source

// candidate is a source that may have a key, and its result.
type candidate struct {
	*Source
	key store.Key
	// asked: an operator named the layout for this key. mapped: by a mapping alone, whose pattern is of many keys and
	// can have strangers among them.
	asked, mapped bool
	together      []string
	found         *Found
	reading       Reading
	wrong         error
}

// candidates returns the layouts that can have made a store key, at most one of them named by the operator. subjects
// is what the operator selects.
func (s Sources) candidates(storeKey string, subjects store.Pattern) (found []candidate) {
	only, isMapped := s.only(), false
	named := only != nil && subjects.LiteralBeginning() != ""
	for i := range s {
		c := candidate{Source: &s[i]}
		isMapping := !c.Keys.IsZero()
		switch {
		case isMapping && (isMapped || !c.Keys.Match(storeKey)):
			continue
		case slices.ContainsFunc(found, func(f candidate) bool { return f.Layout == c.Layout }):
			continue // a mapping before it has the key
		case isMapping || named && subjects.Match(storeKey):
			c.asked = true
		}
		var ok bool
		if c.key, ok = c.Layout.Match(storeKey, c.asked); !ok {
			continue
		}
		isMapped = isMapped || isMapping
		// The layout and a subject name the key, too.
		isNamed := named && (subjects.Match(storeKey) || subjects.Match(c.key.Subject))
		c.asked = isMapping || !isMapped && isNamed
		c.mapped = isMapping && !(isNamed && only == c.Layout)
		found = append(found, c)
	}
	return found
}

// only returns the layout of the sources that are no mappings, if there is one such layout.
func (s Sources) only() (only Layout) {
	for i := range s {
		switch {
		case !s[i].Keys.IsZero():
		case only != nil && only != s[i].Layout:
			return nil
		default:
			only = s[i].Layout
		}
	}
	return only
}

// LayoutOf returns the name of the layout that the key of an entry begins with.
func LayoutOf(key store.Key) string {
	if end := strings.IndexAny(key.Name, "/@"); end >= 0 {
		return key.Name[:end]
	}
	return key.Name
}

// Glob returns a glob in the form of Redis that matches all store keys which the sources have of a selection of
// subjects, and as few others as one glob can.
func (s Sources) Glob(subjects store.Pattern) string {
	if len(s) == 1 && !s[0].Keys.IsZero() {
		return s[0].Keys.RedisGlob()
	}
	var beginnings []string
	for i := range s {
		of := s[i].Layout.Info().Prefixes
		if !s[i].Keys.IsZero() {
			of = []string{s[i].Keys.LiteralBeginning()}
		}
		if len(of) == 0 {
			return "*"
		}
		beginnings = append(beginnings, of...)
	}
	if beginning := subjects.LiteralBeginning(); beginning != "" && s.only() != nil {
		beginnings = append(beginnings, beginning) // it may be of store keys
	}
	return globOf(beginnings)
}

// globOf returns a glob of what begins with any of beginnings: for each place in the shortest of them it has the
// bytes that they have there.
func globOf(beginnings []string) string {
	if len(beginnings) == 0 {
		return "*"
	}
	shortest := len(slices.MinFunc(beginnings, func(a, b string) int { return len(a) - len(b) }))
	var glob strings.Builder
	for i := range shortest {
		var set []byte
		for _, beginning := range beginnings {
			set = append(set, beginning[i])
		}
		slices.Sort(set)
		text := string(slices.Compact(set))
		switch {
		case len(text) == 1:
			glob.WriteString(store.EscapeGlob(text))
		case strings.ContainsAny(text, `*?[]^-\`): // not every server reads an escape within a set
			glob.WriteByte('?')
		default:
			glob.WriteString("[" + text + "]")
		}
	}
	return glob.String() + "*"
}

// ParseLimit reads what an operator gives of a limit that its keys do not contain: as [store.ParseLimit] does, or a
// count without a period, such as "10". Without an algorithm it is the layout's. The error is a [store.ErrInvalid].
func ParseLimit(text string) (store.Limit, error) {
	if strings.Contains(text, "/") {
		return store.ParseLimit(text)
	}
	amount, options, has := strings.Cut(text, ",")
	whole := amount + "/1s"
	if has {
		whole += "," + options
	}
	limit, err := store.ParseLimit(whole)
	if err != nil {
		return store.Limit{}, store.Invalidf("limit %q is neither COUNT/PERIOD, such as 10/1m, nor a COUNT, such as 10",
			text)
	}
	limit.Period = 0
	return limit, nil
}

// CheckRecord reports why a record cannot be one that a layout of [All] has read. It goes by the names in it, since a
// file that somebody has edited can name any. selected, or zero, is what was selected when the record was read.
func CheckRecord(r *admin.Record, selected store.Pattern) error {
	layout, err := Named(LayoutOf(r.Key))
	if err != nil {
		return err
	}
	name, isSelected, anyKey := layout.Info().Name, selected.IsZero() || selected.Match(r.Key.Subject),
		layout.Info().Prefixes == nil
	var first store.Key
	for i := range r.Members {
		part := &r.Members[i]
		key, ok := layout.Match(part.StoreKey, true)
		switch {
		case !ok:
			return fmt.Errorf("key %q cannot be of %s, as the record says", part.StoreKey, name)
		case i == 0:
			first = key
		case key != first:
			return fmt.Errorf("keys %q and %q are not of one limit of %s", r.Members[0].StoreKey, part.StoreKey, name)
		}
		if _, usual := layout.Match(part.StoreKey, false); !usual {
			anyKey = true
		}
		isSelected = isSelected || selected.Match(part.StoreKey)
	}
	if storeKey, exact := selected.Exact(); exact { // it can name a window's key that is not there
		key, ok := layout.Match(storeKey, true)
		isSelected = isSelected || ok && key == first
	}
	switch {
	case !isNamedLike(r.Key, first):
		return fmt.Errorf("key %q is not of limit %s of %q", r.Members[0].StoreKey, r.Key.Name, r.Key.Subject)
	case anyKey && !isSelected:
		return fmt.Errorf("key %q was not selected by %s", r.Members[0].StoreKey, selected)
	}
	return nil
}

// isNamedLike reports whether the key of an entry can belong to store keys with that result of Match. The value can
// show that a number at the end of a subject is a window's, or the other way round.
func isNamedLike(key, match store.Key) bool {
	number, isBegin := strings.CutPrefix(match.Subject, key.Subject+":")
	return strings.HasPrefix(key.Name, match.Name) &&
		(strings.Contains(key.Subject, match.Subject) || key.Subject != "" && isBegin &&
			strings.Trim(number, "0123456789") == "")
}
