package page

import (
	"encoding/json"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/dash"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// liveDocument is an event of /api/live. Its texts are for people; times are in milliseconds.
type liveDocument struct {
	SchemaVersion int       `json:"schema_version"`
	At            time.Time `json:"at"`
	Store         string    `json:"store"`
	Masked        bool      `json:"masked"`
	// Problem is why the store could not be read, and AnsweredAgoMS how long ago it could; then the rest is as it was.
	Problem       string `json:"problem,omitempty"`
	AnsweredAgoMS int64  `json:"answered_ago_ms"`
	// Keys in use and at their limit; at least so many if not Whole, until all were looked at once.
	Keys    int64 `json:"keys"`
	AtLimit int64 `json:"at_limit"`
	Whole   bool  `json:"whole"`
	// Denials a second, by limits and by blocks; at least so many if AtLeast. Null if they are not known.
	DeniedPerSecond  *float64      `json:"denied_per_second"`
	BlockedPerSecond *float64      `json:"blocked_per_second"`
	AtLeast          bool          `json:"at_least"`
	Rows             []rowDocument `json:"rows"`
	// Overrides are those in force, [overrideDocument]s; null if they are not known. Without the field they are those of
	// the event before.
	Overrides json.RawMessage `json:"overrides,omitempty"`
	// Effects are what the overrides do now, by their IDs, as far as that is known.
	Effects map[string]effectDocument `json:"effects"`
}

// rowDocument is a key: what is shown of it in the list.
type rowDocument struct {
	Subject         string  `json:"subject"`
	LimitName       string  `json:"limit_name"`
	Limit           string  `json:"limit"` // empty if it is not known
	Used            int64   `json:"used"`
	Remaining       int64   `json:"remaining"`
	Share           float64 `json:"share"` // of the limit that is used; 1 is all
	AtLimit         bool    `json:"at_limit"`
	RetryAfterMS    int64   `json:"retry_after_ms"`
	DeniedPerSecond float64 `json:"denied_per_second"`
	DeniedShare     float64 `json:"denied_share"`
	Blocked         bool    `json:"blocked"`
	Effect          string  `json:"effect,omitempty"` // of the override that it is under
	Stale           bool    `json:"stale,omitempty"`  // its server did not answer
}

// overrideDocument is an override in force.
type overrideDocument struct {
	ID     string    `json:"id"`
	Whom   string    `json:"whom"`
	Limits string    `json:"limits,omitempty"` // a pattern of their names; empty for all
	Effect string    `json:"effect"`
	Block  bool      `json:"block"`
	EndsAt time.Time `json:"ends_at"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	effectDocument
	// DecidesFor are the names of the searched subject's limits for which this override wins.
	DecidesFor []string `json:"decides_for,omitempty"`
}

// effectDocument is what an override does now: DeniedPerSecond is how many requests a second are denied of the followed keys to
// which it applies, and LetThroughPerSecond how many it lets through, of all keys. They are left out if none is known.
type effectDocument struct {
	DeniedPerSecond     float64 `json:"denied_per_second,omitempty"`
	LetThroughPerSecond float64 `json:"let_through_per_second,omitempty"`
}

func newEffectDocument(effect dash.Effect) effectDocument {
	return effectDocument{DeniedPerSecond: effect.Denied, LetThroughPerSecond: effect.LetThrough}
}

// document describes a look.
func (p *Page) document(look *dash.Look) *liveDocument {
	d := &liveDocument{SchemaVersion: output.SchemaVersion, At: look.At, Store: look.Where, Masked: p.mask != nil,
		AnsweredAgoMS: output.Milliseconds(look.At.Sub(look.Answered)), AtLimit: look.AtLimit,
		Keys: max(look.Coverage.Matched, int64(len(look.Followed))), Whole: isWhole(look) && look.AtLimitExact,
		AtLeast: look.AtLeast, Rows: []rowDocument{}, Effects: map[string]effectDocument{}}
	if look.Coverage.Passes > 0 {
		d.Keys = look.Coverage.Matched
	}
	if look.Problem != nil {
		d.Problem = p.describe(look.Problem)
	}
	if look.DenialsKnown {
		d.DeniedPerSecond, d.BlockedPerSecond = &look.Denied, &look.Blocked
	}
	for i := range look.Rows {
		d.Rows = append(d.Rows, p.row(&look.Rows[i]))
	}
	for id, effect := range look.Effects {
		if shown := newEffectDocument(effect); shown != (effectDocument{}) {
			d.Effects[id] = shown
		}
	}
	return d
}

// shownOverrides are the overrides of events, and what tells whether they are others than before.
type shownOverrides struct {
	list    *store.OverrideList
	known   bool
	inForce int
	text    json.RawMessage // [overrideDocument]s; null if they are not known
	changes int             // how often they became others
}

// take takes in the overrides of a look. There can be a thousand, so they become a text only if they are others.
func (s *shownOverrides) take(p *Page, look *dash.Look) error {
	var inForce []*store.Override
	if look.Overrides != nil {
		all := look.Overrides.All()
		for i := range all {
			if all[i].ExpiresAt.After(look.At) {
				inForce = append(inForce, &all[i])
			}
		}
	}
	known := look.OverridesProblem == nil
	if s.changes > 0 && s.list == look.Overrides && s.known == known && s.inForce == len(inForce) {
		return nil
	}
	var documents []overrideDocument
	if known {
		documents = []overrideDocument{}
		for _, o := range inForce {
			documents = append(documents, p.override(o))
		}
	}
	text, err := output.JSON(documents)
	if err != nil {
		return err
	}
	*s = shownOverrides{look.Overrides, known, len(inForce), text, s.changes + 1}
	return nil
}

// isWhole reports whether all keys of the store are followed.
func isWhole(look *dash.Look) bool { return look.Coverage.Passes > 0 && !look.Coverage.Full }

func (p *Page) row(r *dash.LookRow) rowDocument {
	d := rowDocument{Subject: p.mask.subject(r.Key.Subject), LimitName: p.mask.limit(r.LimitName), Used: r.Used, Remaining: r.Remaining,
		Share: r.UsedShare(), AtLimit: r.AtLimit, RetryAfterMS: output.Milliseconds(r.RetryAfter), DeniedPerSecond: r.Denied,
		DeniedShare: r.Share, Blocked: r.IsBlocked, Stale: r.Stale}
	if r.LimitKnown() {
		d.Limit = r.Limit.String()
	}
	if r.Override != nil {
		d.Effect = allowance.Effect(r.Override)
	}
	return d
}

func (p *Page) override(o *store.Override) overrideDocument {
	d := overrideDocument{ID: o.ID, Whom: p.mask.whom(o), Effect: allowance.Effect(o), Block: o.Effect == store.OverrideBlock,
		EndsAt: output.UTC(o.ExpiresAt)}
	if !o.Names.IsZero() {
		d.Limits = allowance.Pattern(o.Names)
	}
	if p.mask == nil { // people write names into these
		d.By, d.Reason = o.By, o.Reason
	}
	return d
}

// describe writes an error on a line. With a mask it does not, since an error can name keys.
func (p *Page) describe(err error) string {
	if p.mask != nil {
		return "the store could not be read; ask somebody with a shell why"
	}
	return p.options.Describe(err)
}
