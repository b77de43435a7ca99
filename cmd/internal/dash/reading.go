package dash

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// readingDocument is a Reading as JSON, with the names that inspect has.
type readingDocument struct {
	Key      string `json:"key"`
	Name     string `json:"name"`
	StoreKey string `json:"store_key"`
	Layout   string `json:"layout,omitempty"` // of another limiter
	Limit    string `json:"limit"`            // empty if not all of it is known
	// RecordedLimit is the one that the key was last charged under, if another one is in force.
	RecordedLimit string `json:"recorded_limit,omitempty"`
	// Algorithm, Count, Burst and PeriodMS are what is known of the limit if that is not all.
	Algorithm    string           `json:"algorithm,omitempty"`
	Count        int64            `json:"count,omitempty"`
	Burst        int64            `json:"burst,omitempty"`
	PeriodMS     int64            `json:"period_ms,omitempty"`
	Used         *int64           `json:"used"` // as the following, null if it is not known
	Remaining    *int64           `json:"remaining"`
	RetryAfterMS *int64           `json:"retry_after_ms"`
	ResetAfterMS *int64           `json:"reset_after_ms"`
	TTLMS        int64            `json:"ttl_ms"` // -1: it never expires
	Taken        int64            `json:"taken"`
	Defects      []defectDocument `json:"defects,omitempty"`
}

// defectDocument is a defect as JSON.
type defectDocument struct {
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Stuck bool   `json:"stuck"`
}

// MarshalJSON implements json.Marshaler. What other limiters wrote can be any number; it is cut
// to what can be read back.
func (r Reading) MarshalJSON() ([]byte, error) {
	bounded := func(n int64) int64 { return min(max(0, n), mostOfAnything) }
	ifKnown := func(known bool, n int64) *int64 {
		if !known {
			return nil
		}
		n = bounded(n)
		return &n
	}
	d := readingDocument{Key: r.Key.Subject, Name: r.Key.Name, StoreKey: r.StoreKey, Layout: r.Layout,
		Used: ifKnown(r.UsedKnown(), r.Used), Remaining: ifKnown(r.RemainingKnown(), r.Remaining),
		RetryAfterMS: ifKnown(r.RetryKnown(), output.Milliseconds(r.RetryAfter)),
		ResetAfterMS: ifKnown(r.ResetKnown(), output.Milliseconds(r.ResetAfter)),
		TTLMS:        bounded(output.Milliseconds(r.TTL)), Taken: bounded(r.Taken)}
	if r.TTL < 0 {
		d.TTLMS = -1
	}
	if r.LimitKnown() {
		d.Limit = r.Limit.String()
	} else {
		if r.Limit.Algorithm != 0 {
			d.Algorithm = r.Limit.Algorithm.String()
		}
		d.Count, d.Burst, d.PeriodMS = bounded(r.Limit.Count), bounded(r.Limit.Burst), bounded(output.Milliseconds(r.Limit.Period))
	}
	if r.Recorded != (store.Limit{}) {
		d.RecordedLimit = r.Recorded.String()
	}
	for _, defect := range r.Defects {
		d.Defects = append(d.Defects, defectDocument{string(defect.Kind), defect.Text, defect.Stuck})
	}
	return json.Marshal(d)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Reading) UnmarshalJSON(text []byte) error {
	var d readingDocument
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	limit, err := d.limit()
	if err != nil {
		return err
	}
	var recorded store.Limit
	if d.RecordedLimit != "" {
		if recorded, err = store.ParseLimit(d.RecordedLimit); err != nil {
			return err
		}
	}
	orZero := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	used, remaining, retryAfter, resetAfter := orZero(d.Used), orZero(d.Remaining), orZero(d.RetryAfterMS), orZero(d.ResetAfterMS)
	for _, n := range []int64{used, remaining, d.Taken, retryAfter, resetAfter, d.TTLMS + 1, d.Count, d.Burst, d.PeriodMS} {
		if n < 0 || n > mostOfAnything+1 {
			return fmt.Errorf("the key %q has a count or a time out of range", output.Shorten(d.Key, 100))
		}
	}
	*r = Reading{Taken: d.Taken, Entry: admin.Entry{
		Key: store.Key{Subject: d.Key, Name: d.Name}, StoreKey: d.StoreKey, Limit: limit, Recorded: recorded, Layout: d.Layout,
		TTL: milliseconds(d.TTLMS), UsedUnknown: d.Used == nil,
		Decision: store.Decision{
			Used: used, Remaining: remaining, RetryAfter: milliseconds(retryAfter), ResetAfter: milliseconds(resetAfter),
		},
	}}
	for _, defect := range d.Defects {
		r.Defects = append(r.Defects, admin.Defect{Kind: admin.DefectKind(defect.Kind), Text: defect.Text, Stuck: defect.Stuck})
	}
	if r.Layout != "" { // whose keys hold anything
		r.RetryTold, r.ResetTold = d.RetryAfterMS != nil, d.ResetAfterMS != nil
		return nil
	}
	return r.Key.Validate()
}

// limit is what the document says of the limit.
func (d *readingDocument) limit() (limit store.Limit, err error) {
	if d.Limit != "" {
		return store.ParseLimit(d.Limit)
	}
	if d.Algorithm != "" {
		if limit.Algorithm, err = store.ParseAlgorithm(d.Algorithm); err != nil {
			return limit, err
		}
	}
	limit.Count, limit.Burst, limit.Period = d.Count, d.Burst, milliseconds(d.PeriodMS)
	return limit, nil
}

// mostOfAnything is more than any count or time, in milliseconds, of a limit of limitctl, and
// small enough that nothing computed with it overflows.
const mostOfAnything = 4_000_000_000_000

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
