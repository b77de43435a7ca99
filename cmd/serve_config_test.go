//go:build unix

package cmd

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
)

// body is what a server answers to a GET, or to a POST of a text.
func (s *served) body(listener, path, post string) (status int, text string) {
	s.t.Helper()
	var response *http.Response
	var err error
	if post == "" {
		response, err = http.Get(s.url(listener, path))
	} else {
		response, err = http.Post(s.url(listener, path), "application/json", strings.NewReader(post))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(all)
}

// get is the text at a path of a listener.
func (s *served) get(listener, path string) string {
	s.t.Helper()
	_, text := s.body(listener, path, "")
	return text
}

// until waits until something is so.
func (s *served) until(what string, is func() bool) {
	s.t.Helper()
	for begun := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > childPatience {
			s.t.Fatalf("not within %s: %s\n%s", childPatience, what, &s.stderr)
		}
	}
}

const loginOf = `{"policy":"login","attributes":{"ip":"203.0.113.9"}}`

func loginLimit(limit string) string {
	return "policies:\n  login:\n    limits: [{name: ip, by: [ip], limit: " + limit + "}]\n"
}

// serveFile starts a server with that configuration.
func serveFile(t *testing.T, text string, args ...string) *served {
	t.Helper()
	c := newChild(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-o", "jsonl"},
		args...)...)
	c.file("limitctl.yaml", text)
	return c.serving()
}

// login asks under the policy of loginLimit, and returns the status.
func (s *served) login() (status int) {
	s.t.Helper()
	status, _ = s.body("http", "/v1/consume", loginOf)
	return status
}

// What an operator says with other commands applies in a running server, and its denials are seen by them. A changed
// file is in force without a signal, a broken one keeps the one before, and SIGHUP tells that it was read.
func TestServeHearsOperators(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr
	s := serveFile(t, loginLimit("1/1h"), "--store", store)
	if first, second := s.login(), s.login(); first != http.StatusOK || second != http.StatusTooManyRequests {
		t.Fatalf("%d, %d", first, second)
	}
	s.file("limitctl.yaml", loginLimit("1000/1h"))
	s.until("the raised limit is in force", func() bool { return s.login() == http.StatusOK })

	w := newWorld(t)
	w.run(t, exitYes, "block", "ip:203.0.113.9", "--for", "1h", "--reason", "a test", "--yes", "--store", store)
	s.until("the block applies", func() bool { return s.login() == http.StatusTooManyRequests })
	s.until("denials are told", func() bool {
		told, _ := w.run(t, exitYes, "denials", "--store", store, "-o", "csv")
		return strings.Contains(told, "203.0.113.9")
	})
	w.run(t, exitYes, "unblock", "ip:203.0.113.9", "--yes", "--store", store)
	s.until("the block is lifted", func() bool { return s.login() == http.StatusOK })

	s.file("limitctl.yaml", loginLimit("0/1h"))
	s.until("/readyz tells of the mistake", func() bool {
		status, text := s.body("admin", "/readyz", "")
		return status == http.StatusOK && strings.Contains(text, `"degraded"`) &&
			strings.Contains(text, "limitctl.yaml:3:")
	})
	if !strings.Contains(s.get("admin", "/metrics"), "limitctl_config_stale 1") || s.login() != http.StatusOK {
		t.Error("the metrics do not tell of the mistake, or the limit before is not in force")
	}
	if status, text := s.body("admin", "/metric", ""); status != http.StatusNotFound ||
		!strings.Contains(text, "there are /metrics, /healthz and") {
		t.Errorf("a path that is not there: %d %s", status, text)
	}
	s.file("limitctl.yaml", loginLimit("1000/1h"))
	s.until("/readyz tells that it is well again", func() bool {
		return strings.Contains(s.get("admin", "/readyz"), `"status":"ready"`)
	})
	reloads := regexp.MustCompile(`limitctl_config_reloads_total\{result="success"\} \d+`)
	before := reloads.FindString(s.get("admin", "/metrics"))
	s.signal(syscall.SIGHUP)
	s.until("SIGHUP is answered", func() bool { return reloads.FindString(s.get("admin", "/metrics")) != before })
	log := s.end()
	for _, want := range []string{"in force\" changed=true", "stays in force", "in force\" changed=false"} {
		if !strings.Contains(log, want) || strings.Contains(log, "203.0.113.9") {
			t.Errorf("the log lacks %q, or names a subject:\n%s", want, log)
		}
	}
}

// Whatever a password holds, however the server is told it, and however its store repeats it:
// neither the log nor an answer has it.
func TestServeShowsNoPassword(t *testing.T) {
	t.Parallel()
	const secret = "zebra'hunter2 \"x\" & so:on"
	servers := repeating(secret)
	var styles []string
	for style := range servers {
		styles = append(styles, style)
	}
	slices.Sort(styles)
	for i, style := range styles {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			address := redistest.Scripted(t, servers[style])
			c := newChild(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-o", "jsonl", "--timeout",
				"300ms",
				"--log-level", "debug", "--log-format", []string{"text", "json"}[i%2])
			places := slices.DeleteFunc(secretPlaces(address, secret, c.dir), func(place aSecretPlace) bool {
				return strings.HasPrefix(place.name, "broken") // with which nothing begins to serve
			})
			place := places[i%len(places)]
			for name, value := range place.variables {
				c.cmd.Env = append(c.cmd.Env, name+"="+value)
			}
			c.cmd.Env = append(c.cmd.Env, "LIMITCTL_CONFIG="+filepath.Join(c.dir, "limitctl.yaml"))
			if place.store != "" {
				c.cmd.Args = append(c.cmd.Args, "--store", place.store)
			} else if place.context != "" {
				c.cmd.Args = append(c.cmd.Args, "--context", place.context)
			}
			c.file("limitctl.yaml", place.config+loginLimit("10/1h"))
			if err := os.WriteFile(filepath.Join(c.dir, "pw"), []byte(secret+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := c.serving()
			texts := map[string]string{}
			_, texts["consume"] = s.body("http", "/v1/consume", loginOf)
			_, texts["check"] = s.body("http", "/v1/check", `{"key":"a","limits":["1/1h"]}`)
			c.file("limitctl.yaml", "contexts:\n  c: {store: \"redis://:"+secret+"@h\", password_file: "+secret+
				"}\npolicies: [\n")
			s.until("/readyz tells of the mistake", func() bool {
				_, texts["readyz"] = s.body("admin", "/readyz", "")
				return strings.Contains(texts["readyz"], "stale_since")
			})
			_, texts["metrics"] = s.body("admin", "/metrics", "")
			texts["log"] = s.end()
			for name, text := range texts {
				if part := shownPart(text, secret); part != "" {
					t.Errorf("%s, %s: %s shows %q:\n%s", style, place.name, name, part, text)
				}
			}
		})
	}
}
