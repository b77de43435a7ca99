package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// expected is the expected result of a probe.
type expected struct {
	server string
	start  func(*testing.T) (address string)
	path   string
	limit  string
	// within is the tolerance for the period. HAProxy moves its windows when requests come, by its own clock of
	// milliseconds, which no known algorithm describes exactly.
	within time.Duration
	// note is part of one of the notes, which say what the limit does not.
	note    string
	dialect string
	// fails and unknown are checks with these results. All others have to pass, except those in any, which use the
	// limit without the note.
	fails, unknown, any []string
	// again: on a busy machine its clock can be wrong, so a wrong result is checked again. Node reads it twice for
	// an answer, whose fields can contradict each other, and HAProxy once for many requests.
	again bool
}

var expectations = []expected{
	{server: "nginx", start: startNginx, path: "/plain", limit: "token-bucket:1/100ms",
		fails:   []string{"denial-status"},
		unknown: []string{"retry-after", "headers", "similar-names", "connections", "at-once", "methods"}},
	{server: "nginx", start: startNginx, path: "/nodelay", limit: "token-bucket:10/1s,burst=6",
		fails: []string{"denial-status"}, unknown: []string{"retry-after", "headers"}},
	{server: "nginx", start: startNginx, path: "/429", limit: "token-bucket:10/1s,burst=6",
		fails: []string{"retry-after"}, unknown: []string{"headers"}},
	{server: "nginx", start: startNginx, path: "/two", limit: "token-bucket:10/1s", note: "token-bucket:2/1s,burst=40",
		fails: []string{"denial-status"}, unknown: []string{"retry-after", "headers"},
		any: []string{"admitted", "denials-cost", "recovery", "methods"}}, // the slow zone may have denied some of it
	{server: "haproxy", start: startHAProxy, path: "/rate", limit: "sliding-counter:10/1s,from=first", note: "denied requests count",
		within: 20 * time.Millisecond,
		fails:  []string{"retry-after", "similar-names"}, unknown: []string{"headers"},
		any: []string{"denials-cost", "recovery", "connections", "at-once", "methods"}, again: true},
	{server: "haproxy", start: startHAProxy, path: "/counter", limit: "fixed-window:10/1s,from=first",
		note: "begins a new window", fails: []string{"retry-after", "similar-names"}, unknown: []string{"headers"},
		any: []string{"denials-cost"}, again: true},
	{server: "node", start: startNode, path: "/draft-8", limit: "fixed-window:10/1s,from=first", dialect: "draft-8", again: true},
	{server: "node", start: startNode, path: "/legacy", limit: "fixed-window:10/1s,from=first", dialect: "x-ratelimit-unix"},
	{server: "go", start: startGo, path: "/httprate", limit: "sliding-counter:10/1s", note: "nearest", dialect: "x-ratelimit-unix",
		any: []string{"admitted", "headers", "denials-cost", "recovery", "retry-after", "similar-names", "connections", "at-once",
			"methods"}},
	{server: "go", start: startGo, path: "/ulule", limit: "fixed-window:10/1s,from=first", dialect: "x-ratelimit-unix",
		fails: []string{"retry-after"}},
	{server: "go", start: startGo, path: "/sethvargo", limit: "token-bucket:10/1s,refill=1s", note: "since a subject's first request",
		dialect: "x-ratelimit", fails: []string{"retry-after", "headers"}, any: []string{"denials-cost"}},
}

// probeDocument is the output of limitctl probe.
type probeDocument struct {
	Limit, Dialect string
	Notes          []string
	Checks         []struct{ Name, Verdict, Expected, Seen string }
	Requests       int
}

// probe runs limitctl probe, and returns its answer.
func probe(t *testing.T, args ...string) (document probeDocument, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // a busy machine compares limits slowly
	defer cancel()
	cmd := exec.CommandContext(ctx, limitctl, append([]string{"probe", "-o", "json"}, args...)...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &document); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &complaints)
	}
	t.Logf("limitctl probe %s\n%s%s", strings.Join(args, " "), &out, &complaints)
	return document, cmd.ProcessState.ExitCode()
}

// Probes find the configured limits of servers of others, and the defects in docs/probe.md.
func TestServersThatOthersWrote(t *testing.T) {
	for i := range expectations {
		want := &expectations[i]
		t.Run(want.server+want.path, func(t *testing.T) {
			t.Parallel()
			url := "http://" + want.start(t) + want.path + "?user={subject}"
			got, code := probe(t, url)
			// If this machine delays a server, its counts fit no algorithm, and the probe says that it does not know.
			// What it does say has to be right the first time, unless again is set.
			for range 4 {
				if got.Limit == "" || !want.isNoted(got) || want.unsure(got) || want.again && len(want.wrong(got)) > 0 {
					got, code = probe(t, url)
				}
			}
			if !isAbout(got.Limit, want) || got.Dialect != want.dialect || !want.isNoted(got) {
				t.Errorf("found %s with headers of %q, want %s with %q", got.Limit, got.Dialect, want.limit, want.dialect)
			}
			if len(want.fails) > 0 && code != 1 {
				t.Errorf("a check fails, and the exit code is %d", code)
			}
			for _, wrong := range want.wrong(got) {
				t.Error(wrong)
			}
		})
	}
}

// isNoted reports whether the notes say what the limit does not.
func (want *expected) isNoted(got probeDocument) bool {
	return strings.Contains(strings.Join(got.Notes, "; "), want.note)
}

// wrong returns the checks with a wrong result.
func (want *expected) wrong(got probeDocument) (wrong []string) {
	for _, check := range got.Checks {
		if verdict := want.verdict(check.Name); verdict != "" && check.Verdict != verdict {
			wrong = append(wrong, fmt.Sprintf("%s: %s, want %s; seen: %s", check.Name, check.Verdict, verdict, check.Seen))
		}
	}
	return wrong
}

// unsure reports whether a check is unknown that could have been judged.
func (want *expected) unsure(got probeDocument) bool {
	for _, check := range got.Checks {
		if verdict := want.verdict(check.Name); verdict != "" && verdict != "unknown" && check.Verdict == "unknown" {
			return true
		}
	}
	return false
}

// verdict is the expected verdict of a check; empty for any.
func (want *expected) verdict(check string) string {
	switch {
	case slices.Contains(want.any, check):
		return ""
	case slices.Contains(want.fails, check):
		return "fail"
	case slices.Contains(want.unknown, check), check == "costs": // no request here names its cost
		return "unknown"
	}
	return "pass"
}

// isAbout reports whether a limit is the expected one, within the tolerance for the period.
func isAbout(limit string, want *expected) bool {
	if at := strings.Index(limit, ",phase="); at >= 0 && !strings.Contains(want.limit, ",phase=") {
		limit = limit[:at] // it differs from start to start
	}
	if limit == want.limit || want.within == 0 {
		return limit == want.limit
	}
	kind, period, _ := strings.Cut(limit, "/")
	wantedKind, wantedPeriod, _ := strings.Cut(want.limit, "/")
	period, words, _ := strings.Cut(period, ",")
	wantedPeriod, wantedWords, _ := strings.Cut(wantedPeriod, ",")
	got, err := time.ParseDuration(period)
	wanted, wrong := time.ParseDuration(wantedPeriod)
	return err == nil && wrong == nil && kind == wantedKind && words == wantedWords && (got-wanted).Abs() <= want.within
}
