package override

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// overrideAnswer is the answer of the commands that set, revoke or list overrides.
type overrideAnswer struct {
	overrides []*store.Override
	now       time.Time
	did       string               // "set" or "revoked"; empty for a list
	concerned *operation.Concerned // what that changes; nil if unknown
	place     string               // the name of the context in which it was done; empty without one
	others    map[string]*others   // of a list, by ID
}

// sort orders the overrides by their end.
func (a *overrideAnswer) sort() {
	slices.SortFunc(a.overrides, func(x, y *store.Override) int {
		return cmp.Or(x.ExpiresAt.Compare(y.ExpiresAt), cmp.Compare(x.ID, y.ID))
	})
}

// operatorOverride is an override in JSON. Fields that its effect does not use are null.
type operatorOverride struct {
	ID          string            `json:"id"`
	Subject     *string           `json:"subject"` // null if it goes by Attributes only
	Name        string            `json:"name"`
	Attributes  policy.Attributes `json:"attributes,omitempty"`
	Effect      string            `json:"effect"`
	Limit       *string           `json:"limit"`
	Factor      *float64          `json:"factor"`
	Units       *int64            `json:"units"`
	Reason      string            `json:"reason"`
	By          string            `json:"by"`
	CreatedAt   time.Time         `json:"created_at"`
	ExpiresAt   time.Time         `json:"expires_at"`
	RemainingMS int64             `json:"remaining_ms"` // until it ends
	// Over and LosesTo are the IDs of overrides that can meet it on one key, in a list.
	Over    []string `json:"over,omitempty"`
	LosesTo []string `json:"loses_to,omitempty"`
}

func newOperatorOverride(o *store.Override) operatorOverride {
	d := operatorOverride{ID: o.ID, Name: allowance.Pattern(o.Names), Attributes: o.Attributes,
		Effect: o.Effect.String(), Reason: o.Reason, By: o.By, CreatedAt: output.UTC(o.CreatedAt), ExpiresAt: output.UTC(o.ExpiresAt),
		RemainingMS: output.Milliseconds(o.Left)}
	if len(o.Attributes) == 0 || !o.Subjects.IsZero() {
		subject := allowance.Pattern(o.Subjects)
		d.Subject = &subject
	}
	switch o.Effect {
	case store.OverrideLimit:
		text := o.Limit.String()
		d.Limit = &text
	case store.OverrideTimes:
		factor := float64(o.Thousandths) / 1000
		d.Factor = &factor
	case store.OverrideAdd:
		d.Units = &o.Units
	case store.OverrideBlock, store.OverrideExempt:
	}
	return d
}

// document returns an override as JSON, with its others in a list.
func (a *overrideAnswer) document(o *store.Override) operatorOverride {
	d := newOperatorOverride(o)
	if others := a.others[o.ID]; others != nil {
		d.Over, d.LosesTo = others.over, others.losesTo
	}
	return d
}

// Document implements output.Answer.
func (a *overrideAnswer) Document() any {
	return struct {
		SchemaVersion int                `json:"schema_version"`
		Overrides     []any              `json:"overrides"`
		Concerned     *concernedDocument `json:"concerned,omitempty"`
	}{output.SchemaVersion, a.Lines(), newConcernedDocument(a.concerned)}
}

// Lines implements output.Answer.
func (a *overrideAnswer) Lines() []any {
	lines := make([]any, len(a.overrides))
	for i, o := range a.overrides {
		lines[i] = a.document(o)
	}
	return lines
}

// Records implements output.Answer. Fields that the effect does not use are empty cells.
func (a *overrideAnswer) Records() [][]string {
	records := [][]string{{"id", "subject", "name", "attributes", "effect", "limit", "factor", "units", "reason", "by", "created_at",
		"expires_at", "remaining_ms", "over", "loses_to"}}
	for _, o := range a.overrides {
		d := a.document(o)
		subject, limit, factor, units := "", "", "", ""
		if d.Subject != nil {
			subject = *d.Subject
		}
		switch o.Effect {
		case store.OverrideLimit:
			limit = *d.Limit
		case store.OverrideTimes:
			factor = allowance.Factor(o.Thousandths)
		case store.OverrideAdd:
			units = cli.Number(o.Units)
		case store.OverrideBlock, store.OverrideExempt:
		}
		records = append(records, []string{d.ID, subject, d.Name, cli.AttributesText(d.Attributes), d.Effect, limit, factor, units,
			d.Reason,
			d.By, d.CreatedAt.Format(time.RFC3339), d.ExpiresAt.Format(time.RFC3339), cli.Number(d.RemainingMS),
			strings.Join(d.Over, " "), strings.Join(d.LosesTo, " ")})
	}
	return records
}

