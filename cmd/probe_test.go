package cmd

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// What is limited for an hour is not waited for, and the answers until then say most.
func TestProbeTellsTheVerdictFirst(t *testing.T) {
	url := newLimitedService(t, "sliding-log:5/1h", nil).URL + "/"
	w := newWorld(t)
	args := []string{"probe", url, "-H", "X-Key: {subject}", "--limit", "sliding-log:5/1h", "--max-time", "30s"}
	stdout, _ := w.run(t, exitYes, args...)
	if !strings.HasPrefix(stdout, "PASS  5 passed; not seen: retry-after, recovery\n") {
		t.Errorf("it begins with %q", strings.SplitN(stdout, "\n", 2)[0])
	}
	for _, line := range []string{
		"limit     sliding-log:5/1h", "draft-8, x-ratelimit",
		"✓ admitted       5 units in use at worst, and the next request denied",
		"? recovery       the probe did not wait that long",
	} {
		if !strings.Contains(stdout, line) {
			t.Errorf("without %q:\n%s", line, stdout)
		}
	}
}

// A failure is in the document, in CSV, in the test cases of a build, and in the table of a pull request.
func TestProbeDocuments(t *testing.T) {
	url := newLimitedService(t, "sliding-log:5/1h", func(h http.Header) int {
		h.Set("Retry-After", "soon | <b>")
		return http.StatusServiceUnavailable
	}).URL + "/"
	w := newWorld(t)
	args := []string{"probe", "-q=false", url, "-H", "X-Key: {subject}", "--limit", "sliding-log:5/1h",
		"--max-time", "30s"}
	stdout, _ := w.run(t, exitNo, append(args, "-o", "json")...)
	var d struct {
		Verdict, Limit                    string
		Passed                            bool
		Allowed, Denied, Failed, Requests int
		Dialects                          []string
		Checks                            []struct{ Name, Verdict, Expected, Seen string }
	}
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]string{}
	for _, c := range d.Checks {
		if verdicts[c.Name] = c.Verdict; c.Expected == "" || c.Seen == "" {
			t.Errorf("%s has no evidence: %+v", c.Name, c)
		}
	}
	if d.Passed || d.Verdict != "fail" || d.Allowed+d.Denied != d.Requests || d.Failed != 0 || d.Requests < 7 ||
		d.Limit != "sliding-log:5/1h" || d.Dialects[0] != "draft-8" ||
		verdicts["denial-status"] != "fail" || verdicts["admitted"] != "pass" || verdicts["retry-after"] != "fail" ||
		verdicts["recovery"] != "unknown" {
		t.Errorf("%s", stdout)
	}
	if records, _ := w.run(t, exitNo, append(args, "-o", "csv")...); strings.Count(records, "\n") != len(d.Checks)+1 {
		t.Errorf("%s", records)
	}

	text, _ := w.run(t, exitNo, append(args, "--junit", "-")...)
	var suites struct {
		Cases []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Text string `xml:",chardata"`
			} `xml:"failure"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal([]byte(text), &suites); err != nil || len(suites.Cases) < len(d.Checks) {
		t.Fatalf("%v: %s", err, text)
	}
	for _, c := range suites.Cases {
		if (verdicts[c.Name] == "fail") != (c.Failure != nil) ||
			c.Name == "retry-after" && !strings.Contains(c.Failure.Text, `"soon | <b>" is neither`) {
			t.Errorf("%s: %+v", c.Name, c.Failure)
		}
	}
	text, _ = w.run(t, exitNo, append(args, "--markdown", "-")...)
	if !strings.HasPrefix(text, "### ❌ FAIL: limit of `"+url+"`\n") || !strings.Contains(text, "\n✗ retry-after ") {
		t.Errorf("%s", text)
	}
}

// A probe that was not answered, or did not see the limit enforced, is inconclusive.
func TestProbeWithoutEvidence(t *testing.T) {
	w := newWorld(t)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
	t.Cleanup(broken.Close)
	s := newLimitedService(t, "1000000/1h", nil)
	url := s.URL + "/"
	few := []string{"probe", url, "-H", "X-Key: {subject}", "--limit", "5000/1m"}
	stdout, _ := w.run(t, exitNo, few...)
	const first = "INCONCLUSIVE  the limit was not seen to be enforced, 0 passed; not seen: admitted, denial-status, "
	if !strings.HasPrefix(stdout, first) || s.asked.Load() > 0 {
		t.Errorf("after %d requests:\n%s", s.asked.Load(), stdout)
	}
	text, _ := w.run(t, exitNo, append(few, "-o", "json")...)
	if !strings.Contains(text, `"verdict": "inconclusive"`) || !strings.Contains(text, `"passed": false`) {
		t.Errorf("%s", text)
	}
	for _, flags := range [][]string{nil, {"--requests", "5"}, {"--limit", "5/1s"}} {
		stdout, stderr := w.run(t, exitUnreachable, append([]string{"probe", broken.URL}, flags...)...)
		if !strings.Contains(stderr, ": 500 Internal Server Error") || strings.Contains(stdout, "at once") {
			t.Errorf("%q: it says %q\n%s", flags, stderr, stdout)
		}
	}
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	stdout, _ = w.run(t, exitUnreachable, "probe", hangs.URL, "--timeout", "20ms", "--requests", "5")
	if !strings.Contains(stdout, ": 0 allowed, 0 denied, 4 failed (4 of them timed out)") {
		t.Errorf("of one that hangs:\n%s", stdout)
	}
	broken.Close()
	if _, stderr := w.run(t, exitUnreachable, "probe", broken.URL); !strings.Contains(stderr, "connection refused") {
		t.Errorf("it says %q", stderr)
	}
}

// What was seen until an interrupt is told.
func TestProbeInterrupted(t *testing.T) {
	s := newLimitedService(t, "5/1h", nil)
	url := s.URL + "/"
	w := newWorld(t)
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	w.Err = writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "waiting until the subject is admitted again") {
			interrupt()
		}
		return w.err.Write(p)
	})
	code := Run(ctx, []string{"probe", url, "-H", "X-Key: {subject}", "--limit", "5/1h", "--max-time", "2h"}, w.Env)
	if code != exitInterrupted || !strings.HasPrefix(w.out.String(), "INCONCLUSIVE  the probe did not end") ||
		s.asked.Load() < 6 ||
		!strings.Contains(w.out.String(), "✓ admitted") {
		t.Errorf("exit code %d after %d requests:\n%s%s", code, s.asked.Load(), &w.out, &w.err)
	}
}

// A look says what it saw, ends with lines that check it, and shows no secret in them.
func TestProbeLooks(t *testing.T) {
	s := newLimitedService(t, "fixed-window:5/1s", nil)
	url := s.URL + "/"
	w := newWorld(t)
	args := []string{"probe", url, "-H", "X-Key: it's {subject}", "-H", "Cookie: hunter2"}
	stdout, _ := w.run(t, exitYes, args...)
	for _, text := range []string{
		"headers   RateLimit-Policy \"default\" 5 in 1s", "at once   5 requests passed in ",
		"denial    429 Too Many Requests, Retry-After: 1",
		"5 at once", "\n  limitctl probe " + url + " --limit fixed-window:5/1s",
		` -H 'X-Key: it'\''s {subject}' -H 'Cookie: xxxxx'`,
	} {
		if !strings.Contains(stdout, text) {
			t.Errorf("without %q:\n%s", text, stdout)
		}
	}
	if s.asked.Load() > 100 || strings.Contains(stdout, "hunter2") {
		t.Errorf("%d requests:\n%s", s.asked.Load(), stdout)
	}
	text, _ := w.run(t, exitYes, append(args, "-o", "json")...)
	var d struct {
		Seen     bool
		Passed   int
		Denial   struct{ Status int }
		Back     []struct{ Units int }
		Commands []string
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil || !d.Seen || d.Passed != 5 || d.Denial.Status != 429 ||
		len(d.Back) == 0 || d.Back[0].Units != 5 || len(d.Commands) == 0 {
		t.Errorf("%v: %s", err, text)
	}
}

