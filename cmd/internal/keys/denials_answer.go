package keys

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// denialsAnswer is who was denied.
type denialsAnswer struct {
	span   time.Duration
	by     string // the attribute that the rows are values of; empty if they are keys
	rows   []denialRow
	found  int   // how many rows there are, shown or not
	total  int64 // denials of all of them
	others int64 // denials of keys without a row of their own
	lost   bool
	now    store.Instant
	// overrides are those in force; nil for none. blocked counts denials of keys that one of them blocks.
	overrides *store.OverrideList
	blocked   int64
	// withoutOverrides is why some overrides could not be read; nil if all were.
	withoutOverrides error
}

// denialRow is a key, or the value of an attribute. Keys without the attribute are in the
// row whose isNone is set.
type denialRow struct {
	key     store.Key
	value   string
	isNone  bool
	denied  int64
	blocked int64 // of those, denials of keys that are blocked
	lastAt  store.Instant
}

// add adds the denials of subjects that match. Blocked keys come last, since their denials are intended. The table does
// not hold why a key was denied, so add takes the blocks that are in force now.
func (a *denialsAnswer) add(d *admin.Denials, subjects store.Pattern) {
	a.others, a.lost, a.now = d.Others, d.Lost, d.Now
	if exact, is := subjects.Exact(); is { // a long one is shortened in the table
		shortened := admin.Denied{Key: store.Key{Subject: exact}}
		shortened.Shorten()
		subjects, _ = store.ExactPattern(shortened.Key.Subject)
	}
	places := map[denialRow]int{}
	for _, denied := range d.Rows {
		if !subjects.Match(denied.Key.Subject) {
			continue
		}
		row := denialRow{key: denied.Key}
		if a.by != "" {
			value, has := attributeOf(denied.Key, a.by)
			row = denialRow{value: value, isNone: !has}
		}
		place, known := places[row]
		if !known {
			place = len(a.rows)
			places[row] = place
			a.rows = append(a.rows, row)
		}
		a.rows[place].denied += denied.Count
		a.rows[place].lastAt = max(a.rows[place].lastAt, denied.LastAt)
		a.total += denied.Count
		if a.overrides != nil {
			if o := a.overrides.For(denied.Key); o != nil && o.Effect == store.OverrideBlock {
				a.rows[place].blocked += denied.Count
				a.blocked += denied.Count
			}
		}
	}
	slices.SortStableFunc(a.rows, func(x, y denialRow) int {
		return cmp.Or(cmp.Compare(y.denied-y.blocked, x.denied-x.blocked), cmp.Compare(y.denied, x.denied))
	})
	a.found = len(a.rows)
}

// attributeOf returns the value of an attribute that a key was made of.
func attributeOf(key store.Key, name string) (value string, has bool) {
	var attributes []policy.Attribute
	if parts, isPolicys := policy.ParseKey(key); isPolicys {
		attributes = parts.Attributes
	} else {
		attributes, _ = policy.ParseSubject(key.Subject)
	}
	for _, attribute := range attributes {
		if attribute.Name == name {
			return attribute.Value, true
		}
	}
	return "", false
}

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
	if a.by != "" {
		what = "value"
	}
	text := a.count(a.total) + " denied in " + output.Duration(a.span) + ", " + output.Plural(a.found, what)
	if a.blocked > 0 {
		text += "; " + a.count(a.blocked) + " of keys that are blocked now"
	}
	return text
}

type denialDocument struct {
	Key    string    `json:"key"`
	Name   string    `json:"name"`
	Denied int64     `json:"denied"`
	LastAt time.Time `json:"last_at"`
	// Blocked is how many of Denied are of keys that a block denies now.
	Blocked int64 `json:"blocked"`
}

type denialByDocument struct {
	By      string    `json:"by"`
	Value   *string   `json:"value"`
	Denied  int64     `json:"denied"`
	LastAt  time.Time `json:"last_at"`
	Blocked int64     `json:"blocked"`
}

func (a *denialsAnswer) line(row *denialRow) any {
	at := row.lastAt.Time().Truncate(time.Millisecond)
	if a.by == "" {
		return denialDocument{row.key.Subject, row.key.Name, row.denied, at, row.blocked}
	}
	document := denialByDocument{By: a.by, Denied: row.denied, LastAt: at, Blocked: row.blocked}
	if !row.isNone {
		document.Value = &row.value
	}
	return document
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
	records := [][]string{{"key", "name", "denied", "last_at", "blocked"}}
	if a.by != "" {
		records[0] = []string{"by", "value", "denied", "last_at", "blocked"}
	}
	for _, row := range a.rows {
		record := []string{row.key.Subject, row.key.Name}
		if a.by != "" {
			record = []string{a.by, row.value}
		}
		records = append(records, append(record, cli.Number(row.denied), row.lastAt.Time().Format(time.RFC3339), cli.Number(row.blocked)))
	}
	return records
}

// Print implements output.Answer.
func (a *denialsAnswer) Print(p *output.Printer) {
	if len(a.rows) == 0 {
		return
	}
	columns := []output.Column{{Header: "SUBJECT", Shrinks: 8, Names: true}, {Header: "NAME", Shrinks: 8, Names: true},
		{Header: "DENIED", Right: true}, {Header: "LAST", Right: true}}
	if a.blocked > 0 {
		columns = slices.Insert(columns, 3, output.Column{Header: "BLOCKED", Right: true})
	}
	if a.by != "" {
		columns = slices.Delete(columns, 1, 2)
		columns[0].Header = strings.ToUpper(a.by)
	}
	var rows [][]output.Cell
	for i := range a.rows {
		row := &a.rows[i]
		ago := max(0, time.Duration(a.now-row.lastAt)*time.Microsecond).Truncate(time.Second)
		rest := []output.Cell{{Text: a.count(row.denied), Style: output.AtEnd}}
		if row.blocked == row.denied {
			rest[0].Style = output.Near
		}
		if a.blocked > 0 {
			rest = append(rest, output.Cell{Text: a.count(row.blocked)})
		}
		rest = append(rest, output.Cell{Text: output.Duration(ago) + " ago"})
		switch {
		case a.by == "":
			rows = append(rows, append([]output.Cell{{Text: row.key.Subject}, {Text: row.key.Name}}, rest...))
		case row.isNone:
			rows = append(rows, append([]output.Cell{{Text: "(none)", Style: output.Faint}}, rest...))
		default:
			rows = append(rows, append([]output.Cell{{Text: row.value}}, rest...))
		}
	}
	p.Table(columns, rows)
	p.Line("%s", a.summary())
}
