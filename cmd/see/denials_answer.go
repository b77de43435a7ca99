package see

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/began"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// denialsAnswer is who was denied.
type denialsAnswer struct {
	span    time.Duration
	by      denialGrouping
	sort    string
	over    int64 // what a limit denied no more often is left out
	rows    []denialRow
	found   int            // how many rows there are, shown or not
	keys    int            // of those, how many limits denied
	total   int64          // denials by limits of all of them
	blocked int64          // by blocks
	shadows int64          // what shadow limits would have denied, which is not in total
	others  int64          // denials of keys without a row of their own
	wider   []admin.Denied // blocks of more subjects than were asked for
	lost    bool
	now     store.Instant
}

// denialRow is a key, a block, or all of a group. What belongs to no group is in the row whose isNone is set.
type denialRow struct {
	admin.Denied               // Count leaves out what is Blocked
	limits       []store.Limit // that denied
	group        string
	isNone       bool
	shadow       bool // it was not denied, and would have been
}

// The orders of --sort: what was denied most, what began last, and the names.
const (
	byDenied = "denied"
	bySince  = "since"
	byKey    = "key"
)

// add adds the denials of subjects that match. Blocks come last, since their denials are intended.
func (a *denialsAnswer) add(d *admin.Denials, subjects store.Pattern) {
	a.others, a.lost, a.now = d.Others, d.Lost, d.Now
	if exact, is := subjects.Exact(); is { // a long one is shortened in the table
		shortened := admin.Denied{Key: store.Key{Subject: exact}}
		shortened.Shorten()
		subjects, _ = store.ExactPattern(shortened.Key.Subject)
	}
	type group struct {
		key    store.Key
		value  string
		isNone bool
		shadow bool
	}
	places := map[group]int{}
	for i, denied := range slices.Concat(d.Rows, d.Blocks, d.Shadows) {
		shadow := i >= len(d.Rows)+len(d.Blocks)
		if !subjects.Match(denied.Key.Subject) {
			continue
		}
		of := group{key: denied.Key, shadow: shadow}
		if a.by.name != "" {
			if i >= len(d.Rows) && !shadow {
				denied.Key.Subject = networkOfGlob(denied.Key.Subject)
			}
			value, has := a.by.of(denied.Key)
			of = group{value: value, isNone: !has, shadow: shadow}
		}
		place, known := places[of]
		if !known {
			place = len(a.rows)
			places[of] = place
			a.rows = append(a.rows, denialRow{Denied: admin.Denied{Key: of.key}, group: of.value, isNone: of.isNone,
				shadow: shadow})
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
	for i := range d.Blocks {
		block := &d.Blocks[i]
		pattern, err := store.ParsePattern(block.Key.Subject)
		if err == nil && !subjects.Match(block.Key.Subject) && pattern.Overlaps(subjects) {
			a.wider = append(a.wider, *block)
		}
	}
	slices.SortStableFunc(a.rows, func(x, y denialRow) int { // shadows last
		switch {
		case x.shadow != y.shadow:
			return map[bool]int{true: 1, false: -1}[x.shadow]
		case a.sort == bySince:
			return cmp.Compare(y.Since, x.Since)
		case a.sort == byKey:
			return cmp.Or(cmp.Compare(x.group, y.group), cmp.Compare(x.Key.Subject, y.Key.Subject), cmp.Compare(x.Key.Name, y.Key.Name))
		}
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(y.Blocked, x.Blocked))
	})
	a.found = len(a.rows)
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

// denialGrouping is what --by groups keys by; the zero value does not.
type denialGrouping struct {
	name       string // as given: an attribute, [ofLimits], or network with its bits
	ipv4, ipv6 int    // the bits of networks; 0 for an attribute
}

// ofLimits groups by the names of limits.
const ofLimits = "limit"

// parseGrouping reads --by.
func parseGrouping(text string) (denialGrouping, error) {
	name, bits, hasBits := strings.Cut(text, ":")
	if name != "network" {
		if err := policy.ValidateName("attribute", text); err != nil {
			return denialGrouping{}, cli.Usagef("--by: %s", err)
		}
		return denialGrouping{name: text}, nil
	}
	by := denialGrouping{name: text, ipv4: 24, ipv6: 64}
	if !hasBits {
		return by, nil
	}
	ipv4, ipv6, hasBoth := strings.Cut(bits, ",")
	var err error
	if by.ipv4, err = strconv.Atoi(ipv4); err == nil && hasBoth {
		by.ipv6, err = strconv.Atoi(ipv6)
	}
	if err != nil || by.ipv4 < 1 || by.ipv4 > 32 || by.ipv6 < 1 || by.ipv6 > 128 {
		return by, cli.Usagef("--by %s: the bits of a network are 1 to 32 for IPv4 and 1 to 128 for IPv6; "+
			"write network:24 or network:24,64", text)
	}
	return by, nil
}

// of returns the group of a key. It need not have one.
func (by denialGrouping) of(key store.Key) (value string, has bool) {
	switch {
	case by.name == ofLimits:
		return key.Name, true
	case by.ipv4 == 0:
		return operation.AttributeOf(key, by.name)
	}
	network, has := store.NetworkOf(key.Subject, by.ipv4, by.ipv6)
	if !has {
		return "", false
	}
	return network.String(), true
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

// missing says what no key has that was denied.
func (by denialGrouping) missing() string {
	if by.ipv4 > 0 {
		return "an address at the end of its subject"
	}
	return "an attribute " + output.Printable(by.name)
}

// hasDenials reports whether a limit denied, and not only a block.
func (a *denialsAnswer) hasDenials() bool { return a.total > 0 }

// cut leaves the first rows.
func (a *denialsAnswer) cut(rows int) { a.rows = a.rows[:min(rows, len(a.rows))] }

// isExact reports whether the counts are exact; else they are lower bounds.
func (a *denialsAnswer) isExact() bool { return a.others == 0 && !a.lost }

// count writes a count, marked if it may be more.
func (a *denialsAnswer) count(n int64) string {
	if a.isExact() {
		return output.Thousands(n)
	}
	return "≥" + output.Thousands(n)
}

// summary is the answer in a few words.
func (a *denialsAnswer) summary() string {
	what := "key"
	if a.by.name != "" {
		what = "group"
	}
	text := a.count(a.total) + " denied in " + output.Duration(a.span)
	if a.keys > 0 {
		text += ", " + output.Plural(a.keys, what)
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

func (a *denialsAnswer) line(row *denialRow) any {
	facts := denialFacts{Denied: row.Count, LastAt: row.LastAt.Time().Truncate(time.Millisecond), Blocked: row.Blocked,
		Since: row.Since.Time().Truncate(time.Millisecond), Shadow: row.shadow}
	if limit := row.limit(); limit != "" {
		facts.Limit = &limit
	}
	if row.Override != "" {
		facts.Override = &row.Override
	}
	if share, known := row.Share(); known && !row.shadow {
		share = math.Floor(share*1000) / 1000
		facts.Share = &share
	}
	if a.by.name == "" {
		return denialDocument{row.Key.Subject, row.Key.Name, facts}
	}
	document := denialByDocument{By: a.by.name, denialFacts: facts}
	if !row.isNone {
		document.Value = &row.group
	}
	return document
}

// limit is the limit that denied, if it is one and known.
func (r *denialRow) limit() string {
	if len(r.limits) != 1 {
		return ""
	}
	return r.limits[0].String()
}

// Document implements output.Answer.
func (a *denialsAnswer) Document() any {
	return struct {
		SchemaVersion int   `json:"schema_version"`
		LastMS        int64 `json:"last_ms"`
		// Exact: no count is higher in truth. Others counts denials of keys without a row of their own.
		Exact   bool  `json:"exact"`
		Denied  int64 `json:"denied"`
		Others  int64 `json:"others"`
		Blocked int64 `json:"blocked"`
		Denials []any `json:"denials"`
	}{output.SchemaVersion, a.span.Milliseconds(), a.isExact(), a.total, a.others, a.blocked, a.Lines()}
}

// Lines implements output.Answer.
func (a *denialsAnswer) Lines() []any {
	lines := make([]any, len(a.rows))
	for i := range a.rows {
		lines[i] = a.line(&a.rows[i])
	}
	return lines
}

// Records implements output.Answer.
func (a *denialsAnswer) Records() [][]string {
	first := []string{"key", "name"}
	if a.by.name != "" {
		first = []string{"by", "value"}
	}
	records := [][]string{append(first, "denied", "last_at", "blocked", "since", "limit", "override", "share", "shadow")}
	for i := range a.rows {
		row := &a.rows[i]
		record := []string{row.Key.Subject, row.Key.Name}
		if a.by.name != "" {
			record = []string{a.by.name, row.group}
		}
		records = append(records, append(record, cli.Number(row.Count), row.LastAt.Time().Format(time.RFC3339),
			cli.Number(row.Blocked), row.Since.Time().Format(time.RFC3339), row.limit(), row.Override, row.share(),
			strconv.FormatBool(row.shadow)))
	}
	return records
}

// share is the denied share in percent, rounded down, or empty.
func (r *denialRow) share() string {
	share, known := r.Share()
	if !known || r.shadow { // what a shadow lets through is not counted
		return ""
	}
	return strconv.Itoa(int(share*100)) + "%"
}

// Print implements output.Answer.
func (a *denialsAnswer) Print(p *output.Printer) {
	if len(a.rows) == 0 {
		return
	}
	columns := []output.Column{{Header: "SUBJECT", Shrinks: 8, Names: true}, {Header: "NAME", Shrinks: 8, Names: true},
		{Header: "LIMIT", Drops: 2}, {Header: "DENIED", Right: true}, {Header: "BLOCKED", Right: true},
		{Header: "SHARE", Right: true, Drops: 1}, {Header: "SINCE", Right: true}, {Header: "LAST", Right: true}}
	if a.by.name != "" {
		columns[0].Header = strings.ToUpper(strings.SplitN(a.by.name, ":", 2)[0])
	}
	if a.by.name == ofLimits {
		columns[0].Header = "NAME" // beside the column LIMIT
	}
	var rows [][]output.Cell
	for i := range a.rows {
		row := &a.rows[i]
		first := output.Cell{Text: row.Key.Subject}
		switch {
		case row.isNone:
			first = output.Cell{Text: "(none)", Style: output.Faint}
		case a.by.name != "":
			first.Text = row.group
		}
		limit := row.limit()
		if n := len(row.limits); n > 1 {
			limit = output.Plural(n, "limit")
		}
		name := row.Key.Name
		denied := output.Cell{Text: a.count(row.Count), Style: output.AtEnd}
		if row.Count == 0 {
			denied.Style = output.Plain
		}
		var blocked output.Cell
		if row.Blocked > 0 {
			blocked = output.Cell{Text: a.count(row.Blocked), Style: output.AtEnd}
		}
		if row.shadow {
			denied.Style = output.Faint
			name += " (shadow)"
			if a.by.name != "" {
				first.Text += " (shadow)"
			}
		}
		since := output.Cell{Text: ago(row.Since, a.now)}
		if row.Since.Until(a.now) < began.Window {
			since = output.Cell{Text: "new " + since.Text, Style: output.Bold}
		}
		rows = append(rows, []output.Cell{first, {Text: name}, {Text: limit}, denied, blocked,
			{Text: row.share()}, since, {Text: ago(row.LastAt, a.now)}})
	}
	if !slices.ContainsFunc(a.rows, func(row denialRow) bool { return row.Compared > 0 }) {
		columns, rows = withoutColumn(columns, rows, 5)
	}
	if !slices.ContainsFunc(a.rows, func(row denialRow) bool { return row.Blocked > 0 }) {
		columns, rows = withoutColumn(columns, rows, 4)
	}
	if a.by.name != "" {
		columns, rows = withoutColumn(columns, rows, 1)
	}
	p.Table(columns, rows)
	p.Line("%s", a.summary())
}

// ago is how long before now an instant was, in words.
func ago(at, now store.Instant) string {
	return output.Duration(at.Until(now).Truncate(time.Second)) + " ago"
}

func withoutColumn(columns []output.Column, rows [][]output.Cell, i int) ([]output.Column, [][]output.Cell) {
	for r := range rows {
		rows[r] = slices.Delete(rows[r], i, i+1)
	}
	return slices.Delete(columns, i, i+1), rows
}
