package probed

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// expected is what probe says about a server of others.
type expected struct {
	server string
	start  func(*testing.T) (address string)
	path   string
	// looks is one of the limits that it looks like, and limit the one that it keeps.
	looks, limit string
	denied       int // the status of denials
	dialect      string
	fails        []string // the checks of the limit that fail
}

var expectations = []expected{
	{"nginx", startNginx, "/nodelay", "burst=6", "token-bucket:10/1s,burst=6", 503, "", nil},
	{"nginx", startNginx, "/429", "burst=6", "token-bucket:10/1s,burst=6", 429, "", []string{"retry-after"}},
	{"haproxy", startHAProxy, "/counter", "fixed-window:10/1s,from=first", "fixed-window:10/1s,from=first", 429, "",
		[]string{"retry-after", "recovery"}}, // each request, also a denied one, begins the second anew
	{"node", startNode, "/draft-8", "fixed-window:10/1s", "fixed-window:10/1s,from=first", 429, "draft-8", nil},
	{"node", startNode, "/draft-7", "fixed-window:10/1s", "fixed-window:10/1s,from=first", 429, "draft-7", nil},
	{"node", startNode, "/draft-6", "fixed-window:10/1s", "fixed-window:10/1s,from=first", 429, "draft-6", nil},
	{"node", startNode, "/legacy", "fixed-window:10/1s", "fixed-window:10/1s,from=first", 429, "x-ratelimit", nil},
}

// document is the output of limitctl probe, with a limit or without.
type document struct {
	Seen      bool
	LooksLike []string `json:"looks_like"`
	Denial    struct{ Status int }
	Dialects  []string
	Checks    []struct{ Name, Verdict, Seen string }
}

func probe(t *testing.T, args ...string) (d document) {
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
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &complaints)
	}
	t.Logf("limitctl probe %s\n%s%s", strings.Join(args, " "), &out, &complaints)
	return d
}

// A look sees what servers of others show of their limits, and no check fails that they keep.
func TestServersThatOthersWrote(t *testing.T) {
	for _, want := range expectations {
		t.Run(want.server+want.path, func(t *testing.T) {
			t.Parallel()
			url := "http://" + want.start(t) + want.path + "?user={subject}"
			for begin := time.Now(); ; { // a busy machine delays answers, and then a bucket has room for more
				seen := probe(t, url)
				looks := slices.ContainsFunc(
					seen.LooksLike, func(l string) bool { return strings.Contains(l, want.looks) })
				if looks && seen.Denial.Status == want.denied &&
					(want.dialect == "" || slices.Contains(seen.Dialects, want.dialect)) {
					break
				}
				if time.Since(begin) > patience {
					t.Fatalf("%+v", seen)
				}
			}
			checked := probe(t, url, "--limit", want.limit, "--denied-status", "429,503")
			for _, c := range checked.Checks {
				isStatus := c.Name == "denial-status" && want.denied != 429
				if fails := slices.Contains(want.fails, c.Name) || isStatus; fails != (c.Verdict == "fail") {
					t.Errorf("%s: %s; %s", c.Name, c.Verdict, c.Seen)
				}
			}
		})
	}
}
