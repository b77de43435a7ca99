package envoy

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/serve/metrics"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// llmSettings limit a team's requests, tokens and hits, with descriptors of a team and its tokens.
func llmSettings() *engine.Settings {
	limit := func(name string, count int64, cost policy.Cost) policy.Limit {
		return policy.Limit{Limit: limiter.Per(name, count, 366*24*time.Hour), By: []string{"team"}, Cost: cost}
	}
	return &engine.Settings{File: configfile.File{
		Policies: []*policy.Policy{{Name: "llm", Limits: []policy.Limit{
			limit("requests", 9, policy.Cost{Units: 1}), limit("tokens", 1000, policy.Cost{Field: "tokens"}),
			limit("hits", 100, policy.Cost{}),
		}}},
		Envoy: configfile.EnvoyDomains{"edge": {{Policy: "llm", Entries: []configfile.EnvoyEntry{
			{Key: "team", Attribute: "team"}, {Key: "tokens", Attribute: "tokens"}}}}},
	}}
}

// denyingSettings have a limit of 2 hits, limits of an own cost, and descriptors that are always denied.
func denyingSettings() *engine.Settings {
	two := policy.Limit{Limit: limiter.Per("two", 2, 366*24*time.Hour), By: []string{"user"}}
	settings := llmSettings()
	settings.Policies = append(settings.Policies, &policy.Policy{Name: "few", Limits: []policy.Limit{two}})
	settings.Envoy["edge"] = append(settings.Envoy["edge"],
		configfile.EnvoyDescriptor{Policy: "few", Entries: []configfile.EnvoyEntry{{Key: "user", Attribute: "user"}}},
		configfile.EnvoyDescriptor{Deny: true, Entries: []configfile.EnvoyEntry{
			{Key: "user"}, {Key: "plan", Value: "none", Fixed: true}}},
		configfile.EnvoyDescriptor{Deny: true, Name: "gone", Ordered: true, Entries: []configfile.EnvoyEntry{
			{Key: "path", Value: "/old/*", Fixed: true}, {Key: "path"}}})
	return settings
}

