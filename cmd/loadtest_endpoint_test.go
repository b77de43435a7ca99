package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// limitedService is an HTTP service that keeps a limit by X-Key, or by ?key=, at ?cost=.
type limitedService struct {
	*httptest.Server
	mu       sync.Mutex
	subjects map[string]int
}

func newLimitedService(t *testing.T, limit string) *limitedService {
	t.Helper()
	parsed, err := store.ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	l := storecall.New(memorystore.New())
	s := &limitedService{subjects: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := r.Header.Get("X-Key") + r.URL.Query().Get("key")
		s.mu.Lock()
		s.subjects[subject]++
		s.mu.Unlock()
		cost := int64(1)
		if text := r.URL.Query().Get("cost"); text != "" {
			cost, _ = strconv.ParseInt(text, 10, 64)
		}
		decision, err := l.Take(r.Context(), store.Key{Subject: subject}, parsed, cost)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case !decision.Allowed:
			w.Header().Set("Retry-After", strconv.FormatInt(int64((decision.RetryAfter+time.Second-1)/time.Second), 10))
			w.WriteHeader(http.StatusTooManyRequests)
		}
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
	tier.Full(t, "load tests of seconds")
	for _, algorithm := range store.Algorithms() {
		limit := algorithm.String() + ":20/1h"
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			s := newLimitedService(t, limit)
			for name, args := range map[string][]string{
				"header": {s.URL, "--header", "X-Key: {subject}"}, "no keep-alive": {s.URL + "/?key={subject}", "--no-keepalive"},
			} {
				run := endpointTested(t, newWorld(t), exitYes,
					append(args, "--limit", limit, "--workers", "8", "--requests", "300", "--keys", "5", "--duration", "10m",
						"--threshold", "errors==0", "--timeout", "1m")...).Runs[0]
				prefix, found := strings.CutSuffix(run.Endpoint.Subjects, "*")
				if sum := run.Statuses["200"] + run.Statuses["429"]; sum != run.Requests || run.Allowed != run.Statuses["200"] ||
					run.Denied == 0 {
					t.Errorf("%s by %s: statuses %v of %d requests, %d allowed", limit, name, run.Statuses, run.Requests, run.Allowed)
				}
				if !found || len(prefix) < 8 || run.Endpoint.FirstSubject != prefix+"user:0" ||
					!strings.HasPrefix(run.MostDenied[0].Key, prefix) {
					t.Errorf("%s by %s: subjects %+v, %v", limit, name, run.Endpoint, run.MostDenied[0])
				}
				if subjects := s.seen(); !slices.Contains(subjects, prefix+"user:4") {
					t.Errorf("%s by %s: asked as %v", limit, name, subjects)
				}
				if c := run.Endpoint.Connections; (name == "no keep-alive") != (c.Opened >= run.Requests) || c.Connect == nil ||
					c.TLS != nil {
					t.Errorf("%s by %s: connections %+v", limit, name, c)
				}
			}
		})
	}
}

// Each run has subjects of its own, so none finds its limit used.
func TestSubjectsOfAnEndpointAreFresh(t *testing.T) {
	t.Parallel()
	s := newLimitedService(t, "10/1h")
	args := []string{s.URL + "/?key={subject}", "--limit", "10/1h", "--algorithm", "token-bucket,leaky-bucket", "-n", "200",
		"--keys", "4", "--timeout", "1m"}
	for range 2 {
		document := endpointTested(t, newWorld(t), exitYes, args...)
		for _, run := range document.Runs {
			if run.Allowed != 40 || run.Audit.LeastUnder != 0 {
				t.Errorf("%s: %d allowed", run.Algorithm, run.Allowed)
			}
		}
	}
	if n := len(s.seen()); n != 16 {
		t.Errorf("%d subjects in 4 runs of 4", n)
	}
}

func TestAnEndpointThatLetsOneTooManyThrough(t *testing.T) {
	s := newLimitedService(t, "11/1h")
	run := endpointTested(t, newWorld(t), exitNo, s.URL+"/?key={subject}", "--limit", "10/1h", "-n", "200", "--keys", "4",
		"--timeout", "1m").Runs[0]
	if run.Audit.LeastOver != 4 {
		t.Errorf("%d too many", run.Audit.LeastOver)
	}
}

