package override

import (
	"cmp"
	"fmt"
	"slices"
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
		lines[i] = newOperatorOverride(o)
	}
	return lines
}

// Records implements output.Answer. Fields that the effect does not use are empty cells.
func (a *overrideAnswer) Records() [][]string {
	records := [][]string{{"id", "subject", "name", "attributes", "effect", "limit", "factor", "units", "reason", "by", "created_at",
		"expires_at", "remaining_ms"}}
	for _, o := range a.overrides {
		d := newOperatorOverride(o)
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
			d.By, d.CreatedAt.Format(time.RFC3339), d.ExpiresAt.Format(time.RFC3339), cli.Number(d.RemainingMS)})
	}
	return records
}

// Print implements output.Answer.
func (a *overrideAnswer) Print(p *output.Printer) {
	if a.did != "" {
		for _, o := range a.overrides {
			p.Line("%s  %s", p.Paint(output.Calm, "✓ "+a.did), sentence(o, a.now))
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
	const indent = "    "
	for i, line := range p.TableLines(a.table(false)) {
		fmt.Fprintln(p.Out, line)
		if i > 0 {
			p.Line("%s%s", indent, output.Cut(cli.Ending(a.overrides[i-1], a.now), p.Width-len(indent)))
		}
	}
}

// table returns the table. Without whole, it lacks the end, the user and the reason, which then stand below each row.
func (a *overrideAnswer) table(whole bool) (columns []output.Column, rows [][]output.Cell) {
	columns = []output.Column{{Header: "SUBJECT", Shrinks: 10, Names: true}, {Header: "LIMIT", Shrinks: 6, Drops: 4},
		{Header: "EFFECT", Shrinks: 8}, {Header: "LEFT", Right: true}, {Header: "ID"}}
	if whole {
		columns = slices.Insert(columns, 4, output.Column{Header: "UNTIL"}, output.Column{Header: "BY"}, output.Column{Header: "REASON"})
	}
	styles := map[store.OverrideEffect]output.Style{store.OverrideBlock: output.AtEnd, store.OverrideExempt: output.Near}
	for _, o := range a.overrides {
		row := []output.Cell{{Text: allowance.Whom(o)}, {Text: allowance.Pattern(o.Names)},
			{Text: allowance.Effect(o), Style: styles[o.Effect]}, {Text: output.Duration(o.Left.Truncate(time.Second))}, {Text: o.ID}}
		if whole {
			row = slices.Insert(row, 4, output.Cell{Text: cli.Clock(o.ExpiresAt, a.now)}, output.Cell{Text: o.By},
				output.Cell{Text: o.Reason})
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// sentence describes an override completely, for people.
func sentence(o *store.Override, now time.Time) string {
	return fmt.Sprintf("override %s: %s %s", o.ID, output.Printable(allowance.All(o)), cli.Ending(o, now))
}