// askEdge is a request for one or more descriptors of the domain edge.
func askEdge(hits uint32, descriptors ...string) *rls.Request {
	r := &rls.Request{Domain: "edge", Hits: hits}
	for _, text := range descriptors {
		d := rls.Descriptor{}
		for entry := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, rls.Entry{Key: key, Value: value})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// counted asks once, and returns the counters that are not zero, and who is in the table of denials.
func counted(t *testing.T, settings *engine.Settings, r *rls.Request) (series, denials []string, answer *rls.Response) {
	t.Helper()
	m, backend := metrics.New(""), memorystore.New()
	defer backend.Close()
	e := engine.New(backend, settings, engine.Options{
		Timeout: time.Minute, OnDecision: m.Decided, OnReplace: m.Configure})
	l := &listener{engine: e, options: Options{Describe: func(err error) string { return err.Error() }}}
	message, err := l.answer(t.Context(), rls.AppendRequest(nil, r))
	e.Close() // writes the denials
	tier.Must(t, err)
	if answer, err = rls.ReadResponse(message); err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(recorder.Body.String()) {
		line = strings.TrimSpace(line)
		for _, name := range []string{"decisions", "calls", "errors", "granted_units"} {
			if rest, is := strings.CutPrefix(line, "limitctl_"+name+"_total{"); is && !strings.HasSuffix(line, " 0") {
				series = append(series, name+" "+strings.NewReplacer(`"`, "", "}", "", "limit=", "", "outcome=", "",
					"policy=", "",
					"operation=", "", "result=", "").Replace(rest))
			}
		}
	}
	slices.Sort(series)
	table, has := admin.TablesOf(backend)
	if !has {
		t.Fatal("the store has no table of denials")
	}
	found, err := table.Denials(t.Context(), time.Minute)
	tier.Must(t, err)
	for _, row := range found.Rows {
		denials = append(denials, fmt.Sprint(row.Key, " ", row.Count))
	}
	slices.Sort(denials)
	return series, denials, answer
}

// Every OVER_LIMIT counts once as a denial, of the limit that denies, in the metrics and in the table of denials. No
// error and no other decision does. An entry can be the cost of a limit, and hits_addend is that of limits without
// their own. A shadow of all domains changes nothing of that.
func TestEveryDenialIsCounted(t *testing.T) {
	zero := askEdge(1, "user=eve")
	zero.Descriptors[0].HasLimit, zero.Descriptors[0].Limit = true, rls.LimitOverride{RequestsPerUnit: 0, Unit: 2}
	looks := askEdge(1, "user=eve,plan=none")
	looks.Descriptors[0].HasHits = true
	shadowed := askEdge(5, "user=eve")
	for name, test := range map[string]struct {
		request         *rls.Request
		series, denials []string
	}{
		"always denied": {askEdge(1, "user=eve,plan=none"),
			[]string{"calls consume,(deny),denied 1", "decisions (deny),denied,(deny) 1"},
			[]string{"descriptor:edge/user=eve/plan=none (deny)/(deny) 1"}},
		"always denied by a name": {askEdge(1, "path=/old/a,path=b:c"),
			[]string{"calls consume,(deny),denied 1", "decisions (deny),denied,(deny) 1"},
			[]string{"descriptor:edge/path=/old/a/path=b%3Ac (deny)/(deny) 1"}},
		"always denied, without hits": {looks,
			[]string{"calls check,(deny),denied 1"}, nil},
		"never fits": {askEdge(5, "user=eve"),
			[]string{"calls consume,few,denied 1", "decisions two,denied,few 1"}, []string{"user:eve few/two 1"}},
		"a sum that never fits": {askEdge(1, "user=eve", "user=eve", "user=eve"),
			[]string{"calls consume,few,denied 1", "decisions two,denied,few 1"}, []string{"user:eve few/two 1"}},
		"never fits a shadow limit": {shadowed,
			[]string{"calls consume,few,allowed 1", "decisions two,shadow-denied,few 1"}, nil},
		"an equal descriptor": {askEdge(1, "user=eve", "user=eve"),
			[]string{"calls consume,few,allowed 1", "decisions two,allowed,few 1", "granted_units two,few 2"}, nil},
		"a limit of 0": {zero,
			[]string{"calls consume,few,denied 1", "decisions two,denied,few 1"}, []string{"user:eve few/two 1"}},
		"no cost": {askEdge(1, "team=red,tokens=-1"),
			[]string{"calls consume,llm,denied 1", "decisions hits,allowed,llm 1", "decisions requests,allowed,llm 1",
				"decisions tokens,denied,llm 1"}, []string{"team:red llm/tokens 1"}},
		"costs of its own": {askEdge(7, "team=red,tokens=1000"),
			[]string{"calls consume,llm,allowed 1", "decisions hits,allowed,llm 1", "decisions requests,allowed,llm 1",
				"decisions tokens,allowed,llm 1", "granted_units hits,llm 7", "granted_units requests,llm 1",
				"granted_units tokens,llm 1000"}, nil},
		"no tokens and no hits": {askEdge(0, "team=red,tokens=0"),
			[]string{"calls consume,llm,allowed 1", "decisions hits,allowed,llm 1", "decisions requests,allowed,llm 1",
				"decisions tokens,allowed,llm 1", "granted_units hits,llm 1", "granted_units requests,llm 1",
				"granted_units tokens,llm 1"}, nil},
		"one of several limits": {askEdge(1, "team=red,tokens=1001"),
			[]string{"calls consume,llm,denied 1", "decisions hits,allowed,llm 1", "decisions requests,allowed,llm 1",
				"decisions tokens,denied,llm 1"}, []string{"team:red llm/tokens 1"}},
	} {
		for _, shadow := range []bool{false, true} {
			settings := denyingSettings()
			settings.EnvoyOptions.Shadow, settings.Policies[1].Limits[0].Shadow = shadow, test.request == shadowed
			series, denials, answer := counted(t, settings, test.request)
			if !slices.Equal(series, test.series) || !slices.Equal(denials, test.denials) {
				t.Errorf("%s, shadow %t: counted are %q, and denials %q", name, shadow, series, denials)
			}
			denied := len(test.denials) > 0 || test.request == looks
			if (answer.Overall == rls.OverLimit) != (denied && !shadow) {
				t.Errorf("%s, shadow %t: the answer is %+v", name, shadow, answer)
			}
		}
	}
}

// A cost that never fits, and a sum of them, have the answers of other denials: the limit and what is left of it, and
// no time after which the same would fit.
func TestAnswersAboutWhatNeverFits(t *testing.T) {
	for _, r := range []*rls.Request{askEdge(5, "user=eve"), askEdge(1, "user=eve", "user=eve", "user=eve")} {
		settings := denyingSettings()
		settings.HTTP.Headers = httplimit.RateLimit | httplimit.RetryAfter
		_, _, answer := counted(t, settings, r)
		for _, s := range answer.Statuses {
			if s.Code != rls.OverLimit || !s.HasLimit || s.RequestsPerUnit != 2 || s.Remaining != 2 ||
				s.Name != "few/two" {
				t.Errorf("%d descriptors: a status is %+v", len(r.Descriptors), s)
			}
		}
		names := map[string]bool{}
		for _, h := range answer.Headers {
			names[h.Name] = true
		}
		if want := map[string]bool{"ratelimit": true, "ratelimit-policy": true}; !maps.Equal(names, want) {
			t.Errorf("%d descriptors: the fields are %v", len(r.Descriptors), answer.Headers)
		}
	}
}
