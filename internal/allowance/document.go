package allowance

import (
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Document is an override in JSON. Fields that its effect does not use are null.
type Document struct {
	ID          string            `json:"id"`
	Subject     *string           `json:"subject"` // null if it goes by Attributes only
	Name        string            `json:"name"`
	Attributes  policy.Attributes `json:"attributes,omitempty"`
	Effect      string            `json:"effect"`
	Limit       *string           `json:"limit"`
	Factor      *float64          `json:"factor"`
	Units       *int64            `json:"units"`
	Reason      string            `json:"reason"`
	By          string            `json:"by"`
	CreatedAt   time.Time         `json:"created_at"`
	ExpiresAt   time.Time         `json:"expires_at"`
	RemainingMS int64             `json:"remaining_ms"` // until it ends
	*EndedDocument
}

// EndedDocument has what is known of the end of an override that is not in force, in a list with --all.
type EndedDocument struct {
	EndedAt   *time.Time `json:"ended_at"`   // null if the audit log does not say why it is not in force
	RevokedBy *string    `json:"revoked_by"` // null if it ended by itself
	// RevokedFor is the reason that was given for the revocation.
	RevokedFor string `json:"revoked_for"`
}

// NewDocument returns an override as it is in JSON.
func NewDocument(o *store.Override) Document {
	d := Document{ID: o.ID, Name: Pattern(o.Names), Attributes: o.Attributes,
		Effect: o.Effect.String(), Reason: o.Reason, By: o.By, CreatedAt: output.UTC(o.CreatedAt),
		ExpiresAt:   output.UTC(o.ExpiresAt),
		RemainingMS: output.Milliseconds(o.Left)}
	if len(o.Attributes) == 0 || !o.Subjects.IsZero() {
		subject := Pattern(o.Subjects)
		d.Subject = &subject
	}
	switch o.Effect {
	case store.OverrideLimit:
		text := o.Limit.String()
		d.Limit = &text
	case store.OverrideTimes:
		factor := float64(o.Thousandths) / 1000
		d.Factor = &factor
	case store.OverrideAdd:
		d.Units = &o.Units
	case store.OverrideBlock, store.OverrideExempt:
	}
	return d
}

// WhomText is for which keys an override is, for people.
func WhomText(o *store.Override) string {
	whom := output.Printable(Whom(o))
	if !o.Names.IsZero() {
		whom += ", limit " + output.Printable(Pattern(o.Names))
	}
	return whom
}
