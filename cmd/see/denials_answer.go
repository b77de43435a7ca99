package see

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/began"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// denialsAnswer is who was denied.
type denialsAnswer struct {
	span    time.Duration
	by      string // what --by groups by: an attribute, [ofLimits] or [ofNetworks]; empty for none
	sort    string
	over    int64 // what a limit denied no more often is left out
	rows    []denialRow
	found   int   // how many rows there are, shown or not
	keys    int   // of those, how many limits denied
	total   int64 // denials by limits of all of them
	blocked int64 // by blocks
	shadows int64 // what shadow limits would have denied, which is not in total
	others  int64 // denials of keys without a row of their own
	lost    bool
	now     store.Instant
}

// denialRow is a key, a block, or all of a group. What belongs to no group is in the row whose isNone is set.
type denialRow struct {
	admin.Denied               // Count leaves out what is Blocked
	limits       []store.Limit // that denied
	denialGroup
}

// denialGroup is what rows are of: a key, or a group of keys.
type denialGroup struct {
	key    store.Key
	value  string
	isNone bool
	shadow bool // it was not denied, and would have been
}

// The orders of --sort: what was denied most, what began last, and the names.
const (
	byDenied = "denied"
	bySince  = "since"
	byKey    = "key"
)

// What --by groups by, besides attributes: the names of limits, and networks of addresses.
const (
	ofLimits   = "limit"
	ofNetworks = "network"
)

// add adds the denials of subjects that match. Blocks come last, since their denials are intended.
func (a *denialsAnswer) add(d *admin.Denials, subjects store.Pattern) {
	a.others, a.lost, a.now = d.Others, d.Lost, d.Now
	exact, isExact := subjects.Exact()
	if isExact { // a long one is shortened in the table
		subjects, _ = store.ExactPattern(shortenedKey(store.Key{Subject: exact}).Subject)
	}
	places := map[denialGroup]int{}
	for i, denied := range slices.Concat(d.Rows, d.Blocks, d.Shadows) {
		of := a.group(denied.Key)
		of.shadow = i >= len(d.Rows)+len(d.Blocks)
		isBlock := i >= len(d.Rows) && !of.shadow
		if !subjects.Match(denied.Key.Subject) && !(isBlock && isExact && blocks(&denied, exact)) {
			continue
		}
		place, known := places[of]
		if !known {
			place = len(a.rows)
			places[of] = place
			a.rows = append(a.rows, denialRow{denialGroup: of})
		}
		a.rows[place].add(&denied)
	}
	a.rows = slices.DeleteFunc(a.rows, func(row denialRow) bool { return a.over > 0 && row.Count <= a.over })
	for i := range a.rows {
		switch row := &a.rows[i]; {
		case row.shadow:
			a.shadows += row.Count
		case row.Count > 0:
			a.total, a.keys = a.total+row.Count, a.keys+1
			fallthrough
		default:
			a.blocked += row.Blocked
		}
	}
	slices.SortStableFunc(a.rows, func(x, y denialRow) int { // shadows last
		switch {
		case x.shadow != y.shadow:
			return map[bool]int{true: 1, false: -1}[x.shadow]
		case a.sort == bySince:
			return cmp.Compare(y.Since, x.Since)
		case a.sort == byKey:
			return cmp.Or(cmp.Compare(x.value, y.value), cmp.Compare(x.key.Subject, y.key.Subject),
				cmp.Compare(x.key.Name, y.key.Name))
		}
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(y.Blocked, x.Blocked))
	})
	a.found = len(a.rows)
}

// blocks reports whether a block is of a subject, perhaps among others.
func blocks(block *admin.Denied, subject string) bool {
	pattern, err := store.ParsePattern(block.Key.Subject)
	return err == nil && pattern.Match(subject)
}

// group returns what the row of a key is of.
func (a *denialsAnswer) group(key store.Key) (of denialGroup) {
	has := true
	switch a.by {
	case "":
		return denialGroup{key: key}
	case ofLimits:
		of.value = key.Name
	case ofNetworks:
		network, is := store.NetworkOf(networkOfGlob(key.Subject), 24, 64)
		if has = is; is {
			of.value = network.String()
		}
	default:
		of.value, has = operation.AttributeOf(key, a.by)
	}
	of.isNone = !has
	return of
}

