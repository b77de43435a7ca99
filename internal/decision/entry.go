package decision

import (
	"slices"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Entry is the state of a key in JSON. Unknown values are null.
type Entry struct {
	Key      string `json:"key"`
	StoreKey string `json:"store_key"`
	TTLMS    int64  `json:"ttl_ms"` // -1: it never expires, since somebody removed the expiry
	Name     string `json:"name"`
	// Layout is that of another limiter. StoreKeys are all keys of the limit, if it has several.
	Layout       string   `json:"layout,omitempty"`
	StoreKeys    []string `json:"store_keys,omitempty"`
	Algorithm    *string  `json:"algorithm"`
	Count        *int64   `json:"count"`
	PeriodMS     *int64   `json:"period_ms"`
	Burst        *int64   `json:"burst"`
	Slices       int64    `json:"slices,omitempty"`
	WindowEndsAt string   `json:"window_ends_at,omitempty"`
	Used         *int64   `json:"used"`
	Remaining    *int64   `json:"remaining"`
	RetryAfterMS *int64   `json:"retry_after_ms"`
	ResetAfterMS *int64   `json:"reset_after_ms"`
	DelayMS      *int64   `json:"delay_ms"`
	Bytes        int64    `json:"bytes,omitempty"`
	// Defects is what is wrong with the keys of another limiter.
	Defects []Defect `json:"defects,omitempty"`
	// Override is an operator's that applies to the key.
	Override *AppliedOverride `json:"override,omitempty"`
	// Denied is how often the key was denied in the last 10 minutes; null if unknown.
	Denied *int64 `json:"denied"`
	// Policy, Limit and Attributes are those from which the key was made, if known.
	Policy     string            `json:"policy,omitempty"`
	Limit      string            `json:"limit,omitempty"`
	Attributes policy.Attributes `json:"attributes,omitempty"`
	// ConfiguredLimit is the limit of the configuration, if the key was charged under another one.
	ConfiguredLimit string `json:"configured_limit,omitempty"`
	// RecordedLimit is the limit of the last charge, if another one is in force now.
	RecordedLimit string `json:"recorded_limit,omitempty"`
}

// Defect is what is wrong with keys of another limiter, in JSON.
type Defect struct {
	Kind admin.DefectKind `json:"kind"`
	Text string           `json:"text"`
	// Stuck: the defect stays until somebody deletes the keys.
	Stuck bool `json:"stuck"`
}

// SeveralStoreKeys are the store keys of an entry that has several, else nil.
func SeveralStoreKeys(e *admin.Entry) (storeKeys []string) {
	for i := range e.Record.Members {
		if key := e.Record.Members[i].StoreKey; !slices.Contains(storeKeys, key) {
			storeKeys = append(storeKeys, key)
		}
	}
	if len(storeKeys) < 2 {
		return nil
	}
	return storeKeys
}

// Facts are facts about a key besides its state.
type Facts struct {
	Denied  int64 // how often it was denied lately
	Counted bool  // the store counts that
	// Configured is the limit of the configuration, if the key was charged under another one.
	Configured store.Limit
	// Override is the operator's that applies to the key, or nil.
	Override *store.Override
}

// NewEntry describes an entry.
func NewEntry(e *admin.Entry, facts Facts) *Entry {
	d := &Entry{Key: e.Key.Subject, StoreKey: e.StoreKey, TTLMS: output.Milliseconds(e.TTL), Name: e.Key.Name,
		Layout: e.Layout,
		Slices: e.Limit.Slices, WindowEndsAt: WindowEnd(e.Limit), Bytes: e.Bytes}
	if e.TTL < 0 {
		d.TTLMS = -1
	}
	if e.Limit.Algorithm != 0 {
		d.Algorithm = new(e.Limit.Algorithm.String())
	}
	if e.CapacityKnown() {
		d.Count, d.Burst = &e.Limit.Count, new(e.Limit.Capacity())
	}
	if e.Limit.Period > 0 {
		d.PeriodMS = new(output.Milliseconds(e.Limit.Period))
	}
	if e.UsedKnown() {
		d.Used = &e.Used
	}
	if e.RemainingKnown() {
		d.Remaining = &e.Remaining
	}
	if e.RetryKnown() {
		d.RetryAfterMS, d.DelayMS = new(output.Milliseconds(e.RetryAfter)), new(output.Milliseconds(e.Delay))
	}
	if e.ResetKnown() {
		d.ResetAfterMS = new(output.Milliseconds(e.ResetAfter))
	}
	if facts.Counted {
		d.Denied = &facts.Denied
	}
	for _, defect := range e.Defects {
		d.Defects = append(d.Defects, Defect(defect))
	}
	if e.Layout != "" {
		d.StoreKeys = SeveralStoreKeys(e)
	} else if parts, isPolicys := policy.ParseKey(e.Key); isPolicys {
		d.Policy, d.Limit, d.Attributes = parts.Policy, parts.Limit, allowance.AttributesOf(parts.Attributes)
	} else if attributes, is := policy.ParseSubject(e.Key.Subject); is {
		d.Attributes = allowance.AttributesOf(attributes)
	}
	d.Override = NewAppliedOverride(facts.Override, store.Limit{})
	if facts.Configured != (store.Limit{}) {
		d.ConfiguredLimit = facts.Configured.String()
	}
	if e.Recorded != (store.Limit{}) {
		d.RecordedLimit = e.Recorded.String()
	}
	return d
}
