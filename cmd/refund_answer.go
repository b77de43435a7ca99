package cmd

import (
	"fmt"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// refundAnswer is the answer of refund: what is left, and how many units were given back.
type refundAnswer struct{ decisionAnswer }

// Document implements output.Answer.
func (a *refundAnswer) Document() any { return a.told().RefundDocument() }

// Lines implements output.Answer.
func (a *refundAnswer) Lines() []any { return []any{a.Document()} }

// Records implements output.Answer.
func (a *refundAnswer) Records() [][]string {
	records := a.decisionAnswer.Records()
	records[0] = append(records[0], "refunded")
	for i := range a.decisions {
		records[i+1] = append(records[i+1], cli.Number(a.decisions[i].Refunded))
	}
	return records
}

// Print implements output.Answer. A refund of less than was asked for says of each limit how much
// it was, and one of nothing why that may be.
func (a *refundAnswer) Print(p *output.Printer) {
	subject, all := output.Printable(a.Key), true
	for i := range a.decisions {
		all = all && a.decisions[i].Refunded == a.Reqs[i].Cost
	}
	switch {
	case a.told().Refunded() == 0:
		p.Line("%s  %s: nothing was refunded", p.Paint(output.AtEnd, "✗ nothing to refund"), subject)
		for i := range a.Reqs {
			p.Line("   %s: %s", output.Printable(a.LimitName(i)), a.why())
		}
	default:
		a.decisionAnswer.Print(p)
		if all {
			return
		}
		for i := range a.Reqs {
			p.Line("   %s: refunded %d of %s", output.Printable(a.LimitName(i)), a.decisions[i].Refunded,
				output.Plural(int(a.Reqs[i].Cost), "unit"))
		}
	}
}

// why is why a limit got nothing back.
func (a *refundAnswer) why() string {
	if token := a.Reqs[0].Token; token != "" {
		return fmt.Sprintf("nothing is remembered of token %q, or nothing is in use", token)
	}
	return "nothing is in use"
}
