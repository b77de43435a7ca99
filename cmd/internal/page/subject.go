package page

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/dash"
	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// mostSearches are how many searches read the store at a time.
	mostSearches = 2
	// searchesOfOne and searchesOfAll are how many searches a second are answered.
	searchesOfOne, searchesOfAll = 2, 10
	// mostKeys is how many keys a search reads.
	mostKeys = 1000
)

// subjectDocument is the answer of /api/subject.
type subjectDocument struct {
	SchemaVersion int       `json:"schema_version"`
	At            time.Time `json:"at"`
	Subject       string    `json:"subject"`
	// Whole: there are no other limits of the subject. Else only those with likely names were looked for.
	Whole  bool                   `json:"whole"`
	Limits []subjectLimitDocument `json:"limits"`
	// Overrides are those in force that are about the subject. OverridesProblem is why some may be missing, and then the
	// limits are as without them.
	Overrides        []overrideDocument `json:"overrides"`
	OverridesProblem string             `json:"overrides_problem,omitempty"`
	// DenialsAtLeast: the counts of denials are lower bounds. DenialsProblem is why there are none.
	DenialsAtLeast bool   `json:"denials_at_least"`
	DenialsProblem string `json:"denials_problem,omitempty"`
}

// subjectLimitDocument is one limit of a subject.
type subjectLimitDocument struct {
	Name    string  `json:"name"`
	Limit   string  `json:"limit"` // empty if nothing is recorded
	Allowed bool    `json:"allowed"`
	Share   float64 `json:"share"`
	// Sentence says what limitctl check says of a request of one unit.
	Sentence string `json:"sentence"`
	// Denied is null if it is not known.
	Denied *deniedDocument `json:"denied"`
}

// deniedDocument is how a limit denied in the last hour. The counts are lower bounds if denials_at_least.
type deniedDocument struct {
	Count     int64      `json:"count"`
	Blocked   int64      `json:"blocked"`         // how many of them an override denied
	Since     *time.Time `json:"since,omitempty"` // when the last run of denials began
	PerMinute []int64    `json:"per_minute"`      // the current minute, which is not over, is the last
}

// serveSubject answers what is known of one subject. It reads the keys that it names, and scans nothing.
func (p *Page) serveSubject(w http.ResponseWriter, r *http.Request) {
	who := client(r)
	if !p.maySearch(r.Context(), who) {
		w.Header().Set("Retry-After", "1")
		refusal.Write(w, http.StatusTooManyRequests, outcome.Overloaded.Word, "too many searches a second; try again")
		return
	}
	p.live.touch(p.options.Dash.Now())
	ctx, cancel := context.WithTimeout(r.Context(), max(p.options.Dash.Timeout, time.Second))
	defer cancel()
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	case <-ctx.Done():
		w.Header().Set("Retry-After", "1")
		refusal.Write(w, outcome.Overloaded.Status, outcome.Overloaded.Word, "too many searches wait for the store; try again")
		return
	}
	text := r.URL.Query().Get("subject")
	if err := (store.Key{Subject: text, Name: "any"}).Validate(); err != nil {
		refusal.Write(w, http.StatusBadRequest, outcome.Usage.Word, "no subject: "+p.options.Describe(err))
		return
	}
	look, ok := p.freshLook(ctx)
	if !ok {
		w.Header().Set("Retry-After", "1")
		refusal.Write(w, outcome.Overloaded.Status, outcome.Overloaded.Word, "the store is looked at only now; try again")
		return
	}
	d, err := p.search(ctx, look, p.unmasked(look, text))
	if err != nil {
		kind := outcome.Of(err, nil)
		refusal.Write(w, kind.Status, kind.Word, p.describe(err))
		return
	}
	refusal.WriteJSON(w, http.StatusOK, d)
}

