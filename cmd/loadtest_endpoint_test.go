package cmd

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/limitfields"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// limitedService is an HTTP service that keeps a limit by X-Key, ?key= or ?user=, and says so in all headers.
type limitedService struct {
	*httptest.Server
	asked    atomic.Int64
	mu       sync.Mutex
	subjects map[string]int
}

// newLimitedService starts a service, whose denials spoil changes if it is not nil.
func newLimitedService(t *testing.T, text string, spoil func(http.Header) (status int)) *limitedService {
	t.Helper()
	limit, err := store.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	l, all := storecall.New(memorystore.New()), limitfields.Selection(httplimit.AllHeaders)
	s := &limitedService{subjects: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := r.Header.Get("X-Key") + r.URL.Query().Get("key") + r.URL.Query().Get("user")
		s.asked.Add(1)
		s.mu.Lock()
		s.subjects[subject]++
		s.mu.Unlock()
		req := store.Request{Key: store.Key{Subject: subject}, Limit: limit, Cost: 1}
		decision, err := l.Take(r.Context(), req.Key, req.Limit, req.Cost)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		limitfields.Set(w.Header(), all, nil, []store.Request{req}, []store.Decision{decision}, time.Now())
		status := http.StatusOK
		if !decision.Allowed {
			if status = http.StatusTooManyRequests; spoil != nil {
				status = spoil(w.Header())
			}
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s
}

// seen are the subjects that asked.
func (s *limitedService) seen() (subjects []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for subject := range s.subjects {
		subjects = append(subjects, subject)
	}
	slices.Sort(subjects)
	return subjects
}

// endpointTested runs a load test and returns its report.
func endpointTested(t *testing.T, w *world, exit int, args ...string) *report.Document {
	t.Helper()
	stdout, _ := w.run(t, exit, append([]string{"loadtest", "-o", "json", anyErrors}, args...)...)
	var document report.Document
	if err := json.Unmarshal([]byte(stdout), &document); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	return &document
}

func TestLoadtestOfAnEndpoint(t *testing.T) {
	t.Parallel()
	const limit = "20/1h"
	s := newLimitedService(t, limit, nil)
	for name, args := range map[string][]string{
		"header": {s.URL, "--header", "X-Key: {subject}"}, "no keep-alive": {
			s.URL + "/?key={subject}", "--no-keepalive"},
	} {
		run := endpointTested(t, newWorld(t), exitYes,
			append(args, "--limit", limit, "--workers", "8", "--requests", "300", "--keys", "5", "--duration", "10m",
				"--threshold", "errors==0", "--timeout", "1m")...).Runs[0]
		prefix, _, found := strings.Cut(run.MostDenied[0].Key, "user:")
		if sum := run.Statuses["200"] + run.Statuses["429"]; sum != run.Requests ||
			run.Allowed != run.Statuses["200"] ||
			run.Allowed != 100 || run.Audit.UnderAdmitted != 0 {
			t.Errorf("%s: statuses %v of %d requests, %d allowed", name, run.Statuses, run.Requests, run.Allowed)
		}
		if !found || len(prefix) < 8 {
			t.Errorf("%s: subjects %v", name, run.MostDenied[0])
		}
		if subjects := s.seen(); !slices.Contains(subjects, prefix+"user:4") {
			t.Errorf("%s: asked as %v", name, subjects)
		}
		if c := run.Endpoint.Connections; (name == "no keep-alive") != (c.Opened >= run.Requests) || c.Connect == nil ||
			c.TLS != nil {
			t.Errorf("%s: connections %+v", name, c)
		}
	}
	if n := len(s.seen()); n != 10 { // each run has subjects of its own, so none finds its limit used
		t.Errorf("%d subjects in 2 runs of 5", n)
	}
}

// Keys of an API are sent, and shown nowhere.
func TestSubjectsOfAFile(t *testing.T) {
	s := newLimitedService(t, "3/1h", nil)
	w := newWorld(t)
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys.txt")
	if err := os.WriteFile(keys, []byte("sk-secret-1\nsk-secret-2\r\n\nsk-secret-3"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{s.URL, "-H", "X-Key: {subject}", "--subjects", keys, "--limit", "3/1h", "-n", "100"}
	stdout, stderr := w.run(t, exitYes,
		append([]string{"loadtest", anyErrors, "--html", filepath.Join(dir, "page.html"), "--save",
			filepath.Join(dir, "run.json")}, args...)...)
	for _, name := range []string{"page.html", "run.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		stdout += string(text)
	}
	if strings.Contains(stdout+stderr, "sk-secret") || !strings.Contains(stdout, "subject 2") ||
		!strings.Contains(stdout,
			"subjects are not new, so") {
		t.Errorf("%s%s", stdout, stderr)
	}
	if subjects := s.seen(); !slices.Equal(subjects, []string{"sk-secret-1", "sk-secret-2", "sk-secret-3"}) {
		t.Errorf("asked as %q", subjects)
	}
	if _, stderr := w.run(t, exitUsage, append([]string{"loadtest", "--keys", "4"}, args...)...); !strings.Contains(
		stderr,
		"names 3 subjects") {
		t.Error(stderr)
	}
}

// Exit codes of verdicts: what words and which verdict is proved in package report.
func TestVerdictsOfAnEndpoint(t *testing.T) {
	limited := newLimitedService(t, "20/1h", nil)
	var asked atomic.Int64
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%10 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer failing.Close()
	for name, test := range map[string]struct {
		url, args string
		exit      int
		want      string
	}{
		"fails":                    {failing.URL, "-n 100 --no-fail", exitNo, "INCONCLUSIVE  90 of 100"},
		"fails as often as it may": {failing.URL, "-n 100 --max-errors 90%", exitYes, "INCONCLUSIVE  "},
		"denies by another status": {failing.URL, "-n 100 --denied-status 503", exitNo, "FAIL "},
		"breaks a promise":         {failing.URL, "-n 20 --threshold errors==0", exitNo, "FAIL     1 of 1 "},
		"is wrong":                 {limited.URL, "-n 30 --limit 10/1h", exitNo, "FAIL     admitted 10 units"},
		"never reached":            {limited.URL, "-n 19", exitYes, "INCONCLUSIVE  never above 95% of the limit"},
		"never reached, strictly": {
			limited.URL, "-n 19 --strict", exitNo, "INCONCLUSIVE  never above 95% of the limit"},
		"enforced, strictly": {limited.URL, "-n 30 --strict", exitYes, "PASS "},
	} {
		if !strings.Contains(test.args, "--limit") {
			test.args += " --limit 20/1h"
		}
		args := "loadtest " + test.url + "/?key={subject} --workers=1 " + test.args
		stdout, _ := newWorld(t).run(t, test.exit, strings.Fields(args)...)
		if !strings.HasPrefix(stdout, test.want) {
			t.Errorf("%s: no %q in\n%s", name, test.want, stdout)
		}
	}
}

func TestAnInterruptWhileAnEndpointHangs(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(context.Background())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	}))
	defer server.Close()
	w := newWorld(t)
	code := Run(ctx, []string{"loadtest", server.URL + "?{subject}", "--limit", "10/1s", "--duration", "10m",
		"--timeout", "300ms", "-o",
		"json"}, w.Env)
	var document report.Document
	if err := json.Unmarshal(w.out.Bytes(), &document); err != nil || code != exitInterrupted || !document.Interrupted {
		t.Fatalf("exit code %d: %v: %s%s", code, err, &w.out, &w.err)
	}
	// Others may not have been sent in time.
	if r := document.Runs[0]; r.Errors == 0 || r.Late > 0 ||
		!slices.ContainsFunc(r.ErrorTexts, func(e loadgen.ErrorCount) bool { return e.Text == "no answer in time" }) {
		t.Errorf("%d late, errors %v", r.Late, r.ErrorTexts)
	}
}

func TestWhatALoadtestOfAnEndpointRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"twice": "a\nb\na\n", "control": "a\x1b[2J\n", "empty": "\n\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const url = "http://127.0.0.1:1/?key={subject}"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{url, "--implementation", "naive"},
			"--implementation is for a store, and an endpoint decides by itself"},
		{[]string{url, "--store", "memory:"}, "--store is for a store"},
		{[]string{url, "tenant=a"}, "the URL of an endpoint is the only argument"},
		{[]string{"http://127.0.0.1:1/", "--keys", "2"}, "nothing in the requests says who asks"},
		{[]string{url, "--cost", "2"}, "nothing in the requests says the cost; put {cost}"},
		{[]string{url, "--subjects", filepath.Join(dir, "twice")}, "line 3 of"},
		{[]string{url, "--subjects", filepath.Join(dir, "control")}, "has a control character"},
		{[]string{url, "--subjects", filepath.Join(dir, "empty")}, "names no subject"},
		{[]string{url, "--body", "@" + filepath.Join(dir, "nowhere")}, "cannot be read"},
		{[]string{url, "--cacert", filepath.Join(dir, "empty")}, "holds no certificate"},
		{[]string{url, "--cert", filepath.Join(dir, "empty")}, "give both --cert and --key"},
		{[]string{url, "--cert", filepath.Join(dir, "empty"), "--key", filepath.Join(dir, "empty")},
			"--cert and --key are no pair"},
		{[]string{url, "--max-errors", "101%"}, "is not a percentage from 0% to 100%; write one such as 1%"},
		{[]string{url, "--denied-status", "42"}, "--denied-status must be statuses from 200 to 599"},
		{[]string{"http://example.com/?{subject}"},
			"example.com is not on this machine; if you may send it such requests, add --i-may-test-this-host " +
				"example.com"},
		{[]string{"http://127.0.0.1@example.com/?{subject}"}, "example.com is not on this machine"},
		{[]string{"--http2"}, "--http2 is for an endpoint, and none was given"},
	} {
		_, stderr := newWorld(t).run(t, exitUsage, append([]string{"loadtest", "--limit", "10/1s"}, test.args...)...)
		if !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: %q, want %q", test.args, stderr, test.want)
		}
	}
}

