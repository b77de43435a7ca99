package decision

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Limit is the state of one limit, in all JSON.
type Limit struct {
	Name         string `json:"name"`
	Algorithm    string `json:"algorithm"`
	Count        int64  `json:"count"`
	PeriodMS     int64  `json:"period_ms"`
	Burst        int64  `json:"burst"`
	Slices       int64  `json:"slices,omitempty"`
	Leave        int64  `json:"leave,omitempty"` // to others, of a decision
	WindowEndsAt string `json:"window_ends_at,omitempty"`
	Allowed      *bool  `json:"allowed,omitempty"`
	Used         int64  `json:"used"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	DelayMS      int64  `json:"delay_ms"`
}

// newLimit describes a limit with that name after decision d.
func newLimit(name string, limit store.Limit, d store.Decision) Limit {
	return Limit{
		Name:         name,
		Algorithm:    limit.Algorithm.String(),
		Count:        limit.Count,
		PeriodMS:     output.Milliseconds(limit.Period),
		Burst:        limit.Burst,
		Slices:       limit.Slices,
		WindowEndsAt: WindowEnd(limit),
		Used:         d.Used,
		Remaining:    d.Remaining,
		RetryAfterMS: output.Milliseconds(d.RetryAfter),
		ResetAfterMS: output.Milliseconds(d.ResetAfter),
		DelayMS:      output.Milliseconds(d.Delay),
	}
}

// WindowEnd returns when the window ends that a limit with a calendar is in, as JSON has it; empty for none.
func WindowEnd(limit store.Limit) string {
	end, has := limit.WindowEnds()
	if !has {
		return ""
	}
	return end.Format(time.RFC3339)
}

// Decided is a decided limit, for tables.
type Decided struct {
	Limit
	// For a policy's limit: its name in the policy, and the number of the policy's override that applies, from 1.
	PolicysName string
	Override    int
	// Applied is an operator's override that applied. The limit above includes its effect.
	Applied *AppliedOverride
	// DecidedBy is the decider, if there is one.
	DecidedBy string
}

// Decided describes limit i of the answer.
func (a *Answer) Decided(i int) Decided {
	d := &a.Decisions[i]
	decided := Decided{Limit: newLimit(a.Requests[i].Key.Name, a.Effective(i), *d), DecidedBy: decidedBy(d),
		Applied: NewAppliedOverride(d.Override, a.Requests[i].Limit)}
	decided.Leave = a.Leave(i)
	if a.Policy != nil {
		decided.PolicysName, decided.Override = a.LimitName(i), a.Overrides[i]+1
	}
	return decided
}

// decidedBy names the decider. A limit that was not decided, because another one had denied already, has none.
func decidedBy(d *store.Decision) string {
	if d.Unguarded && d.DecidedBy == store.DecidedByStore {
		return ""
	}
	return d.DecidedBy.String()
}

// Document is the answer in JSON.
func (a *Answer) Document() json.RawMessage { return a.AppendJSON(nil) }

// RefundDocument is [Answer.Document] for a refund: it also has the refunded units, the most of one limit and those of
// each.
func (a *Answer) RefundDocument() json.RawMessage { return a.AppendRefundJSON(nil) }

// AppendJSON appends [Answer.Document] in the form of [output.JSON]. It is written by hand, since a server answers many
// requests, and encoding/json takes seven times as long.
func (a *Answer) AppendJSON(b []byte) []byte {
	b = append(a.appendDocument(b), `,"limits":[`...)
	for i := range a.Decisions {
		b = append(a.appendDecided(b, i), '}')
	}
	return append(b, "]}"...)
}

// AppendRefundJSON is [Answer.AppendJSON] for [Answer.RefundDocument].
func (a *Answer) AppendRefundJSON(b []byte) []byte {
	b = a.appendDocument(b)
	b = appendNumber(b, `,"refunded":`, a.Refunded())
	b = append(b, `,"limits":[`...)
	for i := range a.Decisions {
		b = a.appendDecided(b, i)
		b = append(appendNumber(b, `,"refunded":`, a.Decisions[i].Refunded), '}')
	}
	return append(b, "]}"...)
}

// appendDocument appends a document up to its limits. Where limits have their own costs, only they have a cost and what
// remains. The override of the document is that of the limit that denied, if one did.
func (a *Answer) appendDocument(b []byte) []byte {
	sum := store.Summarize(a.Decisions)
	b = appendNumber(b, `{"schema_version":`, output.SchemaVersion)
	if a.Policy != nil {
		b = appendOptional(b, `,"policy":`, a.Policy.Name)
	}
	b = appendBool(b, `,"allowed":`, sum.Allowed)
	b = appendText(b, `,"key":`, a.Key)
	if !a.OwnCosts() {
		b = appendNumber(b, `,"cost":`, a.Requests[0].Cost)
		b = appendNumber(b, `,"remaining":`, sum.Remaining)
	}
	b = appendTimes(b, sum.RetryAfter, sum.ResetAfter, sum.Delay)
	if a.Charges && !a.OwnCosts() {
		b = appendNumber(b, `,"granted":`, sum.Granted)
	}
	b = appendFlag(b, `,"repeated":true`, sum.Repeated)
	b = appendFlag(b, `,"unguarded":true`, sum.Unguarded)
	b = appendText(b, `,"decided_by":`, sum.DecidedBy.String())
	if sum.DecidedBy == store.DecidedByLocal {
		b = appendText(b, `,"local_share":`, a.localShare().String())
	}
	if slices.ContainsFunc(a.Decisions, func(d store.Decision) bool { return d.Override != nil }) {
		b = a.Applied().append(append(b, `,"applied_override":`...))
	}
	for n, i := range sum.DeniedBy {
		before := ","
		if n == 0 {
			before = `,"denied_by":[`
		}
		b = appendText(b, before, a.LimitName(i))
	}
	return appendFlag(b, "]", len(sum.DeniedBy) > 0)
}

// appendDecided appends limit i without its last brace, and with a comma before all but the first.
func (a *Answer) appendDecided(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	d, limit := &a.Decisions[i], a.Effective(i)
	b = appendText(b, `{"name":`, a.Requests[i].Key.Name)
	b = appendText(b, `,"algorithm":`, limit.Algorithm.String())
	b = appendNumber(b, `,"count":`, limit.Count)
	b = appendNumber(b, `,"period_ms":`, output.Milliseconds(limit.Period))
	b = appendNumber(b, `,"burst":`, limit.Burst)
	if limit.Slices != 0 {
		b = appendNumber(b, `,"slices":`, limit.Slices)
	}
	if a.Requests[i].Leave != 0 {
		b = appendNumber(b, `,"leave":`, a.Leave(i))
	}
	b = appendOptional(b, `,"window_ends_at":`, WindowEnd(limit))
	b = appendBool(b, `,"allowed":`, d.Allowed)
	b = appendNumber(b, `,"used":`, d.Used)
	b = appendNumber(b, `,"remaining":`, d.Remaining)
	b = appendTimes(b, d.RetryAfter, d.ResetAfter, d.Delay)
	if a.Policy != nil {
		b = appendOptional(b, `,"limit":`, a.LimitName(i))
		b = appendOptional(b, `,"key":`, a.Requests[i].Key.Subject)
	}
	b = appendFlag(b, `,"shadow":true`, d.Shadow)
	if a.Policy != nil && a.Overrides[i] >= 0 {
		b = appendNumber(b, `,"override":`, int64(a.Overrides[i]+1))
	}
	if a.OwnCosts() {
		b = appendNumber(b, `,"cost":`, a.Requests[i].Cost)
	}
	if d.Override != nil {
		b = NewAppliedOverride(d.Override, a.Requests[i].Limit).append(append(b, `,"applied_override":`...))
	}
	b = appendFlag(b, `,"unguarded":true`, d.Unguarded) // nothing is known of it
	b = appendOptional(b, `,"decided_by":`, decidedBy(d))
	if a.Charges {
		b = appendNumber(b, `,"granted":`, d.Granted)
	}
	return b
}

// AppliedOverride is the operator's override of a decision.
type AppliedOverride struct {
	ID, Effect string
	ExpiresAt  time.Time
	Reason, By string
	Asked      string // the limit without the override, empty if that is unknown
}

// NewAppliedOverride returns nil for no override. asked is the limit without it, or zero if that is unknown.
func NewAppliedOverride(o *store.Override, asked store.Limit) *AppliedOverride {
	if o == nil {
		return nil
	}
	applied := &AppliedOverride{ID: o.ID, Effect: o.Effect.String(), ExpiresAt: output.UTC(o.ExpiresAt), Reason: o.Reason, By: o.By}
	if asked.Count != 0 {
		applied.Asked = asked.String()
	}
	return applied
}

// Cells returns the override in CSV, empty for none.
func (a *AppliedOverride) Cells() []string {
	if a == nil {
		return make([]string, 5)
	}
	return []string{a.ID, a.Effect, a.ExpiresAt.Format(time.RFC3339), a.Reason, a.By}
}

// MarshalJSON implements [json.Marshaler].
func (a *AppliedOverride) MarshalJSON() ([]byte, error) { return a.append(nil), nil }

func (a *AppliedOverride) append(b []byte) []byte {
	b = appendText(b, `{"id":`, a.ID)
	b = appendText(b, `,"effect":`, a.Effect)
	b = append(b, `,"expires_at":"`...)
	b = append(a.ExpiresAt.AppendFormat(b, time.RFC3339Nano), '"')
	b = appendText(b, `,"reason":`, a.Reason)
	b = appendText(b, `,"by":`, a.By)
	return append(appendOptional(b, `,"asked":`, a.Asked), '}')
}

func appendTimes(b []byte, retryAfter, resetAfter, delay time.Duration) []byte {
	b = appendNumber(b, `,"retry_after_ms":`, output.Milliseconds(retryAfter))
	b = appendNumber(b, `,"reset_after_ms":`, output.Milliseconds(resetAfter))
	return appendNumber(b, `,"delay_ms":`, output.Milliseconds(delay))
}

func appendNumber(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

func appendBool(b []byte, name string, value bool) []byte {
	return strconv.AppendBool(append(b, name...), value)
}

// appendFlag appends a text if is is true.
func appendFlag(b []byte, text string, is bool) []byte {
	if is {
		b = append(b, text...)
	}
	return b
}

func appendText(b []byte, name, text string) []byte {
	return output.AppendJSONText(append(b, name...), text)
}

// appendOptional appends a text unless it is empty.
func appendOptional(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(b, name, text)
}