// freshLook waits for a look that is not from before a rest, since that says nothing of the overrides in force now. A store
// that does not answer has none, and the look says so.
func (p *Page) freshLook(ctx context.Context) (look *dash.Look, ok bool) {
	for {
		_, changed := p.live.next()
		if look = p.latest.Load(); look != nil {
			now := p.options.Dash.Now()
			answered := now.Sub(look.Answered) < fresh+p.options.Dash.Refresh
			if now.Sub(look.At) < fresh && (answered || look.Problem != nil) {
				return look, true
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// maySearch bounds how often a client searches, and all of them together. A client that may not search takes nothing
// from the others.
func (p *Page) maySearch(ctx context.Context, who string) bool {
	reqs := []store.Request{
		{Key: store.Key{Subject: who, Name: "client"}, Limit: store.Limit{Count: searchesOfOne, Period: time.Second}, Cost: 1},
		{Key: store.Key{Subject: "all", Name: "all"}, Limit: store.Limit{Count: searchesOfAll, Period: time.Second}, Cost: 1},
	}
	decisions := make([]store.Decision, len(reqs))
	err := p.bounds.Decide(ctx, store.Take, reqs, decisions)
	return err == nil && store.AllAllowed(decisions)
}

// unmasked returns the followed subject that a mask stands for, or else the text itself.
func (p *Page) unmasked(look *dash.Look, text string) string {
	if p.mask != nil {
		for i := range look.Followed {
			if subject := look.Followed[i].Subject; p.mask.subject(subject) == text {
				return subject
			}
		}
	}
	return text
}

func (p *Page) search(ctx context.Context, look *dash.Look, subject string) (*subjectDocument, error) {
	d := &subjectDocument{SchemaVersion: output.SchemaVersion, At: p.options.Dash.Now(), Subject: p.mask.subject(subject),
		Whole: isWhole(look), Limits: []subjectLimitDocument{}, Overrides: []overrideDocument{}}
	var keys []store.Key
	for _, key := range look.Followed {
		if key.Subject == subject {
			keys = append(keys, key)
		}
	}
	for _, key := range p.options.Likely(subject) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	readings, err := dash.ReadKeys(ctx, &p.options.Dash, look.Overrides, keys[:min(len(keys), mostKeys)])
	if err != nil {
		return nil, err
	}
	denied := p.deniedInAnHour(ctx)
	d.DenialsAtLeast = !denied.all.Exact()
	if denied.err != nil {
		d.DenialsProblem = p.describe(denied.err)
	}
	decides := map[string][]string{}
	shown := map[store.Key]bool{}
	for i := range readings {
		r := &readings[i]
		shown[tableKey(r.Key)] = true
		override := inForce(look, r.Key)
		limit := subjectLimitDocument{Name: p.mask.limit(limitName(r.Key)), Limit: r.Limit.String(), Share: r.UsedShare(),
			Denied: denied.of(r.Key)}
		limit.Sentence, limit.Allowed = sentence(&r.Entry, override)
		if override != nil {
			decides[override.ID] = append(decides[override.ID], limit.Name)
		}
		d.Limits = append(d.Limits, limit)
	}
	for key, row := range denied.rows { // such as a blocked key, which has no record
		if key.Subject == tableKey(store.Key{Subject: subject}).Subject && !shown[key] {
			limit := subjectLimitDocument{Name: p.mask.limit(limitName(key)), Limit: limitText(row.Limit), Allowed: true,
				Denied: denied.of(key), Sentence: "nothing is used"}
			if override := inForce(look, store.Key{Subject: subject, Name: key.Name}); override != nil {
				decides[override.ID] = append(decides[override.ID], limit.Name)
				if override.Effect == store.OverrideBlock {
					limit.Allowed, limit.Sentence = false, "denied by a block: nothing is used"
				}
			}
			d.Limits = append(d.Limits, limit)
		}
	}
	slices.SortFunc(d.Limits, func(a, b subjectLimitDocument) int {
		return cmp.Compare(a.Name, b.Name)
	})
	p.addOverrides(d, look, subject, readings, decides)
	if look.OverridesProblem != nil {
		d.OverridesProblem = p.describe(look.OverridesProblem)
	}
	return d, nil
}

// limitText is the limit that denied, or empty if it is not known.
func limitText(limit store.Limit) string {
	if limit == (store.Limit{}) {
		return ""
	}
	return limit.String()
}

// addOverrides adds the overrides that are about the subject.
func (p *Page) addOverrides(d *subjectDocument, look *dash.Look, subject string, readings []dash.Reading, decides map[string][]string) {
	if look.Overrides == nil {
		return
	}
	all := look.Overrides.All()
	for i := range all {
		o := &all[i]
		about := len(decides[o.ID]) > 0 || len(o.Attributes) == 0 && (o.Subjects.IsZero() || o.Subjects.Match(subject))
		for j := range readings {
			about = about || o.Matches(readings[j].Key)
		}
		if about && o.ExpiresAt.After(p.options.Dash.Now()) {
			shown := p.override(o)
			shown.effectDocument = newEffectDocument(look.Effects[o.ID])
			shown.DecidesFor = decides[o.ID]
			d.Overrides = append(d.Overrides, shown)
		}
	}
}

func inForce(look *dash.Look, key store.Key) *store.Override {
	if look.Overrides == nil {
		return nil
	}
	if o := look.Overrides.For(key); o != nil && o.ExpiresAt.After(look.At) {
		return o
	}
	return nil
}

// sentence says what limitctl check would say of a request of one unit.
func sentence(e *admin.Entry, override *store.Override) (text string, allowed bool) {
	decisions := []store.Decision{e.Decision}
	exempt := override != nil && override.Effect == store.OverrideExempt
	decisions[0].Shadow = exempt
	sum := store.Summarize(decisions)
	room := decision.Room(&sum, e.Limit.Capacity(), 0)
	switch {
	case exempt && !e.Allowed:
		return "allowed by an exemption, else denied: " + room, true
	case sum.Allowed:
		return "allowed: " + room, true
	case override != nil && override.Effect == store.OverrideBlock:
		return "denied by a block: " + room, false
	}
	return "denied: " + room, false
}

// limitName is the name of a key's limit, without attributes.
func limitName(key store.Key) string {
	if parts, is := policy.ParseKey(key); is {
		return parts.LimitName()
	}
	return key.Name
}

// tableKey is the key as the table of denials has it.
func tableKey(key store.Key) store.Key {
	row := admin.Denied{Key: key}
	row.Shorten()
	return row.Key
}