// add adds a key to the row.
func (r *denialRow) add(d *admin.Denied) {
	if r.LastAt == 0 || d.Since < r.Since {
		r.Since = d.Since
	}
	if d.Limit != (store.Limit{}) && !slices.Contains(r.limits, d.Limit) {
		r.limits = append(r.limits, d.Limit)
	}
	r.Count += d.Count - d.Blocked
	r.Blocked += d.Blocked
	r.Compared += d.Compared
	r.Allowed += d.Allowed
	r.LastAt = max(r.LastAt, d.LastAt)
	r.Override = cmp.Or(r.Override, d.Override)
}

// networkOfGlob writes the pattern of a block that ends like 198.51.100.* as the network that it is; others stay.
func networkOfGlob(pattern string) string {
	begin := strings.LastIndexByte(pattern, ':') + 1
	octets, isGlob := strings.CutSuffix(pattern[begin:], ".*")
	if n := strings.Count(octets, ".") + 1; isGlob && n < 4 {
		return pattern[:begin] + octets + strings.Repeat(".0", 4-n) + "/" + strconv.Itoa(8*n)
	}
	return pattern
}

// count writes a count, marked if it is a lower bound.
func (a *denialsAnswer) count(n int64) string {
	if a.others == 0 && !a.lost {
		return output.Thousands(n)
	}
	return "≥" + output.Thousands(n)
}

// summary is the answer in a few words.
func (a *denialsAnswer) summary() string {
	text := a.count(a.total) + " denied in " + output.Duration(a.span)
	if a.keys > 0 {
		text += ", " + output.Plural(a.keys, map[bool]string{true: "key", false: "group"}[a.by == ""])
	}
	if a.blocked > 0 {
		text += "; " + a.count(a.blocked) + " blocked"
	}
	if a.shadows > 0 {
		text += "; shadow limits would have denied " + a.count(a.shadows)
	}
	return text
}

// denialFacts are what a document says of a key or a group.
type denialFacts struct {
	// Denied is what limits denied, and Blocked what an override did.
	Denied  int64     `json:"denied"`
	LastAt  time.Time `json:"last_at"`
	Blocked int64     `json:"blocked"`
	Since   time.Time `json:"since"`
	// Limit is the one that denied last; nil if it is not known, or of a group in which several did.
	Limit *string `json:"limit"`
	// Override is the ID of the last block that denied.
	Override *string `json:"override"`
	// Share is the denied share of the takes after the first denial, in the processes that denied; nil if no process
	// denied twice.
	Share *float64 `json:"share"`
	// Shadow: the limit only would have denied. The sums leave that out.
	Shadow bool `json:"shadow,omitempty"`
}

type denialDocument struct {
	Key  string `json:"key"`  // of a block the pattern of its subjects
	Name string `json:"name"` // of a block the pattern of its limits
	denialFacts
}

type denialByDocument struct {
	By    string  `json:"by"`
	Value *string `json:"value"`
	denialFacts
}

func (r *denialRow) facts() denialFacts {
	facts := denialFacts{Denied: r.Count, LastAt: output.UTC(r.LastAt.Time()), Blocked: r.Blocked,
		Since: output.UTC(r.Since.Time()), Shadow: r.shadow}
	if len(r.limits) == 1 {
		limit := r.limits[0].String()
		facts.Limit = &limit
	}
	if r.Override != "" {
		facts.Override = &r.Override
	}
	if share, known := r.Share(); known && !r.shadow { // what a shadow lets through is not counted
		share = math.Floor(share*1000) / 1000
		facts.Share = &share
	}
	return facts
}

// document is the row of a key.
func (r *denialRow) document() denialDocument {
	return denialDocument{r.key.Subject, r.key.Name, r.facts()}
}

func (a *denialsAnswer) ofKeys() []denialDocument {
	all := make([]denialDocument, len(a.rows))
	for i := range a.rows {
		all[i] = a.rows[i].document()
	}
	return all
}