// What a request proves itself with is in nothing that is written.
func TestPasswordsOfEndpointsAreNotShown(t *testing.T) {
	s := newLimitedService(t, "3/1h", nil)
	hiding := func(url string) string { return strings.Replace(url, "http://", "http://me:hunter2hunter2@", 1) }
	files := t.TempDir()
	for _, args := range [][]string{
		{"loadtest", "--limit", "3/1h", "-n", "10", anyErrors, "--html", files + "/page", "--save", files + "/run"},
		{"probe", "--limit", "3/1h", "--max-time", "3s", "--junit", files + "/junit", "--markdown",
			files + "/probe.md"},
		{"probe", "--limit", "2/1h", "--max-time", "3s", "-o", "json"},
		{"probe", "--requests", "10", "-o", "json"},
	} {
		w := newWorld(t)
		Run(t.Context(), append(args, hiding(s.URL)+"/?key={subject}&api_key=hunter2hunter2",
			"-H", "Authorization2: Bearer hunter2hunter2", "-HCookie: hunter2hunter2=", "--header=X-A: hunter2hunter2"),
			w.Env)
		written, err := filepath.Glob(files + "/*")
		if err != nil {
			t.Fatal(err)
		}
		shown := w.out.String() + w.err.String()
		for _, path := range written {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			shown += string(text)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(shown, "hunter2") || !strings.Contains(shown, "me:xxxxx@") {
			t.Errorf("%q shows a password, or no URL:\n%s", args, shown)
		}
	}
	s.Close()
	if _, stderr := newWorld(t).run(t, exitUnreachable, "loadtest", hiding(s.URL)+"/{subject}", "--limit",
		"10/1s"); strings.Contains(stderr, "hunter2") {
		t.Errorf("a password is shown: %s", stderr)
	}
}
