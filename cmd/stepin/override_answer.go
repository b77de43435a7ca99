package stepin

import (
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// overrideAnswer is the answer of the commands that set, revoke or list overrides.
type overrideAnswer struct {
	overrides []*store.Override
	now       time.Time
	did       string               // "set" or "revoked"; empty for a list
	concerned *operation.Concerned // what that changes; nil if unknown
	place     string               // the name of the context in which it was done; empty without one
	ended     []operation.Ended    // of a list with --all
}

// endedOverride returns an override that has ended as JSON.
func endedOverride(e *operation.Ended) allowance.Document {
	d := allowance.NewDocument(&e.Override)
	d.EndedDocument = &allowance.EndedDocument{RevokedFor: e.Why}
	if !e.At.IsZero() {
		at := output.UTC(e.At)
		d.EndedAt = &at
	}
	if e.RevokedBy != "" {
		d.RevokedBy = &e.RevokedBy
	}
	return d
}

// Document implements output.Answer.
func (a *overrideAnswer) Document() any {
	return struct {
		SchemaVersion int                  `json:"schema_version"`
		Overrides     []allowance.Document `json:"overrides"`
		Ended         []allowance.Document `json:"ended,omitempty"` // with --all
		Concerned     *concernedDocument   `json:"concerned,omitempty"`
	}{output.SchemaVersion, a.inForceDocuments(), a.endedDocuments(), newConcernedDocument(a.concerned)}
}

func (a *overrideAnswer) inForceDocuments() []allowance.Document {
	documents := make([]allowance.Document, len(a.overrides))
	for i, o := range a.overrides {
		documents[i] = allowance.NewDocument(o)
	}
	return documents
}

func (a *overrideAnswer) endedDocuments() []allowance.Document {
	documents := make([]allowance.Document, len(a.ended))
	for i := range a.ended {
		documents[i] = endedOverride(&a.ended[i])
	}
	return documents
}

// Lines implements output.Answer.
func (a *overrideAnswer) Lines() []any {
	return output.Lines(slices.Concat(a.inForceDocuments(), a.endedDocuments()))
}

// Records implements output.Answer.
func (a *overrideAnswer) Records() [][]string {
	return output.Rows(slices.Concat(a.inForceDocuments(), a.endedDocuments()))
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
	if len(a.overrides) > 0 {
		a.printInForce(p)
	}
	for i := range a.ended {
		if i == 0 {
			p.Line("%s", p.Paint(output.Faint, "NO LONGER IN FORCE"))
		}
		e := &a.ended[i]
		printWhole(p, &e.Override)
		for _, line := range output.Wrap(endText(e, a.now), restWidth(p)) {
			fmt.Fprintln(p.Out, restIndent+line)
		}
	}
}

// endText is how and when an override ended, and who set it.
func endText(e *operation.Ended, now time.Time) string {
	text := "not in force, and the audit log does not say why"
	switch {
	case e.RevokedBy != "":
		text = "revoked " + cli.Clock(e.At, now) + " by " + output.Printable(e.RevokedBy)
		if e.Why != "" {
			text += ": " + output.Printable(e.Why)
		}
	case !e.At.IsZero():
		text = "ended " + cli.Clock(e.At, now)
	}
	return text + "; set by " + output.Printable(e.By) + ": " + output.Printable(e.Reason)
}

// printInForce prints the table of the overrides in force, or a few lines for each where it would not fit.
func (a *overrideAnswer) printInForce(p *output.Printer) {
	columns, rows := a.table()
	if !p.TooNarrow(columns, rows) {
		p.Table(columns, rows)
		return
	}
	for _, o := range a.overrides { // in a table they would be cut
		printWhole(p, o)
		for _, line := range output.Wrap(cli.Ending(o, a.now), restWidth(p)) {
			fmt.Fprintln(p.Out, restIndent+line)
		}
	}
}

// printWhole prints an override's ID, effect and subjects, on as many lines as needed.
func printWhole(p *output.Printer, o *store.Override) {
	p.Line("%s  %s", o.ID, p.Paint(effectStyle(o), allowance.Effect(o)))
	for _, line := range output.Break(allowance.WhomText(o), restWidth(p)) {
		fmt.Fprintln(p.Out, restIndent+line)
	}
}

// restWidth is the width of the lines behind restIndent; 0 for no bound.
func restWidth(p *output.Printer) int {
	if p.Width == 0 {
		return 0
	}
	return max(p.Width-len(restIndent), 1)
}

// restIndent is before the lines below the row of an override.
const restIndent = "    "

// effectStyle is the style of an override's effect.
func effectStyle(o *store.Override) output.Style {
	if o.Effect == store.OverrideBlock {
		return output.AtEnd
	}
	return output.Plain
}

// table returns the table of the overrides in force.
func (a *overrideAnswer) table() (columns []output.Column, rows [][]output.Cell) {
	columns = []output.Column{{Header: "SUBJECT"}, {Header: "LIMIT"}, {Header: "EFFECT"}, {Header: "LEFT", Right: true},
		{Header: "UNTIL"}, {Header: "BY"}, {Header: "REASON"}, {Header: "ID"}}
	for _, o := range a.overrides {
		rows = append(rows, []output.Cell{{Text: allowance.Whom(o)}, {Text: allowance.Pattern(o.Names)},
			{Text: allowance.Effect(o), Style: effectStyle(o)}, {Text: output.Duration(o.Left.Truncate(time.Second))},
			{Text: cli.Clock(o.ExpiresAt, a.now)}, {Text: o.By}, {Text: o.Reason}, {Text: o.ID}})
	}
	return columns, rows
}

// sentence describes an override completely, for people.
func sentence(o *store.Override, now time.Time) string {
	return fmt.Sprintf("override %s: %s %s", o.ID, output.Printable(allowance.All(o)), cli.Ending(o, now))
}
