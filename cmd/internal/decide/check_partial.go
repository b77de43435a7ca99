package decide

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// partialCheck is a check under a policy with some of its attributes. It decides the limits whose attributes are given,
// and shows what the others would be.
type partialCheck struct {
	policy     *policy.Policy
	attributes policy.Attributes
	missing    []string
	// asked are the limits that can be decided, by their index in the policy, and request is the request to them.
	asked   []int
	request *cli.LimitRequest
}

// partial returns what can be checked with some of a policy's attributes. It is nil if none is
// missing, or the command line has another mistake.
func partial(o *cli.RequestFlags, cmd *cobra.Command, g *cli.Globals, args []string) *partialCheck {
	for _, flag := range []string{"limit", "algorithm", "burst"} {
		if cmd.Flags().Changed(flag) {
			return nil
		}
	}
	c, err := g.Config()
	if err != nil {
		return nil
	}
	p, err := c.Policy(o.Policy)
	if err != nil {
		return nil
	}
	attributes, err := policy.ParseAttributes(args)
	if err != nil || p.CheckAttributes(attributes) != nil {
		return nil
	}
	units, err := p.UnitsOf(o.Cost.Units, o.Cost.Fields...)
	if err != nil || o.Cost.Check(p, store.Peek) != nil {
		return nil
	}
	check := &partialCheck{policy: p, attributes: attributes, request: &cli.LimitRequest{Key: strings.Join(args, " "), Policy: p}}
	for i := range p.Limits {
		l := &p.Limits[i]
		missing := l.Missing(attributes)
		for _, name := range missing {
			if !slices.Contains(check.missing, name) {
				check.missing = append(check.missing, name)
			}
		}
		if len(missing) == 0 {
			check.asked = append(check.asked, i)
			check.request.Reqs = append(check.request.Reqs, p.Request(l, attributes, units[i]))
		}
	}
	if len(check.request.Reqs) > 0 {
		check.request.Reqs, err = store.NormalizeAll(nil, store.Peek, check.request.Reqs)
	}
	if err != nil || len(check.missing) == 0 {
		return nil
	}
	return check
}

// runPartialCheck decides the limits that can be decided. A denial by one of them is a no. Without a denial the answer
// is open, which must not look like a yes.
func runPartialCheck(ctx context.Context, o *checkOptions, check *partialCheck) error {
	answer := &partialAnswer{partialCheck: check}
	if len(check.asked) > 0 {
		backend, err := openToDecide(ctx, o.Globals, store.Peek, o.onError, nil, check.request)
		if err != nil {
			return err
		}
		defer backend.Close()
		if answer.decisions, err = decide(ctx, backend, store.Peek, check.request.Reqs); err != nil {
			return err
		}
	}
	if err := o.Print(answer); err != nil {
		return err
	}
	if answer.isDenied() {
		return cli.ErrDenied
	}
	err := cli.Usagef("policy %q was not decided: it needs %s; add %s", check.policy.Name, strings.Join(check.missing, " and "),
		attributesWanted(check.missing))
	if len(check.asked) > 0 {
		return &undecidedError{err}
	}
	return err
}

// undecidedError says that some limits of a policy allow, and others could not be decided.
type undecidedError struct{ error }

func (e *undecidedError) Is(target error) bool { return target == outcome.ErrPartly }

// attributesWanted are arguments for the user to fill in.
func attributesWanted(names []string) string { return strings.Join(names, "=VALUE ") + "=VALUE" }

// partialAnswer is the answer of a partial check.
type partialAnswer struct {
	*partialCheck
	decisions []store.Decision // of what is asked
}

// isDenied reports whether one of the decided limits denies.
func (a *partialAnswer) isDenied() bool {
	return slices.ContainsFunc(a.decisions, func(d store.Decision) bool { return !d.Allowed && !d.Shadow })
}

// decision returns the decision of a limit of the policy, or nil.
func (a *partialAnswer) decision(i int) (request *store.Request, d *store.Decision) {
	if n := slices.Index(a.asked, i); n >= 0 {
		return &a.request.Reqs[n], &a.decisions[n]
	}
	return nil, nil
}

// partialLimitDocument is a limit in JSON: decided, or what it may be.
type partialLimitDocument struct {
	Limit string   `json:"limit"`
	By    []string `json:"by"`
	// Missing are the attributes without which it cannot be decided.
	Missing []string `json:"missing,omitempty"`
	// MayAllow are the limits that may apply: the first whose attributes match does.
	MayAllow []candidateDocument `json:"may_allow,omitempty"`
	Decided  *decision.Limit     `json:"decided,omitempty"` // the limit as decided, if its attributes are given
	Key      string              `json:"key,omitempty"`
	Shadow   bool                `json:"shadow,omitempty"`
}

type candidateDocument struct {
	Limit string `json:"limit"`
	// When are the attributes with which it applies, if some are unknown.
	When policy.Attributes `json:"when,omitempty"`
}

