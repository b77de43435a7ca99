package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/serve/refusal"
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
	// Keys are those that the subject has by the policies in force.
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
	refusal.Write(w, http.StatusMethodNotAllowed, outcome.Usage.Word, "method "+shorten(r.Method)+" is not for "+r.URL.Path+"; send GET")
	return false
}

// keysOf describes the keys that a subject has by the policies in force. It reads these keys and scans nothing.
func (l *listener) keysOf(ctx context.Context, subject string) ([]*decision.Entry, error) {
	settings := l.engine.Settings()
	var keys []store.Key
	for _, p := range settings.Policies {
		keys = append(keys, allowance.KeysOf([]*policy.Policy{p}, allowance.NamingClients(subject, func(attribute, value string) string {
			return settings.HTTP.Client(p.Name, attribute, value)
		}))...)
	}
	limits := allowance.NewConfiguredLimits(settings.Policies)
	entries := make([]*decision.Entry, len(keys))
	if len(keys) == 0 {
		return entries, nil
	}
	denied, counted := map[store.Key]int64{}, false
	var overrides []store.Override
	if table, has := admin.TablesOf(l.options.Keys); has {
		var err error
		if overrides, _, err = table.Overrides(ctx); err != nil {
			return nil, err
		}
		denials, err := table.Denials(ctx, deniedLately)
		for _, row := range denials.Rows {
			denied[row.Key] = row.Count
		}
		counted = err == nil
	}
	inForce := store.NewOverrideList(overrides)
	found := map[store.Key]admin.Entry{}
	for entry, err := range l.options.Keys.Scan(ctx, admin.Query{Keys: keys, InForce: func(e *admin.Entry) store.Limit {
		return limits.InForce(e, inForce.For(e.Key))
	}}) {
		if err != nil && !errors.Is(err, store.ErrForeign) { // a foreign value limits nothing
			return nil, err
		}
		if err == nil {
			found[entry.Key] = entry
		}
	}
	for i, key := range keys {
		override := inForce.For(key)
		row := admin.Denied{Key: key}
		row.Shorten() // as the table has it
		facts := decision.Facts{Denied: denied[row.Key], Counted: counted, Override: override}
		e, used := found[key]
		if recorded := e.LastLimit(); used && limits.HasDrifted(key, recorded, override) {
			facts.Configured, _ = limits.Of(key, recorded, override)
		}
		if !used {
			e.Key = key
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

// mostQuestions is the most questions in one body.
const mostQuestions = store.MaxRequests

// serveList answers a list of questions, each as if it came by itself, also if there is a mistake in another one. Those about the
// same subject are decided in their order, others together, so that a store that merges calls decides them in few.
func (l *listener) serveList(w http.ResponseWriter, r *http.Request, v *verb, body []byte) {
	var questions []jsontext.Value // which are checked one by one
	err := wrongBody(json.Unmarshal(body, &questions, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)))
	switch {
	case err != nil:
	case len(questions) == 0:
		err = store.Invalidf(`the list is empty; send questions, such as [{"key":"user:42","limits":["10/1m"]}]`)
	case len(questions) > mostQuestions:
		err = store.Invalidf("the list has more than %d questions; send them in several requests", mostQuestions)
	}
	if err != nil {
		l.refuse(w, err)
		return
	}
	calls, answers := make([]call, len(questions)), make([][]byte, len(questions))
	bySubject := map[string][]int{}
	for i, question := range questions {
		l.read(&calls[i], v, question)
		who := calls[i].ask.Policy + " " + calls[i].ask.Key + calls[i].ask.Attributes.Text()
		bySubject[who] = append(bySubject[who], i)
	}
	ctx := r.Context()
	if l.options.ListTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.options.ListTime)
		defer cancel()
	}
	var all panics.Group
	for _, places := range bySubject {
		all.Go(func() {
			for _, i := range places {
				l.decide(ctx, &calls[i])
				status, document := l.document(v, &calls[i])
				text, err := output.JSON(document)
				if err != nil { // texts and numbers can always be written
					panic(err)
				}
				answers[i] = fmt.Appendf(nil, `{"status":%d,%s`, status, text[1:])
			}
		})
	}
	if err := all.Wait(); err != nil {
		l.refuse(w, err)
		return
	}
	refusal.WriteText(w, http.StatusOK, fmt.Appendf(nil, `{"schema_version":%d,"answers":[%s]}`, output.SchemaVersion,
		bytes.Join(answers, []byte(","))))
}

// policyList is the answer to GET /v1/policies.
type policyList struct {
	SchemaVersion int               `json:"schema_version"`
	Policies      []describedPolicy `json:"policies"`
}

type describedPolicy struct {
	Name string `json:"name"`
	// Attributes are those that a request needs. Optional ones only select an override.
	Attributes []string `json:"attributes"`
	Optional   []string `json:"optional_attributes,omitempty"` // those that only select an override
	// Costs are the names that a request needs in costs.
	Costs   []string         `json:"costs,omitempty"`
	OnError string           `json:"on_error"`
	Wait    string           `json:"wait,omitempty"` // how long a request is held until its turn
	Limits  []describedLimit `json:"limits"`
}

type describedLimit struct {
	Name   string   `json:"name"`
	By     []string `json:"by"`
	Limit  string   `json:"limit"`
	Cost   string   `json:"cost,omitempty"`
	Shadow bool     `json:"shadow,omitempty"`
	// Classes say what each class of callers leaves to others.
	Classes string `json:"classes,omitempty"`
}

// policies lists the policies in force.
func (d *listener) policies(w http.ResponseWriter, r *http.Request) {
	if !isGet(w, r) {
		return
	}
	list := policyList{SchemaVersion: output.SchemaVersion, Policies: []describedPolicy{}}
	for _, p := range d.engine.Settings().Policies {
		described := describedPolicy{Name: p.Name, Attributes: []string{}, Costs: p.CostFields(), OnError: p.OnError.String()}
		if p.Wait > 0 {
			described.Wait = store.FormatPeriod(p.Wait)
		}
		names, needed := p.Attributes()
		for _, name := range names {
			if needed[name] {
				described.Attributes = append(described.Attributes, name)
			} else {
				described.Optional = append(described.Optional, name)
			}
		}
		for i := range p.Limits {
			l := &p.Limits[i]
			described.Limits = append(described.Limits, describedLimit{Name: l.Name, By: l.By, Limit: l.Stored().String(),
				Cost: l.Cost.String(), Shadow: l.Shadow, Classes: l.Classes.String()})
		}
		list.Policies = append(list.Policies, described)
	}
	refusal.WriteJSON(w, http.StatusOK, list)
}
