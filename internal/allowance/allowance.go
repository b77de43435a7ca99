// Package allowance compares how much limits allow, applies a block to an entry, and describes an override: what it
// does and for whom, in the same words wherever it is shown.
package allowance

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Compare compares how much two limits allow: over time, in units per time, and at once, in units of an unused key.
// Each result is 1 if after allows more than before, -1 if less, and 0 if equal. The result is exact. Algorithms
// are not compared.
func Compare(before, after store.Limit) (overTime, atOnce int) {
	// Units per time compare like the cross products, which need 128 bits.
	afterHigh, afterLow := bits.Mul64(uint64(after.Count), uint64(before.Period))
	beforeHigh, beforeLow := bits.Mul64(uint64(before.Count), uint64(after.Period))
	return cmp.Or(cmp.Compare(afterHigh, beforeHigh), cmp.Compare(afterLow, beforeLow)),
		cmp.Compare(after.Capacity(), before.Capacity())
}

// Block changes an entry if the override of its key, which is one of list and has that time left, is a block: nothing
// remains, and RetryAfter is at least the time until the last block of the key ends. The override may be nil. The keys
// of other limiters have none.
func Block(e *admin.Entry, list *store.OverrideList, override *store.Override, left time.Duration) {
	if override != nil && override.Effect == store.OverrideBlock && e.Layout == "" {
		left += list.BlockedUntil(&e.Key, override).Time().Sub(override.ExpiresAt)
		e.Allowed, e.Remaining, e.RetryAfter = false, 0, max(e.RetryAfter, left)
	}
}

// Effect returns the effect of an override in a word or two: "600/1m", "×3", "+500", "block".
func Effect(o *store.Override) string {
	switch o.Effect {
	case store.OverrideLimit:
		return o.Limit.String()
	case store.OverrideTimes:
		return "×" + factor(o.Thousandths)
	case store.OverrideAdd:
		return fmt.Sprintf("%+d", o.Units)
	default:
		return o.Effect.String()
	}
}

// factor writes a factor that is given in thousandths, such as "2.5" for 2500.
func factor(thousandths int64) string {
	return strconv.FormatFloat(float64(thousandths)/1000, 'f', -1, 64)
}

// Pattern writes a pattern in a form that can be read back. The zero pattern is everything.
func Pattern(p store.Pattern) string { return cmp.Or(p.String(), "*") }

// Whom returns the subjects of an override: a pattern, or a policy's attributes.
func Whom(o *store.Override) string {
	if len(o.Attributes) == 0 {
		return Pattern(o.Subjects)
	}
	var parts []string
	if !o.Subjects.IsZero() {
		parts = append(parts, Pattern(o.Subjects))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Attributes)) {
		parts = append(parts, name+"="+o.Attributes[name])
	}
	return strings.Join(parts, " ")
}

// All returns for which keys an override is, for people, and its effect.
func All(o *store.Override) string { return WhomText(o) + ", " + Effect(o) }

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