// Keys of an API are sent, and shown nowhere.
func TestSubjectsOfAFile(t *testing.T) {
	s := newLimitedService(t, "3/1h")
	w := newWorld(t)
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys.txt")
	if err := os.WriteFile(keys, []byte("sk-secret-1\nsk-secret-2\r\n\nsk-secret-3"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{s.URL, "-H", "X-Key: {subject}", "--subjects", keys, "--limit", "3/1h", "-n", "100"}
	stdout, stderr := w.run(t, exitYes, append([]string{"loadtest", anyErrors, "--html", filepath.Join(dir, "page.html"), "--save",
		filepath.Join(dir, "run.json")}, args...)...)
	for _, name := range []string{"page.html", "run.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		stdout += string(text)
	}
	if strings.Contains(stdout+stderr, "sk-secret") || !strings.Contains(stdout, "subject 2") || !strings.Contains(stdout,
		"subjects are not new, so") {
		t.Errorf("%s%s", stdout, stderr)
	}
	if subjects := s.seen(); !slices.Equal(subjects, []string{"sk-secret-1", "sk-secret-2", "sk-secret-3"}) {
		t.Errorf("asked as %q", subjects)
	}
	if _, stderr := w.run(t, exitUsage, append([]string{"loadtest", "--keys", "4"}, args...)...); !strings.Contains(stderr,
		"names 3 subjects") {
		t.Error(stderr)
	}
}

// A service that fails nearly always, or a load that never reaches its limit, shows nothing about the limit.
func TestVerdictsOfAnEndpoint(t *testing.T) {
	limited := newLimitedService(t, "20/1h")
	var asked atomic.Int64
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%10 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer failing.Close()
	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }))
	defer away.Close()
	const closed = "--workers=1"
	for name, test := range map[string]struct {
		url  string
		args []string
		exit int
		want string
	}{
		"fails": {failing.URL, []string{"-n", "100"}, exitNo,
			"INCONCLUSIVE  90 of 100 planned requests got no decision (90%), and at most 1% may: 90 failed, and 0 were dropped\n"},
		"fails as often as it may": {failing.URL, []string{"-n", "100", "--max-errors", "90%"}, exitYes,
			"INCONCLUSIVE  never above 50% of the limit, so over-admission was not tested; ask for more"},
		"fails, and is watched": {failing.URL, []string{"-n", "100", "--no-fail"}, exitNo, "INCONCLUSIVE  90 of 100"},
		"is wrong, too":         {failing.URL, []string{"-n", "500"}, exitNo, "FAIL     admitted 30 units too many"},
		"never reached":         {limited.URL, []string{"-n", "19"}, exitYes, "INCONCLUSIVE  never above 95% of the limit"},
		"never reached, strictly": {limited.URL, []string{"-n", "19", "--strict"}, exitNo,
			"INCONCLUSIVE  never above 95% of the limit"},
		"asks nothing":       {missing.URL, []string{"-n", "20"}, exitNo, "INCONCLUSIVE  no answer was a success or a denial: 20 × 404 Not Found"},
		"breaks a promise":   {away.URL, []string{"-n", "20", "--threshold", "errors==0"}, exitNo, "FAIL     1 of 1 promises missed\n"},
		"enforced, strictly": {limited.URL, []string{"-n", "30", "--strict"}, exitYes, "PASS "},
	} {
		w := newWorld(t)
		args := append([]string{"loadtest", test.url + "/?key={subject}", "--limit", "20/1h", closed}, test.args...)
		if stdout, _ := w.run(t, test.exit, args...); !strings.HasPrefix(stdout, test.want) {
			t.Errorf("%s: no %q in\n%s", name, test.want, stdout)
		}
	}
	for _, wrong := range []string{"101%", "x"} {
		w := newWorld(t)
		_, stderr := w.run(t, exitUsage, "loadtest", limited.URL, "--limit", "20/1h", "--max-errors="+wrong)
		if !strings.Contains(stderr, "is not a percentage from 0% to 100%; write one such as 1%") {
			t.Errorf("%s: %s", wrong, stderr)
		}
	}
}

