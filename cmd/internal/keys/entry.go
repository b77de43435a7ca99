package keys

import (
	"slices"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// entryDocument is an entry in JSON. Unknown values are null.
type entryDocument struct {
	Key      string `json:"key"`
	StoreKey string `json:"store_key"`
	TTLMS    int64  `json:"ttl_ms"` // -1: it never expires, since somebody removed the expiry
	Name     string `json:"name"`
	// Layout is that of another limiter. StoreKeys are all keys of the limit, if it has several.
	Layout    string   `json:"layout,omitempty"`
	StoreKeys []string `json:"store_keys,omitempty"`
	// KeyBase64 and so on are the bytes of texts that are not UTF-8, which JSON cannot hold.
	KeyBase64       string   `json:"key_base64,omitempty"`
	StoreKeyBase64  string   `json:"store_key_base64,omitempty"`
	NameBase64      string   `json:"name_base64,omitempty"`
	StoreKeysBase64 []string `json:"store_keys_base64,omitempty"`
	Algorithm       *string  `json:"algorithm"`
	Count           *int64   `json:"count"`
	PeriodMS        *int64   `json:"period_ms"`
	Burst           *int64   `json:"burst"`
	Slices          int64    `json:"slices,omitempty"`
	WindowEndsAt    string   `json:"window_ends_at,omitempty"`
	Used            *int64   `json:"used"`
	Remaining       *int64   `json:"remaining"`
	RetryAfterMS    *int64   `json:"retry_after_ms"`
	ResetAfterMS    *int64   `json:"reset_after_ms"`
	DelayMS         *int64   `json:"delay_ms"`
	Bytes           int64    `json:"bytes,omitempty"`
	// Defects is what is wrong with the keys of another limiter.
	Defects []defectDocument `json:"defects,omitempty"`
	// Override is an operator's that applies to the key.
	Override *decision.AppliedOverride `json:"override,omitempty"`
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

	// The values of the pointers above, in one allocation: there can be millions of entries.
	algorithm string
	numbers   [9]int64
}

// defectDocument is what is wrong with keys of another limiter, in JSON.
type defectDocument struct {
	Kind admin.DefectKind `json:"kind"`
	Text string           `json:"text"`
	// Stuck: the defect stays until somebody deletes the keys.
	Stuck bool `json:"stuck"`
}

// severalStoreKeys are the store keys of an entry that has several, else nil.
func severalStoreKeys(e *admin.Entry) (storeKeys []string) {
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

func newEntryDocument(row *inspectRow, facts *keyFacts) *entryDocument {
	e := &row.entry
	d := &entryDocument{Key: e.Key.Subject, StoreKey: e.StoreKey, TTLMS: output.Milliseconds(e.TTL), Name: e.Key.Name, Layout: e.Layout,
		Slices: e.Limit.Slices, WindowEndsAt: decision.WindowEnd(e.Limit), Bytes: e.Bytes}
	if e.TTL < 0 {
		d.TTLMS = -1
	}
	if e.Limit.Algorithm != 0 {
		d.algorithm = e.Limit.Algorithm.String()
		d.Algorithm = &d.algorithm
	}
	for i, field := range [...]struct {
		to    **int64
		known bool
		value int64
	}{
		{&d.Count, e.CapacityKnown(), e.Limit.Count},
		{&d.PeriodMS, e.Limit.Period > 0, output.Milliseconds(e.Limit.Period)},
		{&d.Burst, e.CapacityKnown(), e.Limit.Capacity()},
		{&d.Used, e.UsedKnown(), e.Used},
		{&d.Remaining, e.RemainingKnown(), e.Remaining},
		{&d.RetryAfterMS, e.RetryKnown(), output.Milliseconds(e.RetryAfter)},
		{&d.ResetAfterMS, e.ResetKnown(), output.Milliseconds(e.ResetAfter)},
		{&d.DelayMS, e.RetryKnown(), output.Milliseconds(e.Delay)},
		{&d.Denied, facts.counted, row.denied},
	} {
		if field.known {
			d.numbers[i] = field.value
			*field.to = &d.numbers[i]
		}
	}
	for _, defect := range e.Defects {
		d.Defects = append(d.Defects, defectDocument(defect))
	}
	if e.Layout != "" {
		d.StoreKeys = severalStoreKeys(e)
		d.KeyBase64, d.StoreKeyBase64 = output.Base64IfNeeded(e.Key.Subject), output.Base64IfNeeded(e.StoreKey)
		d.NameBase64, d.StoreKeysBase64 = output.Base64IfNeeded(e.Key.Name), output.AllBase64IfNeeded(d.StoreKeys)
	} else if parts, isPolicys := policy.ParseKey(e.Key); isPolicys {
		d.Policy, d.Limit, d.Attributes = parts.Policy, parts.Limit, cli.AttributesOf(parts.Attributes)
	} else if attributes, is := policy.ParseSubject(e.Key.Subject); is {
		d.Attributes = cli.AttributesOf(attributes)
	}
	d.Override = decision.NewAppliedOverride(row.override, store.Limit{})
	if row.hasDrifted() {
		d.ConfiguredLimit = row.configured.String()
	}
	if e.Recorded != (store.Limit{}) {
		d.RecordedLimit = e.Recorded.String()
	}
	return d
}

// barWidth is the bar's columns in the table.
const barWidth = 10

// barText draws the used share of the limit, or nothing if it is unknown.
func barText(e *admin.Entry) string {
	if !e.RemainingKnown() {
		return ""
	}
	return output.Bar(e.Used, e.Limit.Capacity(), barWidth)
}

// resetText is when a key is unused again, or a warning if it stays for ever. A key that its limiter keeps on purpose
// without an expiry gets its units back anyway.
func resetText(e *admin.Entry) output.Cell {
	switch {
	case e.TTL < 0 && !e.KeptOnPurpose():
		return output.Cell{Text: "no TTL", Style: output.Near}
	case !e.ResetKnown():
		return output.Cell{Text: cli.NotKnown}
	}
	if end, has := e.LastLimit().WindowEnds(); has && e.ResetAfter > 0 {
		return output.Cell{Text: output.Minute(end)}
	}
	return output.Cell{Text: cli.OrDash(e.ResetAfter)}
}

// rowLimitText is the limit of a row, and the limit under the override.
func rowLimitText(row *inspectRow) string {
	o := row.override
	switch {
	case o == nil:
		return limitText(&row.entry)
	case o.Effect == store.OverrideLimit:
		return allowance.Effect(o)
	}
	before := row.entry
	before.Limit = row.limit
	return limitText(&before) + " " + allowance.Effect(o)
}

// limitText is the limit, without the algorithm where the key's name says it.
func limitText(e *admin.Entry) string {
	text := e.LimitText()
	if e.LimitKnown() && e.Key.Name == e.Limit.DefaultName() {
		text = text[len(e.Limit.Algorithm.String())+1:]
	}
	return text
}

func usedText(e *admin.Entry) string {
	used, capacity := cli.NotKnown, cli.NotKnown
	if e.UsedKnown() {
		used = cli.Number(e.Used)
	}
	if e.CapacityKnown() {
		capacity = cli.Number(e.Limit.Capacity())
	}
	return used + "/" + capacity
}

func remainingText(e *admin.Entry) string {
	if !e.RemainingKnown() {
		return cli.NotKnown
	}
	return cli.Number(e.Remaining)
}

// closeness is the colour of an entry: calm, near the limit, or at it.
func closeness(e *admin.Entry) output.Style {
	switch share, known := e.Share(); {
	case !known:
		return output.Plain
	case e.AtLimit():
		return output.AtEnd
	case share >= admin.NearShare:
		return output.Near
	}
	return output.Calm
}