func (a *partialAnswer) document(i int) partialLimitDocument {
	l := &a.policy.Limits[i]
	d := partialLimitDocument{Limit: l.Name, By: l.By, Missing: l.Missing(a.attributes), Shadow: l.Shadow}
	if request, made := a.decision(i); made != nil {
		decided := decision.NewLimit(request.Key.Name, decision.Under(*request, made.Override, 0).Limit, *made)
		decided.Allowed = &made.Allowed
		decided.Leave = decision.Under(*request, made.Override, made.LocalShare).Leave
		d.Decided, d.Key = &decided, request.Key.Subject
		return d
	}
	for _, candidate := range l.Candidates(a.attributes) {
		document := candidateDocument{Limit: candidate.Limit.String()}
		if len(candidate.Unknown) > 0 {
			document.When = l.Exceptions[candidate.Exception].When
		}
		d.MayAllow = append(d.MayAllow, document)
	}
	return d
}

// Document implements output.Answer.
func (a *partialAnswer) Document() any {
	var allowed *bool // null: it is not known
	if a.isDenied() {
		allowed = new(bool)
	}
	return struct {
		SchemaVersion int      `json:"schema_version"`
		Policy        string   `json:"policy"`
		Allowed       *bool    `json:"allowed"`
		Missing       []string `json:"missing"`
		Limits        []any    `json:"limits"`
	}{output.SchemaVersion, a.policy.Name, allowed, a.missing, a.Lines()}
}

// Lines implements output.Answer.
func (a *partialAnswer) Lines() []any {
	lines := make([]any, len(a.policy.Limits))
	for i := range lines {
		lines[i] = a.document(i)
	}
	return lines
}

// Records implements output.Answer.
func (a *partialAnswer) Records() [][]string {
	records := [][]string{{"limit", "by", "missing", "key", "allowed", "used", "remaining", "may_allow"}}
	for i := range a.policy.Limits {
		d := a.document(i)
		record := []string{d.Limit, strings.Join(d.By, " "), strings.Join(d.Missing, " "), d.Key, "", "", "", a.mayAllow(i)}
		if d.Decided != nil {
			record[4], record[5], record[6] = fmt.Sprint(*d.Decided.Allowed), cli.Number(d.Decided.Used), cli.Number(d.Decided.Remaining)
		}
		records = append(records, record)
	}
	return records
}

// mayAllow names the limits that may apply.
func (a *partialAnswer) mayAllow(i int) string {
	var texts []string
	for _, candidate := range a.document(i).MayAllow {
		text := candidate.Limit
		if len(candidate.When) > 0 {
			text += " if " + candidate.When.Text()
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", else ")
}

// Print implements output.Answer.
func (a *partialAnswer) Print(p *output.Printer) {
	mark := p.Paint(output.Near, "? not decided")
	if a.isDenied() {
		mark = p.Paint(output.AtEnd, "✗ denied")
	}
	p.Line("%s  %s: without %s, not all limits of policy %s can be asked", mark, output.Printable(cmp.Or(a.request.Key, a.policy.Name)),
		strings.Join(a.missing, " and "), a.policy.Name)
	columns := []output.Column{{Header: ""}, {Header: "LIMIT", Shrinks: 12}, {Header: "USED", Right: true},
		{Header: "REMAINING", Right: true, Drops: 1}, {Header: "RETRY IN", Right: true}, {Header: "NOTE", Shrinks: 24}}
	var rows [][]output.Cell
	for i := range a.policy.Limits {
		l := &a.policy.Limits[i]
		request, d := a.decision(i)
		row := []output.Cell{{Text: "?", Style: output.Near}, {Text: l.Name}, {Text: "-"}, {Text: "-"}, {Text: "-"},
			{Text: "needs " + strings.Join(l.Missing(a.attributes), " and ") + "; would allow " + a.mayAllow(i)}}
		if d != nil {
			note, under := request.Key.Subject, decision.Under(*request, d.Override, d.LocalShare)
			if under.Leave > 0 {
				note += fmt.Sprintf(", leaves %d", under.Leave)
			}
			if l.Shadow {
				note += ", shadow"
			}
			row = []output.Cell{{Text: "✓", Style: output.Calm}, {Text: l.Name},
				{Text: fmt.Sprintf("%d/%d", d.Used, under.Limit.Capacity())},
				{Text: cli.Number(d.Remaining)}, {Text: cli.OrDash(d.RetryAfter)}, {Text: note}}
			switch {
			case !d.Allowed && l.Shadow:
				row[0] = output.Cell{Text: "~", Style: output.Near}
			case !d.Allowed:
				row[0] = output.Cell{Text: "✗", Style: output.AtEnd}
			}
		}
		rows = append(rows, row)
	}
	p.Table(columns, rows)
}