func TestStatusesThatMayNotMeanWhatTheySeem(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Path[1:])
		w.Header().Set("Location", "http://example.com/")
		w.WriteHeader(status)
	}))
	defer server.Close()
	for status, want := range map[int]string{
		302: "20 answers of 302 Found count as allowed; redirects are not followed. If that is how this endpoint " +
			"denies, add --denied-status 302",
		404: "20 answers of 404 Not Found count as allowed; are the URL, the method, the headers and the body right?",
		503: "20 answers of 503 Service Unavailable count as errors; are the URL,",
	} {
		w := newWorld(t)
		code := Run(context.Background(), []string{"loadtest", fmt.Sprintf("%s/%d?{subject}", server.URL, status), "--limit", "100/1s",
			"-n", "20"}, w.Env)
		if text := w.out.String() + w.err.String(); !strings.Contains(strings.Join(strings.Fields(text), " "), strings.TrimSpace(want)) {
			t.Errorf("%d, exit code %d: %s", status, code, text)
		}
		if status == 503 {
			run := endpointTested(t, w, exitYes, fmt.Sprintf("%s/%d?{subject}", server.URL, status), "--limit", "100/1s", "-n", "20",
				"--denied-status", "429,503", "--no-fail")
			if run.Runs[0].Denied != 20 {
				t.Errorf("%d denied", run.Runs[0].Denied)
			}
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
	code := Run(ctx, []string{"loadtest", server.URL + "?{subject}", "--limit", "10/1s", "--duration", "10m", "--timeout", "3s", "-o",
		"json"}, w.Env)
	var document report.Document
	if err := json.Unmarshal(w.out.Bytes(), &document); err != nil || code != exitInterrupted || !document.Interrupted {
		t.Fatalf("exit code %d: %v: %s%s", code, err, &w.out, &w.err)
	}
	// Others may not have been sent in time.
	if r := document.Runs[0]; r.Errors == 0 ||
		!slices.ContainsFunc(r.ErrorTexts, func(e loadgen.ErrorCount) bool { return e.Text == "no answer in time" }) {
		t.Errorf("errors %v", r.ErrorTexts)
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
			"--implementation is about a store, and the limit at " + url + " is decided by somebody else"},
		{[]string{url, "--store", "memory:"}, "--store is about a store"},
		{[]string{url, "tenant=a"}, "the URL of an endpoint is the only argument"},
		{[]string{"http://127.0.0.1:1/", "--keys", "2"}, "nothing in the requests says who asks"},
		{[]string{"http://127.0.0.1:1/", "--subject-format", "{n}"}, "names of subjects were given, and there is no place for them"},
		{[]string{url, "--cost", "2"}, "requests have a cost, and nothing in them says so; put {cost}"},
		{[]string{url, "--subject-format", "key"}, `the format of subjects "key" is the same for all of them`},
		{[]string{url, "--subject-format", "{user}"}, "has braces that are not a place"},
		{[]string{url, "--subjects", filepath.Join(dir, "twice")}, "line 3 of"},
		{[]string{url, "--subjects", filepath.Join(dir, "control")}, "has a control character"},
		{[]string{url, "--subjects", filepath.Join(dir, "empty")}, "names no subject"},
		{[]string{url, "--body", "@" + filepath.Join(dir, "nowhere")}, "cannot be read"},
		{[]string{url, "--cacert", filepath.Join(dir, "empty")}, "holds no certificate"},
		{[]string{url, "--cert", filepath.Join(dir, "empty")}, "give both --cert and --key"},
		{[]string{url, "--cert", filepath.Join(dir, "empty"), "--key", filepath.Join(dir, "empty")}, "--cert and --key are no pair"},
		{[]string{url, "--denied-status", "42"}, "--denied-status must be statuses from 200 to 599"},
		{[]string{"http://example.com/?{subject}"},
			"example.com is not on this machine; if you may send it such requests, add --i-may-test-this-host example.com"},
		{[]string{"http://127.0.0.1@example.com/?{subject}"}, "example.com is not on this machine"},
		{[]string{"--http2"}, "--http2 is for an endpoint, and none was given"},
	} {
		_, stderr := newWorld(t).run(t, exitUsage, append([]string{"loadtest", "--limit", "10/1s"}, test.args...)...)
		if !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: %q, want %q", test.args, stderr, test.want)
		}
	}
}

// A password in a URL, or in a header, is in nothing that is written.
func TestPasswordsOfEndpointsAreNotShown(t *testing.T) {
	s := newLimitedService(t, "10/1s")
	page := filepath.Join(t.TempDir(), "page.html")
	url := strings.Replace(s.URL, "http://", "http://me:hunter2hunter2@", 1) + "/?key={subject}&api_key=hunter2hunter2"
	w := newWorld(t)
	stdout, stderr := w.run(t, exitYes, "loadtest", url, "-H", "Authorization2: Bearer hunter2hunter2", "-HCookie: hunter2hunter2=",
		"--header=X-A: hunter2hunter2",
		"--limit", "10/1s", "-n", "10", anyErrors, "--html", page,
		"--save", page+".json")
	all := bytes.NewBufferString(stdout + stderr)
	for _, path := range []string{page, page + ".json"} {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := io.Copy(all, file); err != nil {
			t.Fatal(err)
		}
	}
	if text := all.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "me:xxxxx@") {
		at := max(0, strings.Index(text, "hunter2")-200)
		t.Errorf("a password is shown: %s", text[at:min(len(text), at+400)])
	}
	server := strings.TrimPrefix(s.URL, "http://")
	s.Close()
	if _, stderr := w.run(t, exitUnreachable, "loadtest", "http://me:hunter2hunter2@"+server+"/{subject}", "--limit",
		"10/1s"); strings.Contains(stderr, "hunter2") {
		t.Errorf("a password is shown: %s", stderr)
	}
}