func TestProbeBadInput(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "probe needs the URL of an endpoint, such as http://127.0.0.1:8080/"},
		{[]string{"localhost"}, `"localhost" is not the URL of an endpoint; write http://HOST/PATH`},
		{[]string{"http://127.0.0.1:1/", "http://127.0.0.1:2/"},
			`probe takes one URL, and "http://127.0.0.1:2/" was given as well`},
		{[]string{"http://127.0.0.1:1/", "--limit", "ten"},
			`limit "ten": it has no period; write COUNT/PERIOD, such as 10/1m`},
		{[]string{"http://127.0.0.1:1/", "--requests", "0"}, "--requests must be 1 or more, --max-time above 0"},
		{[]string{"http://192.0.2.1/"},
			"192.0.2.1 is not on this machine; if you may send it such requests, add --i-may-test-this-host 192.0.2.1"},
	} {
		if _, stderr := w.run(t, exitUsage, append([]string{"probe"}, test.args...)...); !strings.Contains(
			stderr, test.want) {
			t.Errorf("%q: it says %q, not %q", test.args, stderr, test.want)
		}
	}
}

// Who is let in with another header is found, by the flags that say what else is asked and what a denial is.
func TestProbeAsksOtherwise(t *testing.T) {
	var mutex sync.Mutex
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		who := r.URL.Query().Get("u") + " " + r.Header.Get("X-Device")
		if asked[who]++; asked[who] > 3 {
			w.Header().Set("X-Blocked", "Yes")
		}
	}))
	defer server.Close()
	stdout, _ := newWorld(t).run(t, exitNo, "probe", server.URL+"/?u={subject}", "--limit", "sliding-log:3/1h",
		"--max-time", "30s", "--denied-header", "x-blocked=yes", "--same", "header=X-Device: {v}")
	if !strings.Contains(stdout, "same-client    let in with another X-Device") ||
		!strings.Contains(stdout, "or x-blocked=yes on ") {
		t.Errorf("%s", stdout)
	}
}
