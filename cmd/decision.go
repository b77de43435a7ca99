package cmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// decisionAnswer is the answer of check, consume, refund and settle.
type decisionAnswer struct {
	verb string // in the past tense, for a yes: "allowed", "refunded"
	*limitRequest
	decisions []limiter.Decision
	charges   bool   // what is granted is shown
	again     string // is said where the decision repeats an earlier one
	now       time.Time
}

// limitDocument is the state of one limit, in all JSON.
type limitDocument struct {
	Name         string `json:"name"`
	Algorithm    string `json:"algorithm"`
	Count        int64  `json:"count"`
	PeriodMS     int64  `json:"period_ms"`
	Burst        int64  `json:"burst"`
	Slices       int64  `json:"slices,omitempty"`
	Allowed      *bool  `json:"allowed,omitempty"`
	Used         int64  `json:"used"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	DelayMS      int64  `json:"delay_ms"`
}

func newLimitDocument(name string, limit limiter.Limit, d limiter.Decision) limitDocument {
	return limitDocument{
		Name:         name,
		Algorithm:    limit.Algorithm.String(),
		Count:        limit.Count,
		PeriodMS:     output.Milliseconds(limit.Period),
		Burst:        limit.Burst,
		Slices:       limit.Slices,
		Used:         d.Used,
		Remaining:    d.Remaining,
		RetryAfterMS: output.Milliseconds(d.RetryAfter),
		ResetAfterMS: output.Milliseconds(d.ResetAfter),
		DelayMS:      output.Milliseconds(d.Delay),
	}
}

// decidedDocument is a decided limit.
type decidedDocument struct {
	limitDocument
	// Of a policy's limit: what the policy calls it, the subject it is counted
	// for, and which of its overrides applies, the first being 1.
	Limit    string `json:"limit,omitempty"`
	Key      string `json:"key,omitempty"`
	Shadow   bool   `json:"shadow,omitempty"`
	Override int    `json:"override,omitempty"`
	// Applied is an operator's override that applied. The limit above is as it makes it.
	Applied *appliedOverride `json:"applied_override,omitempty"`
	// Unguarded: the store was unreachable, so nothing is known of this limit.
	Unguarded bool `json:"unguarded,omitempty"`
	// DecidedBy is who decided, if anybody did.
	DecidedBy string `json:"decided_by,omitempty"`
	// Granted is what was charged to the limit.
	Granted *int64 `json:"granted,omitempty"`
}

// decidedBy names who made a decision. A limit that was not asked, because another one had
// denied already, was decided by nobody.
func decidedBy(d *limiter.Decision) string {
	if d.Unguarded && d.DecidedBy == limiter.DecidedByStore {
		return ""
	}
	return d.DecidedBy.String()
}

// decided describes the i-th limit of the request.
func (a *decisionAnswer) decided(i int) decidedDocument {
	d := &a.decisions[i]
	document := decidedDocument{limitDocument: newLimitDocument(a.reqs[i].Key.Name, a.effective(i), *d), Shadow: d.Shadow,
		Applied: newAppliedOverride(d.Override, a.reqs[i].Limit), Unguarded: d.Unguarded, DecidedBy: decidedBy(d)}
	document.Allowed = &d.Allowed
	if a.charges {
		document.Granted = &d.Granted
	}
	if a.policy != nil {
		document.Limit, document.Key, document.Override = a.limitName(i), a.reqs[i].Key.Subject, a.overrides[i]+1
	}
	return document
}

// deniedBy names the limits that denied.
func (a *decisionAnswer) deniedBy() []string {
	var names []string
	for _, i := range limiter.Summarize(a.decisions).DeniedBy {
		names = append(names, a.limitName(i))
	}
	return names
}

type decisionDocument struct {
	SchemaVersion int    `json:"schema_version"`
	Policy        string `json:"policy,omitempty"`
	Allowed       bool   `json:"allowed"`
	Key           string `json:"key"`
	Cost          int64  `json:"cost"`
	Remaining     int64  `json:"remaining"`
	RetryAfterMS  int64  `json:"retry_after_ms"`
	ResetAfterMS  int64  `json:"reset_after_ms"`
	DelayMS       int64  `json:"delay_ms"`
	// Granted is what was charged, or by the first call with the token if Repeated.
	Granted  *int64 `json:"granted,omitempty"`
	Repeated bool   `json:"repeated,omitempty"`
	// Unguarded: the store was unreachable, and the failure policy decided.
	Unguarded bool `json:"unguarded,omitempty"`
	// DecidedBy is who made the decision that the answer comes from, and LocalShare what a
	// local shadow had of each limit, if it was that.
	DecidedBy  string `json:"decided_by"`
	LocalShare string `json:"local_share,omitempty"`
	// Applied is an operator's override that applied: that of the limit that denied, if one did.
	Applied *appliedOverride `json:"applied_override,omitempty"`
	// DeniedBy names the limits that denied.
	DeniedBy []string          `json:"denied_by,omitempty"`
	Limits   []decidedDocument `json:"limits"`
}

// Document implements output.Answer.
func (a *decisionAnswer) Document() any {
	sum := limiter.Summarize(a.decisions)
	document := decisionDocument{
		SchemaVersion: output.SchemaVersion,
		Allowed:       sum.Allowed,
		Key:           a.key,
		Cost:          a.reqs[0].Cost,
		Remaining:     sum.Remaining,
		RetryAfterMS:  output.Milliseconds(sum.RetryAfter),
		ResetAfterMS:  output.Milliseconds(sum.ResetAfter),
		DelayMS:       output.Milliseconds(sum.Delay),
		Repeated:      sum.Repeated,
		Unguarded:     sum.Unguarded,
		DecidedBy:     sum.DecidedBy.String(),
		Applied:       a.applied(),
		DeniedBy:      a.deniedBy(),
		Limits:        []decidedDocument{},
	}
	if a.charges {
		document.Granted = &sum.Granted
	}
	if a.policy != nil {
		document.Policy = a.policy.Name
	}
	if sum.DecidedBy == limiter.DecidedByLocal {
		document.LocalShare = a.localShare.String()
	}
	for i := range a.decisions {
		document.Limits = append(document.Limits, a.decided(i))
	}
	return document
}

// Lines implements output.Answer.
func (a *decisionAnswer) Lines() []any { return []any{a.Document()} }

// Records implements output.Answer.
func (a *decisionAnswer) Records() [][]string {
	records := [][]string{{"key", "cost", "name", "algorithm", "count", "period_ms", "burst", "allowed",
		"used", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms", "unguarded", "policy", "limit", "subject", "shadow",
		"override", "granted", "repeated", "decided_by", "applied_override", "override_effect", "override_expires_at",
		"override_reason", "override_by"}}
	policyName := ""
	if a.policy != nil {
		policyName = a.policy.Name
	}
	for i, d := range a.decisions {
		limit := a.decided(i)
		record := []string{a.key, number(a.reqs[i].Cost), limit.Name, limit.Algorithm,
			number(limit.Count), number(limit.PeriodMS), number(limit.Burst), strconv.FormatBool(d.Allowed),
			number(limit.Used), number(limit.Remaining), number(limit.RetryAfterMS), number(limit.ResetAfterMS), number(limit.DelayMS),
			strconv.FormatBool(d.Unguarded),
			policyName, limit.Limit, a.reqs[i].Key.Subject, strconv.FormatBool(d.Shadow), number(int64(limit.Override)),
			number(d.Granted), strconv.FormatBool(d.Repeated), limit.DecidedBy}
		records = append(records, append(record, limit.Applied.cells()...))
	}
	return records
}

// capacity is how much the limit of the i-th decision allows at once, or the local shadow's
// share of it.
func (a *decisionAnswer) capacity(i int) int64 {
	if a.decisions[i].DecidedBy == limiter.DecidedByLocal {
		return a.localShare.Of(a.effective(i)).Capacity()
	}
	return a.effective(i).Capacity()
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// Print implements output.Answer: a line that says it all, and for several
// limits a table of them.
func (a *decisionAnswer) Print(p *output.Printer) {
	sum := limiter.Summarize(a.decisions)
	local, repeated := "", ""
	if sum.DecidedBy == limiter.DecidedByLocal {
		local = " locally (store unavailable)"
	}
	if sum.Repeated {
		repeated = " (" + a.again + ")"
	}
	mark := p.Paint(output.Calm, "✓ "+a.verb+local+repeated)
	if !sum.Allowed {
		mark = "✗ denied" + local
		if a.policy != nil && !sum.Unguarded {
			mark += " by " + strings.Join(a.deniedBy(), ", ")
		}
		mark = p.Paint(output.AtEnd, mark)
	}
	subject := output.Printable(a.key)
	if sum.Unguarded {
		p.Line("%s  %s: the store did not answer", mark, subject)
		return
	}
	if len(a.reqs) == 1 && a.policy == nil {
		p.Line("%s  %s: %d of %d used, %d remaining%s", mark, subject,
			sum.Used, a.capacity(0), sum.Remaining, times(sum))
		a.printOverrides(p)
		return
	}
	p.Line("%s  %s: %d remaining%s", mark, subject, sum.Remaining, times(sum))
	if a.policy != nil {
		a.printPolicy(p)
	} else {
		a.printLimits(p)
	}
	a.printOverrides(p)
}

// printLimits prints a table of limits that are of no policy.
func (a *decisionAnswer) printLimits(p *output.Printer) {
	columns := []output.Column{{Header: ""}, {Header: "LIMIT", Shrinks: 12}, {Header: "USED", Right: true, Drops: 2},
		{Header: "REMAINING", Right: true, Drops: 1},
		{Header: "RETRY IN", Right: true}, {Header: "RESETS IN", Right: true, Drops: 3}}
	var rows [][]output.Cell
	for i, d := range a.decisions {
		sign, style := "✓", output.Calm
		if !d.Allowed {
			sign, style = "✗", output.AtEnd
		}
		rows = append(rows, []output.Cell{{Text: sign, Style: style}, {Text: a.effective(i).String()}, {Text: number(d.Used)},
			{Text: number(d.Remaining)}, {Text: orDash(d.RetryAfter)}, {Text: orDash(d.ResetAfter)}})
	}
	p.Table(columns, rows)
}

// printPolicy prints a table of a policy's limits.
func (a *decisionAnswer) printPolicy(p *output.Printer) {
	columns := []output.Column{{Header: ""}, {Header: "LIMIT", Shrinks: 12}, {Header: "SUBJECT", Shrinks: 12},
		{Header: "USED", Right: true},
		{Header: "REMAINING", Right: true, Drops: 1}, {Header: "RETRY IN", Right: true}, {Header: "RESETS IN", Right: true, Drops: 3},
		{Header: "NOTE", Shrinks: 6, Drops: 2}}
	var rows [][]output.Cell
	for i, d := range a.decisions {
		sign, style := "✓", output.Calm
		var notes []string
		used, remaining := fmt.Sprintf("%d/%d", d.Used, a.capacity(i)), number(d.Remaining)
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
		if a.overrides[i] >= 0 {
			notes = append(notes, fmt.Sprintf("override %d", a.overrides[i]+1))
		}
		if d.Override != nil {
			notes = append(notes, operatorsText(d.Override))
		}
		rows = append(rows, []output.Cell{{Text: sign, Style: style}, {Text: a.limitName(i)}, {Text: a.reqs[i].Key.Subject},
			{Text: used}, {Text: remaining}, {Text: orDash(d.RetryAfter)},
			{Text: orDash(d.ResetAfter)}, {Text: strings.Join(notes, ", ")}})
	}
	p.Table(columns, rows)
}

// times says what there is to say about waiting.
func times(d limiter.Summary) string {
	text := ""
	if d.RetryAfter > 0 {
		text += ", retry in " + output.Duration(d.RetryAfter)
	}
	if d.Delay > 0 {
		text += ", its turn in " + output.Duration(d.Delay)
	}
	if d.ResetAfter > 0 {
		text += ", resets in " + output.Duration(d.ResetAfter)
	}
	return text
}

func orDash(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return output.Duration(d)
}
