package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os/exec"
	"strings"
	"testing"
)

// found is what a probe of a server has to find.
type found struct {
	path    string
	args    []string
	limit   string
	dialect string
	// checks are the verdicts of the checks that are no pass.
	checks map[string]string
}

// probeDocument is what limitctl probe prints.
type probeDocument struct {
	Limit, Dialect string
	Checks         []struct{ Name, Verdict, Expected, Seen string }
	Requests       int
}

// probe runs limitctl probe, and returns its answer.
func probe(t *testing.T, args ...string) (document probeDocument, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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

// Servers that others wrote have the limits that their configurations say, and the defects that
// docs/probe.md tells of.
func TestServersThatOthersWrote(t *testing.T) {
	for name, c := range map[string]struct {
		start func(*testing.T) string
		found []found
	}{
		// What nginx says of limit_req: the excess may be at most the burst, beside the request that
		// is under way. So there is room for one more than the burst.
		"nginx": {startNginx, []found{
			{path: "/plain", limit: "token-bucket:10/1s,burst=1", checks: map[string]string{"denial-status": "fail"}},
			{path: "/nodelay", limit: "token-bucket:10/1s,burst=6", checks: map[string]string{"denial-status": "fail"}},
			{path: "/429", limit: "token-bucket:10/1s,burst=6", checks: map[string]string{"retry-after": "fail"}},
			{path: "/queue", limit: "leaky-bucket:10/1s,burst=6", checks: map[string]string{"denial-status": "fail"}},
			{path: "/delay", limit: "leaky-bucket:10/1s,burst=6", checks: map[string]string{"denial-status": "fail"}},
		}},
		"haproxy": {startHAProxy, []found{
			{path: "/rate", limit: "sliding-counter:10/1s", checks: map[string]string{"retry-after": "fail"}},
			{path: "/counter", checks: map[string]string{"retry-after": "fail", "recovery": "fail"}},
		}},
		"node": {startNode, []found{
			{path: "/draft-8", limit: "fixed-window:10/1s,from=first", dialect: "draft-8"},
			{path: "/draft-7", limit: "fixed-window:10/1s,from=first", dialect: "draft-7"},
			{path: "/draft-6", limit: "fixed-window:10/1s,from=first", dialect: "draft-6"},
			{path: "/legacy", limit: "fixed-window:10/1s,from=first", dialect: "x-ratelimit"},
		}},
		"go": {startGo, []found{
			{path: "/httprate", limit: "sliding-counter:10/1s", dialect: "x-ratelimit"},
			{path: "/ulule", limit: "fixed-window:10/1s,from=first", dialect: "x-ratelimit", checks: map[string]string{"retry-after": "fail"}},
			{path: "/sethvargo", limit: "fixed-window:10/1s,from=first", dialect: "x-ratelimit", checks: map[string]string{"retry-after": "fail"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := c.start(t)
			for _, want := range c.found {
				t.Run(want.path[1:], func(t *testing.T) {
					t.Parallel()
					got, code := probe(t, append(want.args, "http://"+address+want.path+"?user={subject}")...)
					unexpected := map[string]string{}
					for _, check := range got.Checks {
						if check.Verdict != "pass" && check.Verdict != want.checks[check.Name] {
							unexpected[check.Name] = check.Verdict + ": " + check.Seen
						}
					}
					for check, verdict := range want.checks {
						if verdict == "fail" && code != 1 {
							t.Errorf("%s fails, and the exit code is %d", check, code)
						}
					}
					if got.Limit != want.limit || got.Dialect != want.dialect || len(unexpected) > 0 {
						t.Errorf("found %q with headers of %q, want %q with %q; not expected: %v", got.Limit, got.Dialect, want.limit,
							want.dialect, maps.All(unexpected))
					}
				})
			}
		})
	}
}
