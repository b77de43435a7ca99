package cmd

import (
	"fmt"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// refundAnswer is the answer of refund: what is left, and how many units were given back.
type refundAnswer struct{ decisionAnswer }

// refundDocument is a decision with the units that it gave back: the most of one limit, and
// those of each.
type refundDocument struct {
	decisionDocument
	Refunded int64              `json:"refunded"`
	Limits   []refundedDocument `json:"limits"`
}

type refundedDocument struct {
	decidedDocument
	Refunded int64 `json:"refunded"`
}

// refunded is the most units that one of the limits got back.
func (a *refundAnswer) refunded() (units int64) {
	for i := range a.decisions {
		units = max(units, a.decisions[i].Refunded)
	}
	return units
}

// Document implements output.Answer.
func (a *refundAnswer) Document() any {
	decision := a.decisionAnswer.Document().(decisionDocument)
	document := refundDocument{decisionDocument: decision, Refunded: a.refunded()}
	for i, limit := range decision.Limits {
		document.Limits = append(document.Limits, refundedDocument{limit, a.decisions[i].Refunded})
	}
	return document
}

// Lines implements output.Answer.
func (a *refundAnswer) Lines() []any { return []any{a.Document()} }

// Records implements output.Answer.
func (a *refundAnswer) Records() [][]string {
	records := a.decisionAnswer.Records()
	records[0] = append(records[0], "refunded")
	for i := range a.decisions {
		records[i+1] = append(records[i+1], number(a.decisions[i].Refunded))
	}
	return records
}

// Print implements output.Answer. A refund of less than was asked for says of each limit how much
// it was, and one of nothing why that may be.
func (a *refundAnswer) Print(p *output.Printer) {
	subject, all := output.Printable(a.key), true
	for i := range a.decisions {
		all = all && a.decisions[i].Refunded == a.reqs[i].Cost
	}
	switch {
	case a.refunded() == 0:
		p.Line("%s  %s: nothing was refunded", p.Paint(output.AtEnd, "✗ nothing to refund"), subject)
		for i := range a.reqs {
			p.Line("   %s: %s", output.Printable(a.limitName(i)), a.why())
		}
	default:
		a.decisionAnswer.Print(p)
		if all {
			return
		}
		for i := range a.reqs {
			p.Line("   %s: refunded %d of %s", output.Printable(a.limitName(i)), a.decisions[i].Refunded,
				output.Plural(int(a.reqs[i].Cost), "unit"))
		}
	}
}

// why is why a limit got nothing back.
func (a *refundAnswer) why() string {
	if token := a.reqs[0].Token; token != "" {
		return fmt.Sprintf("nothing is remembered of token %q, or nothing is in use", token)
	}
	return "nothing is in use"
}
