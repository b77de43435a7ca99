package policyfile_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/policyfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// written is a file of policies that a test changes.
type written struct {
	testing.TB
	path string
}

func newWritten(t *testing.T, text string) written {
	w := written{t, filepath.Join(t.TempDir(), "limitctl.yaml")}
	w.write(text)
	return w
}

func (w written) write(text string) {
	w.Helper()
	tier.Must(w, os.WriteFile(w.path, []byte(text), 0o600))
}

// open makes a runtime of the file.
func (w written) open(backend store.Store, options ...limiter.Option) (*policyfile.Runtime, error) {
	file, err := policyfile.Load(w.path)
	if err != nil {
		return nil, err
	}
	return policyfile.NewRuntime(file, backend, options...)
}

// run makes a runtime that lasts as long as the test.
func (w written) run(backend store.Store, options ...limiter.Option) *policyfile.Runtime {
	w.Helper()
	policies, err := w.open(backend, options...)
	tier.Must(w, err)
	w.Cleanup(func() { policies.Close() })
	return policies
}

// reload writes a text and reloads it.
func (w written) reload(policies *policyfile.Runtime, text string) {
	w.Helper()
	w.write(text)
	tier.Must(w, policies.Reload())
}

const api = "policies: {api: {limits: [{name: user, by: [user], limit: %s}]%s}}\n"

var ada = policy.Attributes{"user": "ada"}

// A reload changes limits, and keeps usage, a block, denials that are not yet written, what a local share has counted,
// also while the policy is gone, and the state of the breaker.
func TestAReloadForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWritten(t, fmt.Sprintf(api, "4/366d", ", on_error: local, local_share: 50%"))
		kept := memorystore.New()
		sick := &sickStore{Store: kept}
		backend := store.Wrap(sick, kept)
		eve, err := store.ExactPattern("user:eve")
		tier.Must(t, err)
		block := store.Override{Subjects: eve, Effect: store.OverrideBlock, Reason: "test", By: "me"}
		if _, err := kept.SetOverride(t.Context(), block, time.Hour); err != nil {
			t.Fatal(err)
		}
		policies := f.run(backend)
		take := func(a policy.Attributes) limiter.Decisions {
			t.Helper()
			d, err := policies.Take(t.Context(), "api", a, 1)
			tier.Must(t, err)
			return d
		}
		take(ada)
		time.Sleep(2 * time.Second) // the overrides are read
		sick.err = store.ErrUnavailable
		for range 7 { // opens the breaker; 2 are let through locally
			take(ada)
		}
		asked := sick.asked
		f.reload(policies, "prefix: rl\n")
		for i := range 20 {
			f.reload(policies, fmt.Sprintf(api, fmt.Sprint(5+i, "/366d"), ", on_error: local, local_share: 50%"))
			if d := take(policy.Attributes{"user": "eve"}); d.Allowed() || d.DecidedBy() != limiter.DecidedByOverride {
				t.Fatalf("after reload %d a blocked user is let in: %+v", i, d.All())
			}
		}
		if sick.asked != asked {
			t.Errorf("the breaker forgot: %d more calls reached the store", sick.asked-asked)
		}
		// 2 before, and this one of 12
		if d := take(ada); d.At(0).Used != 3 || d.DecidedBy() != limiter.DecidedByLocal {
			t.Errorf("the local share forgot: %+v", d.All())
		}
		sick.err = nil
		time.Sleep(time.Minute)
		take(policy.Attributes{"user": "joe"}) // makes the breaker check whether the store is back
		synctest.Wait()
		if d := take(ada); d.At(0).Used != 2 || d.At(0).Remaining != 22 { // of 24
			t.Errorf("the store's answer is %+v", d.All())
		}
		err = policies.Close()
		denials, err2 := kept.Denials(t.Context(), time.Hour)
		if err := errors.Join(err, err2); err != nil || len(denials.Blocks) != 1 || denials.Blocks[0].Count != 20 {
			t.Errorf("denied were %+v, %v", denials, err)
		}
	})
}