func (a *denialsAnswer) ofGroups() []denialByDocument {
	all := make([]denialByDocument, len(a.rows))
	for i := range a.rows {
		row := &a.rows[i]
		if all[i] = (denialByDocument{By: a.by, denialFacts: row.facts()}); !row.isNone {
			all[i].Value = &row.value
		}
	}
	return all
}

// denialSums are denials in JSON, and what they come to.
type denialSums struct {
	LastMS int64 `json:"last_ms"`
	// Exact: no count is higher in truth. Others counts denials of keys without a row of their own.
	Exact   bool  `json:"exact"`
	Denied  int64 `json:"denied"`
	Others  int64 `json:"others"`
	Blocked int64 `json:"blocked"`
	Denials []any `json:"denials"`
}

func (a *denialsAnswer) sums(denials []any) denialSums {
	return denialSums{a.span.Milliseconds(), a.others == 0 && !a.lost, a.total, a.others, a.blocked, denials}
}

// Document implements output.Answer.
func (a *denialsAnswer) Document() any {
	return struct {
		SchemaVersion int `json:"schema_version"`
		denialSums
	}{output.SchemaVersion, a.sums(a.Lines())}
}

// Lines implements output.Answer.
func (a *denialsAnswer) Lines() []any {
	if a.by == "" {
		return output.Lines(a.ofKeys())
	}
	return output.Lines(a.ofGroups())
}

// Records implements output.Answer.
func (a *denialsAnswer) Records() [][]string {
	if a.by == "" {
		return output.Rows(a.ofKeys())
	}
	return output.Rows(a.ofGroups())
}

// Print implements output.Answer.
func (a *denialsAnswer) Print(p *output.Printer) {
	if len(a.rows) == 0 {
		return
	}
	first := cmp.Or(a.by, "subject")
	if a.by == ofLimits {
		first = "name" // beside the column LIMIT
	}
	columns := []output.Column{{Header: strings.ToUpper(first), Shrinks: 8, Names: true},
		{Header: "NAME", Shrinks: 8, Names: true, Optional: true},
		{Header: "LIMIT", Drops: 2}, {Header: "DENIED", Right: true}, {Header: "BLOCKED", Right: true, Optional: true},
		{Header: "SHARE", Right: true, Drops: 1, Optional: true}, {Header: "SINCE", Right: true},
		{Header: "LAST", Right: true}}
	var rows [][]output.Cell
	for i := range a.rows {
		rows = append(rows, a.cells(&a.rows[i]))
	}
	p.Table(columns, rows)
	p.Line("%s", a.summary())
}

func (a *denialsAnswer) cells(row *denialRow) []output.Cell {
	facts, shadow := row.facts(), ""
	denied, first := output.Cell{Text: a.count(row.Count)}, output.Cell{Text: cmp.Or(row.value, row.key.Subject)}
	switch {
	case row.shadow:
		denied.Style, shadow = output.Faint, " (shadow)"
	case row.Count > 0:
		denied.Style = output.AtEnd
	}
	switch {
	case row.isNone:
		first = output.Cell{Text: "(none)", Style: output.Faint}
	case a.by != "":
		first.Text += shadow
	}
	name := ""
	if a.by == "" {
		name = row.key.Name + shadow
	}
	var limit, share string
	switch {
	case facts.Limit != nil:
		limit = *facts.Limit
	case len(row.limits) > 1:
		limit = output.Plural(len(row.limits), "limit")
	}
	if facts.Share != nil {
		share = strconv.Itoa(int(*facts.Share*100)) + "%"
	}
	var blocked output.Cell
	if row.Blocked > 0 {
		blocked = output.Cell{Text: a.count(row.Blocked), Style: output.AtEnd}
	}
	since := output.Cell{Text: ago(row.Since, a.now)}
	if row.Since.Until(a.now) < began.Window {
		since = output.Cell{Text: "new " + since.Text, Style: output.Bold}
	}
	return []output.Cell{first, {Text: name}, {Text: limit}, denied, blocked, {Text: share}, since,
		{Text: ago(row.LastAt, a.now)}}
}

// ago is how long before now an instant was, in words.
func ago(at, now store.Instant) string {
	return output.Duration(at.Until(now).Truncate(time.Second)) + " ago"
}
