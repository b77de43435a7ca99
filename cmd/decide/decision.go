package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// decisionAnswer is the answer of check, consume, refund and settle.
type decisionAnswer struct {
	verb string // in the past tense, for a yes: "allowed", "refunded"
	*cli.LimitRequest
	refunds bool   // show the refunded units
	again   string // is shown if the decision repeats an earlier one
	now     time.Time
}

// Document implements output.Answer.
func (a *decisionAnswer) Document() any {
	if a.refunds {
		return a.RefundDocument()
	}
	return a.Answer.Document()
}

// decisionRow is a limit in CSV, with what is said of the whole request.
type decisionRow struct {
	Key      string `json:"key"`
	Cost     int64  `json:"cost"`
	Policy   string `json:"policy"`
	Subject  string `json:"subject"`
	Repeated bool   `json:"repeated"`
	decision.Limit
}

// Records implements output.Answer.
func (a *decisionAnswer) Records() [][]string {
	rows := make([]decisionRow, len(a.Decisions))
	for i := range a.Decisions {
		rows[i] = decisionRow{Key: a.Key, Cost: a.Requests[i].Cost, Subject: a.Requests[i].Key.Subject,
			Repeated: a.Decisions[i].Repeated, Limit: a.Decided(i)}
		if a.Policy != nil {
			rows[i].Policy = a.Policy.Name
		}
		if a.refunds {
			rows[i].Refunded = &a.Decisions[i].Refunded
		}
	}
	return output.Rows(rows)
}

// Print implements output.Answer: one line, and for several limits a table below it.
func (a *decisionAnswer) Print(p *output.Printer) {
	sum := store.Summarize(a.Decisions)
	local, repeated := "", ""
	if sum.DecidedBy == store.DecidedByLocal {
		local = " locally (store unavailable)"
	}
	if sum.Repeated {
		repeated = " (" + a.again + ")"
	}
	mark := p.Paint(output.Calm, "✓ "+a.verb+local+repeated)
	if !sum.Allowed {
		mark = "✗ denied" + local
		switch {
		case a.Policy == nil || sum.Unguarded:
		case !slices.ContainsFunc(sum.DeniedBy, func(i int) bool { return !isBlock(a.Decisions[i].Override) }):
			if mark = "✗ blocked"; len(sum.DeniedBy) < len(a.Decisions) {
				mark += " for " + strings.Join(a.DeniedBy(), ", ")
			}
		default:
			mark += " by " + strings.Join(a.DeniedBy(), ", ")
		}
		mark = p.Paint(output.AtEnd, mark)
	}
	subject := output.Printable(a.Key)
	if a.refunds && a.Refunded() == 0 {
		p.Line("%s  %s: nothing is in use", p.Paint(output.AtEnd, "✗ nothing to refund"), subject)
		return
	}
	if sum.Unguarded {
		p.Line("%s  %s: the store did not answer", mark, subject)
		return
	}
	if len(a.Requests) == 1 && a.Policy == nil {
		p.Line("%s  %s: %s", mark, subject, decision.Room(&sum, a.Capacity(0), a.Leave(0)))
		a.printEnd(p)
		return
	}
	text := decision.Times(&sum)
	if !a.OwnCosts() { // else what remains of its limits cannot be compared
		text = fmt.Sprintf(", %d remaining%s", sum.Remaining, text)
	}
	if text != "" {
		subject += ": " + text[len(", "):]
	}
	p.Line("%s  %s", mark, subject)
	a.printLimits(p)
	a.printEnd(p)
}

// printLimits prints a table of the limits.
func (a *decisionAnswer) printLimits(p *output.Printer) {
	columns := []output.Column{{Header: ""}, {Header: "LIMIT", Shrinks: 12}, {Header: "USED", Right: true, Drops: 2},
		{Header: "REMAINING", Right: true, Drops: 1}, {Header: "RETRY IN", Right: true},
		{Header: "RESETS IN", Right: true, Drops: 3}}
	if a.Policy != nil {
		columns = append(slices.Insert(columns, 2, output.Column{Header: "SUBJECT", Shrinks: 12}),
			output.Column{Header: "NOTE", Shrinks: 6, Drops: 2})
	}
	var rows [][]output.Cell
	for i, d := range a.Decisions {
		sign, style := "✓", output.Calm
		var notes []string
		used, remaining := fmt.Sprintf("%d/%d", d.Used, a.Capacity(i)), cli.Number(d.Remaining)
		switch {
		case d.Unguarded:
			sign, style, used, remaining = "?", output.Near, "-", "-"
			notes = append(notes, "not decided: its store is unreachable")
		case d.Shadow && !d.Allowed:
			sign, style = "~", output.Near
			notes = append(notes, "shadow: would deny")
		case d.Shadow:
			notes = append(notes, "shadow")
		case !d.Allowed:
			sign, style = "✗", output.AtEnd
		}
		if a.OwnCosts() {
			notes = append(notes, fmt.Sprintf("cost %d", a.Requests[i].Cost))
		}
		if leave := a.Leave(i); leave > 0 {
			notes = append(notes, fmt.Sprintf("leaves %d", leave))
		}
		if a.Policy != nil && a.Overrides[i] >= 0 {
			notes = append(notes, "configured for "+a.Policy.Limits[i].Exceptions[a.Overrides[i]].When.Text())
		}
		if isBlock(d.Override) {
			notes = append(notes, "blocked")
		} else if d.Override != nil {
			notes = append(notes, cli.OperatorsText(d.Override))
		}
		row := []output.Cell{{Text: sign, Style: style}, {Text: a.Effective(i).String()}, {Text: used},
			{Text: remaining},
			{Text: cli.OrDash(d.RetryAfter)}, {Text: cli.OrDash(d.ResetAfter)}}
		if a.Policy != nil {
			row[1].Text = a.LimitName(i)
			row = append(slices.Insert(row, 2, output.Cell{Text: a.Requests[i].Key.Subject}),
				output.Cell{Text: strings.Join(notes, ", ")})
		}
		rows = append(rows, row)
	}
	p.Table(columns, rows)
}

func isBlock(o *store.Override) bool { return o != nil && o.Effect == store.OverrideBlock }

// printEnd prints what a refund lacks of its cost, and the overrides that apply.
func (a *decisionAnswer) printEnd(p *output.Printer) {
	var applied []*store.Override
	for i, d := range a.Decisions {
		if a.refunds && d.Refunded < a.Requests[i].Cost {
			p.Line("   %s: refunded %d of %s", output.Printable(a.LimitName(i)), d.Refunded,
				output.Plural(int(a.Requests[i].Cost), "unit"))
		}
		applied = append(applied, d.Override)
	}
	cli.PrintApplied(p, applied, a.now)
}
