package cmd

import (
	"fmt"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// decisionAnswer is the answer of check, consume and refund.
type decisionAnswer struct {
	verb      string // in the past tense, for a yes: "allowed", "refunded"
	subject   string
	reqs      []limiter.Request
	decisions []limiter.Decision
}

// limitDocument is the state of one limit, in all JSON.
type limitDocument struct {
	Name         string `json:"name"`
	Algorithm    string `json:"algorithm"`
	Count        int64  `json:"count"`
	PeriodMS     int64  `json:"period_ms"`
	Burst        int64  `json:"burst"`
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
		Used:         d.Used,
		Remaining:    d.Remaining,
		RetryAfterMS: output.Milliseconds(d.RetryAfter),
		ResetAfterMS: output.Milliseconds(d.ResetAfter),
		DelayMS:      output.Milliseconds(d.Delay),
	}
}

type decisionDocument struct {
	SchemaVersion int    `json:"schema_version"`
	Allowed       bool   `json:"allowed"`
	Key           string `json:"key"`
	Cost          int64  `json:"cost"`
	Remaining     int64  `json:"remaining"`
	RetryAfterMS  int64  `json:"retry_after_ms"`
	ResetAfterMS  int64  `json:"reset_after_ms"`
	DelayMS       int64  `json:"delay_ms"`
	// Unguarded: the store was away and --on-error decided.
	Unguarded bool            `json:"unguarded,omitempty"`
	Limits    []limitDocument `json:"limits"`
}

// together sums the decisions up: the least remaining, the greatest times.
func together(decisions []limiter.Decision) limiter.Decision {
	sum := decisions[0]
	for _, d := range decisions[1:] {
		sum.Allowed = sum.Allowed && d.Allowed
		sum.Remaining = min(sum.Remaining, d.Remaining)
		sum.RetryAfter = max(sum.RetryAfter, d.RetryAfter)
		sum.ResetAfter = max(sum.ResetAfter, d.ResetAfter)
		sum.Delay = max(sum.Delay, d.Delay)
	}
	return sum
}

// Document implements output.Answer.
func (a *decisionAnswer) Document() any {
	sum := together(a.decisions)
	document := decisionDocument{
		SchemaVersion: output.SchemaVersion,
		Allowed:       sum.Allowed,
		Key:           a.subject,
		Cost:          a.reqs[0].Cost,
		Remaining:     sum.Remaining,
		RetryAfterMS:  output.Milliseconds(sum.RetryAfter),
		ResetAfterMS:  output.Milliseconds(sum.ResetAfter),
		DelayMS:       output.Milliseconds(sum.Delay),
		Unguarded:     sum.Unguarded,
		Limits:        []limitDocument{},
	}
	for i, d := range a.decisions {
		limit := newLimitDocument(a.reqs[i].Key.Name, a.reqs[i].Limit, d)
		limit.Allowed = &d.Allowed
		document.Limits = append(document.Limits, limit)
	}
	return document
}

// Lines implements output.Answer.
func (a *decisionAnswer) Lines() []any { return []any{a.Document()} }

// Records implements output.Answer.
func (a *decisionAnswer) Records() [][]string {
	records := [][]string{{"key", "cost", "name", "algorithm", "count", "period_ms", "burst", "allowed",
		"used", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms", "unguarded"}}
	for i, d := range a.decisions {
		limit := newLimitDocument(a.reqs[i].Key.Name, a.reqs[i].Limit, d)
		records = append(records, []string{a.subject, number(a.reqs[i].Cost), limit.Name, limit.Algorithm,
			number(limit.Count), number(limit.PeriodMS), number(limit.Burst), strconv.FormatBool(d.Allowed),
			number(limit.Used), number(limit.Remaining), number(limit.RetryAfterMS), number(limit.ResetAfterMS), number(limit.DelayMS), strconv.FormatBool(d.Unguarded)})
	}
	return records
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// Print implements output.Answer: a line that says it all, and for several
// limits a table of them.
func (a *decisionAnswer) Print(p *output.Printer) {
	sum := together(a.decisions)
	mark := p.Paint(output.Calm, "✓ "+a.verb)
	if !sum.Allowed {
		mark = p.Paint(output.AtEnd, "✗ denied")
	}
	subject := output.Printable(a.subject)
	if sum.Unguarded {
		fmt.Fprintf(p.Out, "%s  %s: the store did not answer\n", mark, subject)
		return
	}
	if len(a.reqs) == 1 {
		fmt.Fprintf(p.Out, "%s  %s: %d of %d used, %d remaining%s\n", mark, subject,
			sum.Used, a.reqs[0].Limit.Capacity(), sum.Remaining, times(sum))
		return
	}
	fmt.Fprintf(p.Out, "%s  %s: %d remaining%s\n", mark, subject, sum.Remaining, times(sum))
	columns := []output.Column{{Header: ""}, {Header: "LIMIT", Shrinks: 12}, {Header: "USED", Right: true, Drops: 2}, {Header: "REMAINING", Right: true, Drops: 1},
		{Header: "RETRY IN", Right: true}, {Header: "RESETS IN", Right: true, Drops: 3}}
	var rows [][]output.Cell
	for i, d := range a.decisions {
		sign, style := "✓", output.Calm
		if !d.Allowed {
			sign, style = "✗", output.AtEnd
		}
		rows = append(rows, []output.Cell{{Text: sign, Style: style}, {Text: a.reqs[i].Limit.String()}, {Text: number(d.Used)},
			{Text: number(d.Remaining)}, {Text: orDash(d.RetryAfter)}, {Text: orDash(d.ResetAfter)}})
	}
	p.Table(columns, rows)
}

// times says what there is to say about waiting.
func times(d limiter.Decision) string {
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