// Print implements output.Answer.
func (a *overrideAnswer) Print(p *output.Printer) {
	if a.did != "" {
		did := "✓ " + a.did
		if a.place != "" {
			did += " in " + output.Printable(a.place)
		}
		for _, o := range a.overrides {
			p.Line("%s  %s", p.Paint(output.Calm, did), sentence(o, a.now))
		}
		return
	}
	if len(a.overrides) == 0 {
		return
	}
	if columns, rows := a.table(true); !p.TooNarrow(columns, rows) {
		p.Table(columns, rows)
		return
	}
	if columns, rows := a.table(false); !p.TooNarrow(columns, rows) {
		for i, line := range p.TableLines(columns, rows) {
			fmt.Fprintln(p.Out, line)
			if i > 0 {
				a.printRest(p, a.overrides[i-1])
			}
		}
		return
	}
	for _, o := range a.overrides { // a subject, limit or effect would be cut in a table
		p.Line("%s  %s", o.ID, p.Paint(effectStyle(o), allowance.Effect(o)))
		whom := output.Printable(allowance.Whom(o))
		if !o.Names.IsZero() {
			whom += ", limit " + output.Printable(allowance.Pattern(o.Names))
		}
		for _, line := range output.Break(whom, p.Width-len(restIndent)) {
			fmt.Fprintln(p.Out, restIndent+line)
		}
		a.printRest(p, o)
	}
}

// restIndent is before the lines below the row of an override.
const restIndent = "    "

// printRest prints what the narrow table has no columns for.
func (a *overrideAnswer) printRest(p *output.Printer, o *store.Override) {
	for _, text := range []string{cli.Ending(o, a.now), a.others[o.ID].text()} {
		if text == "" {
			continue
		}
		for _, line := range output.Wrap(text, p.Width-len(restIndent)) {
			fmt.Fprintln(p.Out, restIndent+line)
		}
	}
}

// effectStyle is the style of an override's effect.
func effectStyle(o *store.Override) output.Style {
	switch o.Effect {
	case store.OverrideBlock:
		return output.AtEnd
	case store.OverrideExempt:
		return output.Near
	default:
		return output.Plain
	}
}

// table returns the table. Without whole, it has only what says which override that is; the rest then stands below
// each row.
func (a *overrideAnswer) table(whole bool) (columns []output.Column, rows [][]output.Cell) {
	columns = []output.Column{{Header: "SUBJECT"}, {Header: "LIMIT"}, {Header: "EFFECT"}}
	if whole {
		columns = append(columns, output.Column{Header: "LEFT", Right: true}, output.Column{Header: "UNTIL"},
			output.Column{Header: "BY"}, output.Column{Header: "REASON"})
	}
	meets := slices.ContainsFunc(a.overrides, func(o *store.Override) bool { return a.others[o.ID].text() != "" })
	if whole && meets {
		columns = append(columns, output.Column{Header: "OTHERS"})
	}
	columns = append(columns, output.Column{Header: "ID"})
	for _, o := range a.overrides {
		row := []output.Cell{{Text: allowance.Whom(o)}, {Text: allowance.Pattern(o.Names)},
			{Text: allowance.Effect(o), Style: effectStyle(o)}}
		if whole {
			row = append(row, output.Cell{Text: output.Duration(o.Left.Truncate(time.Second))},
				output.Cell{Text: cli.Clock(o.ExpiresAt, a.now)}, output.Cell{Text: o.By}, output.Cell{Text: o.Reason})
		}
		if whole && meets {
			row = append(row, output.Cell{Text: cmp.Or(a.others[o.ID].text(), "-")})
		}
		rows = append(rows, append(row, output.Cell{Text: o.ID}))
	}
	return columns, rows
}

// sentence describes an override completely, for people.
func sentence(o *store.Override, now time.Time) string {
	return fmt.Sprintf("override %s: %s %s", o.ID, output.Printable(allowance.All(o)), cli.Ending(o, now))
}