// A file that cannot be used is refused, and the old one stays in force.
func TestAFileThatCannotBeUsed(t *testing.T) {
	f := newWritten(t, fmt.Sprintf(api, "4/366d", ""))
	policies := f.run(memorystore.New())
	if _, err := policies.Middleware("api"); !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(err.Error(), `"user"`) {
		t.Errorf("without a rule for HTTP: %v", err)
	}
	withHTTP := fmt.Sprintf(api, "1/366d", `, http: {attributes: {user: "header:X-User"}}`)
	f.reload(policies, withHTTP)
	limit, err := policies.Middleware("api")
	tier.Must(t, err)
	server := limit(http.NotFoundHandler())
	get := func() int {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		r.Header.Set("X-User", "ada")
		server.ServeHTTP(w, r)
		return w.Code
	}
	if one, other := get(), get(); one != 404 || other != 429 {
		t.Errorf("%d, %d", one, other)
	}
	for text, want := range map[string]string{
		"policies: {api: {limits: []}}":                       "limits",
		strings.ReplaceAll(withHTTP, "api:", "other:"):        `no policy "api" any more`,
		fmt.Sprintf(api, "1/366d", ""):                        `"user"`,
		strings.Repeat("# too long\n", policyfile.MaxSize/10): "",
	} {
		f.write(text)
		if err := policies.Reload(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
		if code := get(); code != 429 || policies.File().Policies[0].Name != "api" {
			t.Errorf("%.40q is in force: %d", text, code)
		}
	}
	f.write(strings.Replace(withHTTP, "1/366d", "2/366d", 1))
	if err := policies.Reload(); err != nil || get() != 404 {
		t.Errorf("the middleware does not follow: %v", err)
	}
	if _, err := policies.Take(t.Context(), "no", ada, 1); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a policy that there is not: %v", err)
	}
	if d, err := policies.Take(t.Context(), "api", policy.Attributes{}, 1); !errors.Is(err, store.ErrInvalid) ||
		d.Allowed() {
		t.Errorf("an attribute that is missing: %v", err)
	}
	tier.Must(t, os.Remove(f.path))
	if err := policies.Reload(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Watch applies a changed file, reports each mistake once, and ends with its context. Nothing goes on after Close.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newWritten(t, fmt.Sprintf(api, "1/366d", ""))
		policies := f.run(memorystore.New())
		var told []bool
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(done)
			policies.Watch(ctx, time.Second, func(err error) { told = append(told, err == nil) })
		}()
		for _, text := range []string{"4/366d", "x", "x", "5/366d", "5/366d"} {
			f.write(fmt.Sprintf(api, text, ""))
			time.Sleep(3 * time.Second)
		}
		cancel()
		<-done
		if want := []bool{true, false, true}; !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
		if l := policies.File().Policies[0].Limits[0].Limit.Count; l != 5 {
			t.Errorf("%d is in force", l)
		}
		if err := policies.Close(); err != nil {
			t.Error(err)
		}
		if _, err := policies.Take(t.Context(), "api", ada, 1); !errors.Is(err, limiter.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Operators write under the file's prefix, so a store with another prefix is refused, even inside a wrapper.
func TestARuntimeNeedsTheFilesPrefix(t *testing.T) {
	for _, test := range []struct {
		prefix string
		fine   bool
	}{{"rl", false}, {"mine2", false}, {"mine", true}} {
		file, err := policyfile.Parse(
			"limitctl.yaml", []byte("prefix: mine\npolicies: {p: {limits: [{name: a, by: [u], limit: 5/1m}]}}\n"))
		tier.Must(t, err)
		kept, err := filestore.New(filepath.Join(t.TempDir(), "limits.db"), filestore.WithPrefix(test.prefix))
		tier.Must(t, err)
		defer kept.Close()
		policies, err := policyfile.NewRuntime(file, store.Wrap(struct{ store.Store }{kept}, kept))
		switch {
		case test.fine && err != nil:
			t.Errorf("%s: %v", test.prefix, err)
		case test.fine:
			policies.Close()
		case !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), `prefix "`+test.prefix+
			`", and limitctl.yaml has "mine"`):
			t.Errorf("%s: %v", test.prefix, err)
		}
	}
}

// A service that passes the address of a client counts the client that the middleware counts.
func TestACallNamesTheClient(t *testing.T) {
	f := newWritten(t, "policies: {web: {http: {attributes: {ip: client}}, limits: [{name: a, by: [ip], limit: "+
		"2/1h}]}}")
	given := policy.Attributes{"ip": "2001:DB8::1"}
	call, err := f.run(memorystore.New()).Call("web", given, 1)
	tier.Must(t, err)
	if got := call.Requests[0].Stored().Key.Subject; got != "ip:2001%3Adb8%3A%3A/64" || given["ip"] != "2001:DB8::1" {
		t.Errorf("%s, of %v", got, given)
	}
}

const llm = `
policies:
  llm:
    limits:
      - {name: requests, by: [team], limit: 2/366d, cost: 1}
      - {name: tokens, by: [team], limit: 1000/366d, cost: tokens}
`

func tokens(n int64) policy.FieldCost { return policy.FieldCost{Field: "tokens", Units: n} }

// A reservation is settled with the costs of the policy that made it, even if a reload has changed the order of the
// limits.
func TestAReloadBetweenReservingAndSettling(t *testing.T) {
	f := newWritten(t, llm)
	policies := f.run(memorystore.New())
	red := policy.Attributes{"team": "red"}
	call, err := policies.Call("llm", red, 1, tokens(900))
	tier.Must(t, err)
	r, err := call.Limits.Reserve(t.Context(), call.Requests...)
	tier.Must(t, err)
	lines := strings.Split(llm, "\n")
	lines[4], lines[5] = lines[5], lines[4]
	f.reload(policies, strings.Join(lines, "\n"))
	costs, err := call.Policy.UnitsOf(1, tokens(250))
	tier.Must(t, err)
	tier.Must(t, r.Settle(t.Context(), costs...))
	d, err := policies.Take(t.Context(), "llm", red, 1, tokens(1))
	if err != nil || d.At(0).Used != 251 || d.At(1).Used != 2 {
		t.Errorf("%+v, %v; want 251 tokens and 2 requests in use", d, err)
	}
}
