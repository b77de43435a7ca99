package followed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/dash/source"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Filter keeps the rows that pass all of its terms; the zero filter keeps all.
type Filter struct {
	Text  string
	terms []term
}

// term is one word of a filter.
type term struct {
	inverted bool
	// glob is of the subject or the limit's name; if it is zero, literal is a part of
	// one, unless sign says that share is compared, or literal is the value or the network of attribute.
	glob      store.Pattern
	attribute string
	literal   string
	sign      byte // '<' or '>'
	share     float64
}

// ParseFilter reads words of a filter: globs or parts of a subject or of a limit's
// name, ">80%" and "<20%" for what is used, "tenant=acme" for an attribute, and any of
// these inverted by a "!" before it.
func ParseFilter(text string) (Filter, error) {
	f := Filter{Text: strings.TrimSpace(text)}
	for word := range strings.FieldsSeq(text) {
		t, err := parseTerm(word)
		if err != nil {
			return Filter{}, err
		}
		if t != nil {
			f.terms = append(f.terms, *t)
		}
	}
	return f, nil
}

// parseTerm returns nil for a term that is still empty.
func parseTerm(word string) (t *term, err error) {
	rest, inverted := strings.CutPrefix(word, "!")
	t = &term{inverted: inverted}
	switch {
	case rest == "":
		return nil, nil
	case rest[0] == '<' || rest[0] == '>':
		t.sign = rest[0]
		number, isPercent := strings.CutSuffix(rest[1:], "%")
		if number == "" {
			return nil, nil
		}
		share, ok := store.ParseDecimal(number)
		if !ok {
			return nil, fmt.Errorf("%q is not a share; write it like >80%% or <20%%", word)
		}
		if t.share, _ = share.Float64(); isPercent || t.share > 1 {
			t.share /= 100
		}
	case strings.Index(rest, "=") > 0:
		t.attribute, t.literal, _ = strings.Cut(rest, "=")
	case strings.ContainsAny(rest, `*?[\`):
		if t.glob, err = store.ParsePattern(rest); err != nil {
			return nil, err
		}
	default:
		t.literal = rest
	}
	return t, nil
}

// Matches reports whether the filter keeps a row.
func (f *Filter) Matches(r *Row) bool {
	for i := range f.terms {
		if t := &f.terms[i]; t.matches(r) == t.inverted {
			return false
		}
	}
	return true
}

// MatchesReading reports whether the filter keeps a key that is in use.
func (f *Filter) MatchesReading(reading *source.Reading) bool {
	return f.Matches(&Row{Reading: *reading, InUse: true})
}

func (t *term) matches(r *Row) bool {
	switch {
	case t.sign != 0 && r.InUse && r.IsUnknown():
		return false // it may be any share
	case t.sign == '>':
		return r.UsedShare() > t.share
	case t.sign == '<':
		return r.UsedShare() < t.share
	case t.attribute != "":
		return slices.ContainsFunc(r.attributes(), func(a policy.Attribute) bool {
			return a.Name == t.attribute && (a.Value == t.literal || source.NetworkOf(a.Value) == t.literal)
		})
	case t.literal != "":
		return r.anyName(func(name string) bool { return strings.Contains(name, t.literal) })
	}
	return r.anyName(t.glob.Match)
}

// attributes are those of a row, also of one that is not followed.
func (r *Row) attributes() []policy.Attribute {
	if r.Attributes == nil {
		return source.AttributesOf(&r.Entry)
	}
	return r.Attributes
}

// anyName reports whether something is so of any name of a row: of its subject, its limit, and
// for another limiter's also of its store key, and of the kinds of its defects.
func (r *Row) anyName(is func(name string) bool) bool {
	if is(r.Key.Subject) || is(r.Key.Name) {
		return true
	}
	return r.Layout != "" && (is(r.StoreKey) || slices.ContainsFunc(r.Defects, func(d admin.Defect) bool { return is(string(d.Kind)) }))
}
