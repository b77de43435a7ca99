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
	decisions []store.Decision
	charges   bool   // show the granted units
	again     string // is shown if the decision repeats an earlier one
	now       time.Time
}

// answer returns the answer in the form that programs get.
func (a *decisionAnswer) answer() *decision.Answer {
	return &decision.Answer{Key: a.Key, Policy: a.Policy, Requests: a.Reqs, Overrides: a.Overrides,
		Decisions: a.decisions, Charges: a.charges}
}

// Document implements output.Answer.
func (a *decisionAnswer) Document() any { return a.answer().Document() }

// decisionRow is a limit in CSV, with what is said of the whole request.
type decisionRow struct {
	Key      string `json:"key"`
	Cost     int64  `json:"cost"`
	Policy   string `json:"policy"`
	Subject  string `json:"subject"`
	Repeated bool   `json:"repeated"`
	decision.Limit
}

func (a *decisionAnswer) rows() []decisionRow {
	rows := make([]decisionRow, len(a.decisions))
	for i := range a.decisions {
		rows[i] = decisionRow{Key: a.Key, Cost: a.Reqs[i].Cost, Subject: a.Reqs[i].Key.Subject,
			Repeated: a.decisions[i].Repeated,
			Limit:    a.answer().Decided(i)}
		if a.Policy != nil {
			rows[i].Policy = a.Policy.Name
		}
	}
	return rows
}

// Records implements output.Answer.
func (a *decisionAnswer) Records() [][]string { return output.Rows(a.rows()) }

// Print implements output.Answer: one line, and for several limits a table below it.
func (a *decisionAnswer) Print(p *output.Printer) {
	sum := store.Summarize(a.decisions)
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
		case !slices.ContainsFunc(sum.DeniedBy, func(i int) bool { return !isBlock(a.decisions[i].Override) }):
			if mark = "✗ blocked"; len(sum.DeniedBy) < len(a.decisions) {
				mark += " for " + strings.Join(a.answer().DeniedBy(), ", ")
			}
		default:
			mark += " by " + strings.Join(a.answer().DeniedBy(), ", ")
		}
		mark = p.Paint(output.AtEnd, mark)
	}
	subject := output.Printable(a.Key)
	if sum.Unguarded {
		p.Line("%s  %s: the store did not answer", mark, subject)
		return
	}
	if len(a.Reqs) == 1 && a.Policy == nil {
		p.Line("%s  %s: %s", mark, subject, decision.Room(&sum, a.answer().Capacity(0), a.answer().Leave(0)))
		a.printOverrides(p)
		return
	}
	times := output.Printable(a.answer().Times(&sum))
	if left := fmt.Sprintf("%d remaining%s", sum.Remaining, times); !a.answer().OwnCosts() {
		p.Line("%s  %s: %s", mark, subject, left)
	} else if when := strings.TrimPrefix(times, ", "); when != "" {
		p.Line("%s  %s: %s", mark, subject, when)
	} else {
		p.Line("%s  %s", mark, subject)
	}
	a.printLimits(p)
	a.printOverrides(p)
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
	for i, d := range a.decisions {
		sign, style := "✓", output.Calm
		var notes []string
		used, remaining := fmt.Sprintf("%d/%d", d.Used, a.answer().Capacity(i)), cli.Number(d.Remaining)
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
		if a.answer().OwnCosts() {
			notes = append(notes, fmt.Sprintf("cost %d", a.Reqs[i].Cost))
		}
		if leave := a.answer().Leave(i); leave > 0 {
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
		row := []output.Cell{{Text: sign, Style: style}, {Text: a.answer().Effective(i).String()}, {Text: used},
			{Text: remaining},
			{Text: cli.OrDash(d.RetryAfter)}, {Text: cli.OrDash(d.ResetAfter)}}
		if a.Policy != nil {
			row[1].Text = a.LimitName(i)
			row = append(slices.Insert(row, 2, output.Cell{Text: a.Reqs[i].Key.Subject}),
				output.Cell{Text: strings.Join(notes, ", ")})
		}
		rows = append(rows, row)
	}
	p.Table(columns, rows)
}

func isBlock(o *store.Override) bool { return o != nil && o.Effect == store.OverrideBlock }

// printOverrides prints the overrides that apply.
func (a *decisionAnswer) printOverrides(p *output.Printer) {
	var applied []*store.Override
	for i := range a.decisions {
		applied = append(applied, a.decisions[i].Override)
	}
	cli.PrintApplied(p, applied, a.now)
}
