package decision

import (
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Limit is the state of one limit after a decision. It includes the effect of an operator's override that applied.
type Limit struct {
	Name         string `json:"name"`
	Algorithm    string `json:"algorithm"`
	Count        int64  `json:"count"`
	PeriodMS     int64  `json:"period_ms"`
	Burst        int64  `json:"burst"`
	Slices       int64  `json:"slices,omitempty"`
	Leave        *int64 `json:"leave,omitempty"` // the units that the request leaves to other classes
	WindowEndsAt string `json:"window_ends_at,omitempty"`
	Allowed      bool   `json:"allowed"`
	Used         int64  `json:"used"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	DelayMS      int64  `json:"delay_ms"`

	// For a policy's limit: its name in the policy, its subject, and the number of the policy's override that applies.

	PolicysName string           `json:"limit,omitempty"`
	Key         string           `json:"key,omitempty"`
	Shadow      bool             `json:"shadow,omitempty"`
	Override    int              `json:"override,omitempty"`
	Cost        *int64           `json:"cost,omitempty"`
	Applied     *AppliedOverride `json:"applied_override,omitempty"`
	Unguarded   bool             `json:"unguarded,omitempty"`
	DecidedBy   string           `json:"decided_by,omitempty"`
	Granted     *int64           `json:"granted,omitempty"`
	Refunded    *int64           `json:"refunded,omitempty"` // the units that came back
}

// WindowEnd returns when the window ends that a limit with a calendar is in, as JSON has it; empty for none.
func WindowEnd(limit store.Limit) string {
	end, has := limit.WindowEnds()
	if !has {
		return ""
	}
	return end.Format(time.RFC3339)
}

// Decided describes limit i of the answer.
func (a *Answer) Decided(i int) Limit {
	d, limit := &a.Decisions[i], a.Effective(i)
	l := Limit{Name: a.Requests[i].Key.Name, Algorithm: limit.Algorithm.String(), Count: limit.Count,
		PeriodMS: output.Milliseconds(limit.Period), Burst: limit.Burst, Slices: limit.Slices,
		WindowEndsAt: WindowEnd(limit),
		Allowed:      d.Allowed, Used: d.Used, Remaining: d.Remaining, RetryAfterMS: output.Milliseconds(d.RetryAfter),
		ResetAfterMS: output.Milliseconds(d.ResetAfter), DelayMS: output.Milliseconds(d.Delay), Shadow: d.Shadow,
		Applied: NewAppliedOverride(d.Override, a.Requests[i].Limit), Unguarded: d.Unguarded, DecidedBy: decidedBy(d)}
	if a.Requests[i].Leave != 0 {
		l.Leave = new(a.Leave(i))
	}
	if a.Policy != nil {
		l.PolicysName, l.Key, l.Override = a.LimitName(i), a.Requests[i].Key.Subject, a.Overrides[i]+1
	}
	if a.OwnCosts() {
		l.Cost = &a.Requests[i].Cost
	}
	if a.Charges {
		l.Granted = &d.Granted
	}
	return l
}

// decidedBy names the decider. A limit that was not decided, because another one had denied already, has none.
func decidedBy(d *store.Decision) string {
	if d.Unguarded && d.DecidedBy == store.DecidedByStore {
		return ""
	}
	return d.DecidedBy.String()
}

// Document is an answer in JSON. Where limits have their own costs, only they have a cost and what remains. The
// override of the document is that of the limit that denied, if one did.
type Document struct {
	SchemaVersion int              `json:"schema_version"`
	Policy        string           `json:"policy,omitempty"`
	Allowed       bool             `json:"allowed"`
	Key           string           `json:"key"`
	Cost          *int64           `json:"cost,omitempty"`
	Remaining     *int64           `json:"remaining,omitempty"`
	RetryAfterMS  int64            `json:"retry_after_ms"`
	ResetAfterMS  int64            `json:"reset_after_ms"`
	DelayMS       int64            `json:"delay_ms"`
	Granted       *int64           `json:"granted,omitempty"`
	Repeated      bool             `json:"repeated,omitempty"`
	Unguarded     bool             `json:"unguarded,omitempty"`
	DecidedBy     string           `json:"decided_by"`
	LocalShare    string           `json:"local_share,omitempty"`
	Applied       *AppliedOverride `json:"applied_override,omitempty"`
	DeniedBy      []string         `json:"denied_by,omitempty"`
	Refunded      *int64           `json:"refunded,omitempty"` // the most units that came back of one limit
	Limits        []Limit          `json:"limits"`
}

// Document is the answer in JSON.
func (a *Answer) Document() *Document {
	sum := store.Summarize(a.Decisions)
	d := &Document{SchemaVersion: output.SchemaVersion, Allowed: sum.Allowed, Key: a.Key,
		RetryAfterMS: output.Milliseconds(sum.RetryAfter), ResetAfterMS: output.Milliseconds(sum.ResetAfter),
		DelayMS: output.Milliseconds(sum.Delay), Repeated: sum.Repeated, Unguarded: sum.Unguarded,
		DecidedBy: sum.DecidedBy.String(),
		Applied:   a.Applied(), Limits: make([]Limit, len(a.Decisions))}
	if a.Policy != nil {
		d.Policy = a.Policy.Name
	}
	if !a.OwnCosts() {
		d.Cost, d.Remaining = &a.Requests[0].Cost, &sum.Remaining
		if a.Charges {
			d.Granted = &sum.Granted
		}
	}
	if sum.DecidedBy == store.DecidedByLocal {
		d.LocalShare = a.localShare().String()
	}
	for _, i := range sum.DeniedBy {
		d.DeniedBy = append(d.DeniedBy, a.LimitName(i))
	}
	for i := range d.Limits {
		d.Limits[i] = a.Decided(i)
	}
	return d
}

// RefundDocument is [Answer.Document] for a refund: it also has the refunded units.
func (a *Answer) RefundDocument() *Document {
	d := a.Document()
	d.Refunded = new(a.Refunded())
	for i := range d.Limits {
		d.Limits[i].Refunded = &a.Decisions[i].Refunded
	}
	return d
}

// AppliedOverride is the operator's override of a decision.
type AppliedOverride struct {
	ID        string    `json:"id"`
	Effect    string    `json:"effect"`
	ExpiresAt time.Time `json:"expires_at"`
	Reason    string    `json:"reason"`
	By        string    `json:"by"`
	Asked     string    `json:"asked,omitempty"` // the limit without the override
}

// NewAppliedOverride returns nil for no override. asked is the limit without it, or zero if that is unknown.
func NewAppliedOverride(o *store.Override, asked store.Limit) *AppliedOverride {
	if o == nil {
		return nil
	}
	applied := &AppliedOverride{ID: o.ID, Effect: o.Effect.String(), ExpiresAt: output.UTC(o.ExpiresAt),
		Reason: o.Reason, By: o.By}
	if asked.Count != 0 {
		applied.Asked = asked.String()
	}
	return applied
}

// Text is the override in a cell: its ID, empty for none.
func (a *AppliedOverride) Text() string {
	if a == nil {
		return ""
	}
	return a.ID
}
