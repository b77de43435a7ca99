package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/serve/refusal"
	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// deniedLately is the time for which denials of a subject are counted, as inspect counts them.
const deniedLately = 10 * time.Minute

// subjectAnswer is the answer to GET /v1/subject: what inspect says of a subject's keys, also of those that are unused.
type subjectAnswer struct {
	SchemaVersion int    `json:"schema_version"`
	Subject       string `json:"subject"`
	// Keys are those that the subject has by the policies in force, and others that were denied lately.
	Keys []*decision.Entry `json:"keys"`
}

// subject answers what limits a subject has, and what is used of them.
func (l *listener) subject(w http.ResponseWriter, r *http.Request) {
	if !isGet(w, r) {
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	asked := query["subject"]
	switch {
	case err != nil || len(query) != 1 || len(asked) != 1:
		err = store.Invalidf("name one subject: %ssubject?subject=user%%3A42", prefix)
	default:
		err = (store.Key{Subject: asked[0]}).Validate()
	}
	if err != nil {
		l.refuse(w, err)
		return
	}
	ctx, cancel := store.BudgetContext(r.Context(), l.options.Timeout)
	defer cancel()
	answer := subjectAnswer{SchemaVersion: output.SchemaVersion, Subject: asked[0]}
	if answer.Keys, err = l.keysOf(ctx, asked[0]); err != nil {
		l.refuse(w, err)
		return
	}
	refusal.WriteJSON(w, http.StatusOK, answer)
}

// isGet reports whether a request only reads, and refuses it otherwise.
func isGet(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	refusal.Write(w, http.StatusMethodNotAllowed, outcome.Usage.Word, "method "+shorten(r.Method)+" is not for "+
		r.URL.Path+"; send GET")
	return false
}

// keysOf describes the keys that a subject has by the policies in force. It reads these keys and scans nothing.
func (l *listener) keysOf(ctx context.Context, subject string) ([]*decision.Entry, error) {
	settings, stored := l.engine.Settings(), subjecttext.Stored(subject)
	var keys []store.Key
	for _, p := range settings.Policies {
		keys = append(keys, allowance.KeysOf(
			[]*policy.Policy{p}, allowance.NamingClients(stored, func(attribute, value string) string {
				return settings.HTTP.Client(p.Name, attribute, value)
			}))...)
	}
	limits := allowance.NewConfiguredLimits(settings.Policies)
	denied, counted := map[store.Key]admin.Denied{}, false
	var overrides []store.Override
	if table, has := admin.TablesOf(l.options.Keys); has {
		var err error
		if overrides, _, err = table.Overrides(ctx); err != nil {
			return nil, err
		}
		denials, err := table.Denials(ctx, deniedLately)
		for _, row := range denials.Rows {
			denied[row.Key] = row
			if of := row.Key; (of.Subject == subject || of.Subject == stored) && !slices.Contains(keys, of) {
				keys = append(keys, of)
			}
		}
		counted = err == nil
	}
	entries := make([]*decision.Entry, len(keys))
	if len(keys) == 0 { // which a query takes for all
		return entries, nil
	}
	inForce := store.NewOverrideList(overrides)
	found := map[store.Key]admin.Entry{}
	for entry, err := range l.options.Keys.Scan(ctx, admin.Query{Keys: keys, InForce: func(e *admin.Entry) store.Limit {
		return limits.InForce(e, inForce.For(e.Key))
	}}) {
		if err != nil {
			return nil, err
		}
		found[entry.Key] = entry
	}
	for i, key := range keys {
		override := inForce.For(key)
		row := admin.Denied{Key: key}
		row.Shorten() // as the table has it
		row = denied[row.Key]
		facts := decision.Facts{Denied: row.Count, Counted: counted, Override: override}
		e, used := found[key]
		if recorded := e.LastLimit(); used && limits.HasDrifted(key, recorded, override) {
			facts.Configured, _ = limits.Of(key, recorded, override)
		}
		if !used {
			e.Key, e.Limit = key, row.Limit
			e.Limit = limits.InForce(&e, override)
			e.Allowed, e.Remaining = true, e.Limit.Capacity()
		}
		if override != nil {
			allowance.Block(&e, inForce, override, override.Left)
		}
		entries[i] = decision.NewEntry(&e, facts)
	}
	return entries, nil
}
