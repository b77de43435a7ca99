package live

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Row is a key that is followed.
type Row struct {
	Reading
	InUse   bool
	Stale   bool      // it was not read at the last look, since its node is away
	Updated time.Time // when it was last read
	UsedAt  time.Time // when it was last in use
	Shares  History   // of the limit that was used
	Units   History   // units a second
	// LimitName is the name of the key's limit, without the attributes that can follow it.
	LimitName string
	// Bare is LimitName without the policy, if it has one.
	Bare string
	// SubjectWidth and LimitWidth are the columns that its names take.
	SubjectWidth, LimitWidth int

	Denial   *Rate           // how it is being denied; nil if it is not
	Override *store.Override // the one that it is under; nil if it is under none

	placed place // where it belonged when the rows were arranged
}

func newRow(reading Reading, now time.Time) *Row {
	r := &Row{Reading: reading, UsedAt: now, InUse: reading.IsUsed(), Units: History{Sums: true}}
	r.LimitName, r.Bare = reading.Key.Name, reading.Key.Name
	if parts, is := policy.ParseKey(reading.Key); is {
		r.LimitName, r.Bare = parts.LimitName(), parts.Limit
	}
	r.SubjectWidth, r.LimitWidth = widthOf(subjecttext.Readable(r.Key.Subject)), widthOf(r.LimitName)
	return r
}

func widthOf(name string) int { return output.Width(output.Escape(output.Printable(name))) }

func (r *Row) update(reading Reading, now time.Time) {
	taken := float32(reading.Taken)
	if r.Updated.IsZero() { // there is nothing to compare with
		taken = float32(math.NaN())
	}
	r.Reading, r.Updated, r.UsedAt, r.InUse = reading, now, now, true
	r.Shares.Add(now, float32(reading.UsedShare()))
	r.Units.Add(now, taken)
}

func (r *Row) empty(now time.Time, f rules) {
	r.Used, r.Remaining, r.RetryAfter, r.ResetAfter, r.TTL, r.Taken = 0, 0, 0, 0, 0, 0
	r.InUse, r.Updated = false, now
	if r.Found() {
		r.Limit, r.Recorded = r.LastLimit(), store.Limit{}
		r.Limit = f.Limit(&r.Entry) // there is no record any more, so no other limit is told
		r.Remaining = r.Limit.Capacity()
		f.Block(&r.Entry)
	}
	r.Shares.Add(now, 0)
	r.Units.Add(now, 0)
}

// IsUnderBlock reports whether a block denies all of the key, asked for or not.
func (r *Row) IsUnderBlock() bool { return IsBlock(r.Override) }

// Found reports whether the key was ever found in use: one that was named need not be.
func (r *Row) Found() bool { return r.CapacityKnown() }

// stillDenied is for how long a key counts as being denied: the time that a denial needs to get into the table, twice.
const stillDenied = 4 * time.Second

// DeniedRate is how often a second the key was denied lately.
func (r *Row) DeniedRate() float64 {
	if r.Denial == nil {
		return 0
	}
	return r.Denial.PerSecond
}

// IsDenied reports whether the key is being denied now.
func (r *Row) IsDenied(now time.Time) bool {
	return r.Denial != nil && now.Sub(r.Denial.last) < stillDenied
}

// place is where a row belongs. It is in whole percent, so that a row that changes little stays where it is.
type place struct {
	denied         float64
	blocked        bool // a block denies all of it
	inUse, atLimit bool
	percent        int
}

func (r *Row) place() place {
	denied := 0.0
	if r.Denial != nil {
		denied = r.Denial.placed
	}
	return place{denied, r.IsUnderBlock(), r.InUse, r.InUse && r.AtLimit(), percent(r.UsedShare())}
}

// Order is one that rows can be in.
type Order int

// The orders, as the keys of the dashboard go through them.
const (
	ByDenied Order = iota // those that nobody is denied by closeness, as the following; blocked ones last in both
	ByCloseness
	ByReset
	BySubject
	ByLimit
	Orders // how many there are
)

func (o Order) compare(a, b *Row) int {
	switch o {
	case ByDenied:
		x, y := &a.placed, &b.placed
		return cmp.Or(trueFirst(!x.blocked, !y.blocked), cmp.Compare(y.denied, x.denied), ByCloseness.compare(a, b))
	case ByCloseness:
		x, y := &a.placed, &b.placed
		return cmp.Or(trueFirst(!x.blocked, !y.blocked), trueFirst(x.atLimit, y.atLimit), trueFirst(x.inUse, y.inUse),
			cmp.Compare(y.percent, x.percent))
	case ByReset:
		return cmp.Compare(b.ResetAfter.Round(time.Second), a.ResetAfter.Round(time.Second))
	case ByLimit:
		return cmp.Compare(a.LimitName, b.LimitName)
	default: // BySubject
		return compareKeys(a.Key, b.Key)
	}
}

// trueFirst compares for an order in which what is true comes first.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func percent(share float64) int { return int(math.Floor(share * 100)) }

// Filter keeps the rows that pass all of its terms; the zero filter keeps all.
type Filter struct {
	Text  string
	terms []term
}

// term is one word of a filter: a glob of a name, a value or network of an attribute, or else a part of a name.
type term struct {
	inverted  bool
	glob      store.Pattern
	attribute string
	literal   string
}

// ParseFilter reads words of a filter: globs or parts of a subject or of a limit's name, "tenant=acme" for an
// attribute, and any of these inverted by a "!" before it.
func ParseFilter(text string) (f Filter, err error) {
	f.Text = strings.TrimSpace(text)
	for word := range strings.FieldsSeq(text) {
		t := term{}
		t.literal, t.inverted = strings.CutPrefix(word, "!")
		switch {
		case t.literal == "": // it is still typed
			continue
		case strings.Index(t.literal, "=") > 0:
			t.attribute, t.literal, _ = strings.Cut(t.literal, "=")
		case strings.ContainsAny(t.literal, `*?[\\`):
			if t.glob, err = store.ParsePattern(t.literal); err != nil {
				return Filter{}, err
			}
		}
		f.terms = append(f.terms, t)
	}
	return f, nil
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

// Network is the pattern of the addresses like a row's that the filter keeps, "" if it is not one of their network.
func (f *Filter) Network(r *Row) string {
	for i := range f.terms {
		for _, a := range attributesOf(r.Key) {
			t, network := &f.terms[i], networkOf(a.Value)
			before, last := strings.CutSuffix(r.Key.Subject, a.Value)
			if last && network != "" && !t.inverted && t.attribute == a.Name && t.literal == network {
				return store.EscapeGlob(before) + network
			}
		}
	}
	return ""
}

func (t *term) matches(r *Row) bool {
	switch {
	case t.attribute != "":
		return slices.ContainsFunc(attributesOf(r.Key), func(a policy.Attribute) bool {
			return a.Name == t.attribute && (a.Value == t.literal || networkOf(a.Value) == t.literal)
		})
	case !t.glob.IsZero():
		return r.anyName(t.glob.Match)
	}
	return r.anyName(func(name string) bool { return strings.Contains(name, t.literal) })
}

// anyName reports whether something is so of the subject, as it is or is shown, or the limit's name of a row.
func (r *Row) anyName(is func(name string) bool) bool {
	return is(r.Key.Subject) || is(r.Key.Name) || is(subjecttext.Readable(r.Key.Subject))
}

// UsedOf is what is used of the limit.
func UsedOf(r *Row) string {
	return output.Thousands(r.Used) + "/" + output.Thousands(r.Limit.Capacity())
}
