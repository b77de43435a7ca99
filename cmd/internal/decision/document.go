package decision

import (
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
	Allowed      *bool  `json:"allowed,omitempty"`
	Used         int64  `json:"used"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	DelayMS      int64  `json:"delay_ms"`
}

// NewLimit describes a limit with that name after decision d.
func NewLimit(name string, limit store.Limit, d store.Decision) Limit {
	return Limit{
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

// Decided is a decided limit.
type Decided struct {
	Limit
	// For a policy's limit: its name in the policy, its subject, and the number of the policy's override that
	// applies, from 1.
	PolicysName string `json:"limit,omitempty"`
	Key         string `json:"key,omitempty"`
	Shadow      bool   `json:"shadow,omitempty"`
	Override    int    `json:"override,omitempty"`
	// Cost is the cost for the limit, if limits of the policy have their own costs.
	Cost *int64 `json:"cost,omitempty"`
	// Applied is an operator's override that applied. The limit above includes its effect.
	Applied *AppliedOverride `json:"applied_override,omitempty"`
	// Unguarded: the store was unreachable, so nothing is known of this limit.
	Unguarded bool `json:"unguarded,omitempty"`
	// DecidedBy is the decider, if there is one.
	DecidedBy string `json:"decided_by,omitempty"`
	// Granted is the number of units that were charged to the limit.
	Granted *int64 `json:"granted,omitempty"`
}

// Decided describes limit i of the answer.
func (a *Answer) Decided(i int) Decided {
	d := &a.Decisions[i]
	document := Decided{Limit: NewLimit(a.Requests[i].Key.Name, a.Effective(i), *d), Shadow: d.Shadow,
		Applied: NewAppliedOverride(d.Override, a.Requests[i].Limit), Unguarded: d.Unguarded, DecidedBy: decidedBy(d)}
	document.Allowed = &d.Allowed
	if a.Charges {
		document.Granted = &d.Granted
	}
	if a.Policy != nil {
		document.PolicysName, document.Key, document.Override = a.LimitName(i), a.Requests[i].Key.Subject, a.Overrides[i]+1
	}
	if a.OwnCosts() {
		document.Cost = &a.Requests[i].Cost
	}
	return document
}

// decidedBy names the decider. A limit that was not decided, because another one had denied already, has none.
func decidedBy(d *store.Decision) string {
	if d.Unguarded && d.DecidedBy == store.DecidedByStore {
		return ""
	}
	return d.DecidedBy.String()
}

// Document is the answer as JSON.
type Document struct {
	SchemaVersion int    `json:"schema_version"`
	Policy        string `json:"policy,omitempty"`
	Allowed       bool   `json:"allowed"`
	Key           string `json:"key"`
	// Cost is the cost for each limit, and Remaining the smallest number that remains of one. If limits have their
	// own costs, they have both.
	Cost         *int64 `json:"cost,omitempty"`
	Remaining    *int64 `json:"remaining,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	DelayMS      int64  `json:"delay_ms"`
	// Granted is what was charged, if Repeated by the first call with the token.
	Granted  *int64 `json:"granted,omitempty"`
	Repeated bool   `json:"repeated,omitempty"`
	// Unguarded: the store was unreachable, and the failure policy decided.
	Unguarded bool `json:"unguarded,omitempty"`
	// DecidedBy is the decider of the decision that determines the answer, and LocalShare its share, if it is a
	// local shadow.
	DecidedBy  string `json:"decided_by"`
	LocalShare string `json:"local_share,omitempty"`
	// Applied is an operator's override that applied: that of the limit that denied, if one did.
	Applied *AppliedOverride `json:"applied_override,omitempty"`
	// DeniedBy names the limits that denied.
	DeniedBy []string  `json:"denied_by,omitempty"`
	Limits   []Decided `json:"limits"`
}

// Document returns the answer as JSON.
func (a *Answer) Document() Document {
	sum := store.Summarize(a.Decisions)
	document := Document{
		SchemaVersion: output.SchemaVersion,
		Allowed:       sum.Allowed,
		Key:           a.Key,
		RetryAfterMS:  output.Milliseconds(sum.RetryAfter),
		ResetAfterMS:  output.Milliseconds(sum.ResetAfter),
		DelayMS:       output.Milliseconds(sum.Delay),
		Repeated:      sum.Repeated,
		Unguarded:     sum.Unguarded,
		DecidedBy:     sum.DecidedBy.String(),
		Applied:       a.Applied(),
		DeniedBy:      a.DeniedBy(),
		Limits:        []Decided{},
	}
	if !a.OwnCosts() {
		document.Cost, document.Remaining = &a.Requests[0].Cost, &sum.Remaining
	}
	if a.Charges && !a.OwnCosts() {
		document.Granted = &sum.Granted
	}
	if a.Policy != nil {
		document.Policy = a.Policy.Name
	}
	if sum.DecidedBy == store.DecidedByLocal {
		document.LocalShare = a.localShare().String()
	}
	for i := range a.Decisions {
		document.Limits = append(document.Limits, a.Decided(i))
	}
	return document
}

// RefundDocument is the answer to a refund as JSON: it has the refunded units, the most of one limit and those of
// each.
type RefundDocument struct {
	Document
	Refunded int64      `json:"refunded"`
	Limits   []Refunded `json:"limits"`
}

// Refunded is a decided limit and its refunded units.
type Refunded struct {
	Decided
	Refunded int64 `json:"refunded"`
}

// RefundDocument returns the answer to a refund as JSON.
func (a *Answer) RefundDocument() RefundDocument {
	document := RefundDocument{Document: a.Document(), Refunded: a.Refunded()}
	for i, limit := range document.Document.Limits {
		document.Limits = append(document.Limits, Refunded{limit, a.Decisions[i].Refunded})
	}
	return document
}

// AppliedOverride is the operator's override of a decision.
type AppliedOverride struct {
	ID        string    `json:"id"`
	Effect    string    `json:"effect"`
	ExpiresAt time.Time `json:"expires_at"`
	Reason    string    `json:"reason"`
	By        string    `json:"by"`
	// Asked is the limit without the override.
	Asked string `json:"asked,omitempty"`
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
