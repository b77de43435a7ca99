package live

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
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
	// Parts are the fields of a key that a policy made; nil of any other.
	Parts *policy.KeyFields
	// Attributes are those of the key: of a policy's, or of a subject that is written alike.
	Attributes []policy.Attribute
	// SubjectWidth and LimitWidth are the columns that its names take.
	SubjectWidth, LimitWidth int

	Denial   *Rate           // how it is being denied; nil if it is not
	Override *store.Override // the one that it is under; nil if it is under none

	fullAt    time.Time // when nothing was left, at a look
	sinceFull int       // how many looks ago that was

	// listed is where the row was listed when the rows were arranged.
	listed int
	placed place // where it belonged then

	held      place
	heldUntil time.Time
}

// ID names the row.
func (r *Row) ID() ID { return iDOf(&r.Entry) }

// newRow begins to follow a key.
func newRow(reading Reading, now time.Time) *Row {
	r := &Row{Reading: reading, UsedAt: now, InUse: reading.IsUsed(), Units: History{Sums: true}}
	if reading.AtLimit() {
		r.fullAt = now
	}
	if parts, is := policy.ParseKey(reading.Key); is && reading.Layout == "" {
		r.Parts = &parts
	}
	r.Attributes = attributesOf(&reading.Entry)
	r.SubjectWidth, r.LimitWidth = widthOf(r.Key.Subject), widthOf(r.LimitName())
	return r
}

// widthOf is the columns that a name takes as it is shown.
func widthOf(name string) int { return output.Width(output.Escape(output.Printable(name))) }

// update takes in what the key is like at now.
func (r *Row) update(reading Reading, now time.Time) {
	taken := float32(reading.Taken)
	if r.Updated.IsZero() || reading.UsedUnknown { // there is nothing to compare with
		taken = float32(math.NaN())
	}
	r.Reading, r.Updated, r.UsedAt, r.InUse = reading, now, now, true
	if r.sinceFull++; r.AtLimit() {
		r.fullAt, r.sinceFull = now, 0
	}
	if share, known := reading.Share(); known {
		r.Shares.Add(now, float32(share))
	} else {
		r.Shares.Add(now, float32(math.NaN()))
	}
	r.Units.Add(now, taken)
}

// empty makes the key unused as of now.
func (r *Row) empty(now time.Time, f rules) {
	r.Used, r.Remaining, r.RetryAfter, r.ResetAfter, r.TTL, r.Taken = 0, 0, 0, 0, 0, 0
	r.InUse, r.Updated, r.fullAt, r.Defects = false, now, time.Time{}, nil
	if r.UsedUnknown = false; r.CapacityKnown() {
		r.Limit, r.Recorded = r.LastLimit(), store.Limit{}
		r.Limit = f.Limit(&r.Entry) // there is no record any more, so no other limit is told
		r.Remaining = r.Limit.Capacity()
		f.Block(&r.Entry)
	}
	r.Shares.Add(now, 0)
	r.Units.Add(now, 0)
}

// IsAtLimit reports whether the limit is reached now, or was reached lately and is not free again. A busy key has
// nothing left at most looks. At the others it has a unit that the next request takes.
func (r *Row) IsAtLimit() bool {
	if r.AtLimit() {
		return true
	}
	const (
		looks    = 2
		hardlyOf = 20 // a twentieth of all
	)
	recently := r.sinceFull <= looks || r.Updated.Sub(r.fullAt) < Lately*time.Second
	return !r.fullAt.IsZero() && recently && r.RemainingKnown() && r.Remaining <= max(1, r.Limit.Capacity()/hardlyOf)
}

// IsUnderBlock reports whether a block denies all of the key, asked for or not.
func (r *Row) IsUnderBlock() bool { return IsBlock(r.Override) }

// Found reports whether the key was ever found in use: one that was named need not be.
func (r *Row) Found() bool { return r.CapacityKnown() || r.StoreKey != "" }

// IsUnknown reports whether the key was found and what remains of its limit cannot be
// told.
func (r *Row) IsUnknown() bool { return r.Found() && !r.RemainingKnown() }

// Rate is the units a second lately.
func (r *Row) Rate() float64 { return r.Units.Mean(Lately) }

// LimitName is the name of the key's limit, without the attributes that can follow it.
func (r *Row) LimitName() string {
	if r.Parts != nil {
		return r.Parts.LimitName()
	}
	return r.Key.Name
}

// stillDenied is for how long after its last denial a key counts as being denied: the
// time that this needs to get into the table and be read, twice.
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

// PercentDenied is how much of what was asked for was denied lately, if each request was of one unit. Less than all is not
// written as all.
func (r *Row) PercentDenied() string {
	denied, taken := r.DeniedRate(), r.Rate()
	if denied > 0 && taken == 0 {
		return "100%"
	}
	return fmt.Sprintf("%.0f%%", math.Round(min(denied/max(denied+taken, 1e-9), 0.99)*100))
}

// place is where a row belongs by its closeness to the limit. It is in whole percent, so
// that a row that changes little stays where it is.
type place struct {
	denied         float64
	blocked        bool // a block denies all of it
	inUse, atLimit bool
	stuck          bool
	percent        int
}

