package decision

import (
	"slices"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// AppendJSON appends [Answer.Document] in the form of [output.JSON]. It does not build the document, since a server
// answers many requests.
func (a *Answer) AppendJSON(b []byte) []byte { return append(a.appendFields(b), '}') }

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

// appendFields appends a document without its last brace.
func (a *Answer) appendFields(b []byte) []byte {
	b = append(a.appendDocument(b), `,"limits":[`...)
	for i := range a.Decisions {
		b = append(a.appendDecided(b, i), '}')
	}
	return append(b, ']')
}

// appendDocument appends a document up to its limits.
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
		b = a.Applied().append(b)
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

// appendDecided appends a [Decided] without its last brace, and with a comma before all but the first.
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
	b = NewAppliedOverride(d.Override, a.Requests[i].Limit).append(b)
	b = appendFlag(b, `,"unguarded":true`, d.Unguarded)
	b = appendOptional(b, `,"decided_by":`, decidedBy(d))
	if a.Charges {
		b = appendNumber(b, `,"granted":`, d.Granted)
	}
	return b
}

// append appends the field of an override, if there is one.
func (o *AppliedOverride) append(b []byte) []byte {
	if o == nil {
		return b
	}
	b = appendText(b, `,"applied_override":{"id":`, o.ID)
	b = appendText(b, `,"effect":`, o.Effect)
	b = append(b, `,"expires_at":"`...)
	b = append(o.ExpiresAt.AppendFormat(b, time.RFC3339Nano), '"')
	b = appendText(b, `,"reason":`, o.Reason)
	b = appendText(b, `,"by":`, o.By)
	return append(appendOptional(b, `,"asked":`, o.Asked), '}')
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