func (r *Row) place() place {
	if r.Updated.Before(r.heldUntil) {
		return r.held
	}
	denied := 0.0
	if r.Denial != nil {
		denied = r.Denial.placed
	}
	return place{denied, r.IsUnderBlock(), r.InUse, r.InUse && r.IsAtLimit(), r.InUse && r.IsUsed() && r.IsStuck(), percent(r.UsedShare())}
}

// Hold keeps the row in its place for a while, so that the result of an action is seen.
func (r *Row) Hold(until time.Time) { r.held, r.heldUntil = r.place(), until }

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

func (o Order) String() string {
	return [...]string{"denials a second", "closeness to the limit", "time to reset", "subject", "limit"}[o]
}

// compare says which row comes first, 0 if neither does.
func (o Order) compare(a, b *Row) int {
	switch o {
	case ByDenied:
		x, y := &a.placed, &b.placed
		return cmp.Or(trueFirst(!x.blocked, !y.blocked), cmp.Compare(y.denied, x.denied), ByCloseness.compare(a, b))
	case ByCloseness:
		x, y := &a.placed, &b.placed
		return cmp.Or(trueFirst(!x.blocked, !y.blocked), trueFirst(x.atLimit, y.atLimit), trueFirst(x.inUse, y.inUse),
			trueFirst(x.stuck, y.stuck), cmp.Compare(y.percent, x.percent), compareUnknown(a, b))
	case ByReset:
		return cmp.Compare(b.ResetAfter.Round(time.Second), a.ResetAfter.Round(time.Second))
	case ByLimit:
		return cmp.Compare(a.LimitName(), b.LimitName())
	default: // BySubject
		return CompareIDs(a.ID(), b.ID())
	}
}

// compareUnknown compares rows of the same percentage: what is known first, then what is not, by
// what is used.
func compareUnknown(a, b *Row) int {
	if !a.IsUnknown() || !b.IsUnknown() {
		return trueFirst(!a.IsUnknown(), !b.IsUnknown())
	}
	return cmp.Or(trueFirst(a.UsedKnown(), b.UsedKnown()), cmp.Compare(b.Used, a.Used))
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
			return a.Name == t.attribute && (a.Value == t.literal || networkOf(a.Value) == t.literal)
		})
	case t.literal != "":
		return r.anyName(func(name string) bool { return strings.Contains(name, t.literal) })
	}
	return r.anyName(t.glob.Match)
}

// attributes are those of a row, also of one that is not followed.
func (r *Row) attributes() []policy.Attribute {
	if r.Attributes == nil {
		return attributesOf(&r.Entry)
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

// Offender is several denied keys that have an attribute or a network in common, which a list of keys hides: forty
// addresses with one denial a second each are one attack.
type Offender struct {
	By   Grouping
	Name string
	Keys int
	Rate float64 // denials a second by limits
	// Share is how much of all denials by limits these are, 1 being all.
	Share float64
}

// Filter keeps the keys that have it in common.
func (o *Offender) Filter() Filter {
	return Filter{Text: o.By.Attribute + "=" + o.Name, terms: []term{{attribute: o.By.Attribute, literal: o.Name}}}
}

// mostOffenders is how many are shown.
const mostOffenders = 3

// offendersOf finds, for each attribute and its networks, what is denied most, the worst first. What is one key alone
// is a row already, and a block denies as it should. unnamed is the rate of what has no key.
func offendersOf(rows []*Row, unnamed float64) []Offender {
	total := unnamed
	all := map[Grouping]map[string]*Offender{}
	add := func(by Grouping, name string, rate float64) {
		if all[by] == nil {
			all[by] = map[string]*Offender{}
		}
		o := all[by][name]
		if o == nil {
			o = &Offender{By: by, Name: name}
			all[by][name] = o
		}
		o.Keys++
		o.Rate += rate
	}
	for _, r := range rows {
		if r.DeniedRate() == 0 || r.IsUnderBlock() {
			continue
		}
		total += r.Denial.placed
		for i := range r.Attributes {
			a := &r.Attributes[i]
			add(Grouping{Attribute: a.Name}, a.Value, r.Denial.placed)
			if network := networkOf(a.Value); network != "" {
				add(Grouping{Attribute: a.Name, Network: true}, network, r.Denial.placed)
			}
		}
	}
	var worst []Offender
	for _, groups := range all {
		var top *Offender
		for _, o := range groups {
			if o.Keys > 1 && (top == nil || o.before(top) < 0) {
				top = o
			}
		}
		if top != nil {
			top.Share = top.Rate / total
			worst = append(worst, *top)
		}
	}
	slices.SortFunc(worst, func(a, b Offender) int { return a.before(&b) })
	return worst[:min(len(worst), mostOffenders)]
}

func (o *Offender) before(other *Offender) int {
	return cmp.Or(cmp.Compare(other.Rate, o.Rate), cmp.Compare(o.By.String(), other.By.String()), cmp.Compare(o.Name, other.Name))
}

// UsedOf is what is used of the limit, with a question mark for what is not known.
func UsedOf(r *Row) string {
	used, capacity := "?", "?"
	if r.UsedKnown() {
		used = output.Thousands(r.Used)
	}
	if r.CapacityKnown() {
		capacity = output.Thousands(r.Limit.Capacity())
	}
	return used + "/" + capacity
}
