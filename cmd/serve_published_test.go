//go:build unix

package cmd

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/redistest"
)

// A server follows what is published: it has each version in force without a signal, keeps the one before if it cannot
// use one, says so, and starts without its store by what it has kept.
func TestServeFollowsWhatIsPublished(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := "redis://" + server.Addr
	w := newWorld(t)
	publish := func(limit, reason string) {
		file := filepath.Join(t.TempDir(), "new.yaml")
		if err := os.WriteFile(file, []byte(loginLimit(limit)), 0o600); err != nil {
			t.Fatal(err)
		}
		w.run(t, exitYes, "config", "publish", file, "-m", reason, "--yes", "--store", store)
	}
	c := newChild(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-o", "jsonl", "--store", store, "--config", "store:",
		"--process-name", "gate")
	publish("1/1h", "first")
	s := c.serving()
	consume := func() int {
		status, _ := s.body("http", "/v1/consume", loginOf)
		return status
	}
	if first, second := consume(), consume(); first != http.StatusOK || second != http.StatusTooManyRequests {
		t.Fatalf("by the first version: %d, %d", first, second)
	}
	publish("2/1h", "more")
	s.until("the second version is in force", func() bool { return consume() == http.StatusOK })
	s.until("/readyz tells of the second version", func() bool { // which it does after the report, so that no report lags
		_, text := s.body("admin", "/readyz", "")
		return strings.Contains(text, `"version":2`)
	})
	s.until("the process says so", func() bool {
		out, _ := w.run(t, exitYes, "config", "status", "--store", store, "-o", "json")
		return strings.Contains(out, `"name": "gate"`) && strings.Contains(out, `"version": 2`) && strings.Contains(out, `"current": true`)
	})

	// A broken record is not in force.
	server.Do("SET", "rl!{config}:head",
		`{"schema":1,"version":3,"hash":"`+strings.Repeat("0", 64)+`","oldest":1}`)
	server.Do("SET", "rl!{config}:v:3", "policies: {}")
	s.until("/readyz tells of the broken version", func() bool {
		status, text := s.body("admin", "/readyz", "")
		return status == http.StatusOK && strings.Contains(text, `"degraded"`) && strings.Contains(text, "version 3 cannot be used") &&
			strings.Contains(text, `"version":2,"refused":3`)
	})
	if _, text := s.body("admin", "/metrics", ""); !strings.Contains(text, "limitctl_config_stale 1") {
		t.Error("the metrics do not tell of it")
	}
	s.until("config status tells of it", func() bool {
		out, _ := w.run(t, exitNo, "config", "status", "--store", store)
		return strings.Contains(out, "gate") && strings.Contains(out, "lags") && strings.Contains(out, "version 3 cannot be used")
	})
	if status := consume(); status != http.StatusTooManyRequests {
		t.Errorf("meanwhile it answers %d", status)
	}
	publish("3/1h", "sound again")
	s.until("a sound version is in force", func() bool { return consume() == http.StatusOK })
	// A broken head is told, and a publisher can replace it.
	server.Do("SET", "rl!{config}:head", "x")
	for _, words := range [][]string{{"config", "status"}, {"config", "rollback", "-m", "why", "--yes"}} {
		if _, stderr := w.run(t, exitRefused, append(words, "--store", store)...); !strings.Contains(stderr, "the head of the published") {
			t.Errorf("%v tells %s", words, stderr)
		}
	}
	publish("4/1h", "with a head again")
	s.until("the version with a sound head is in force", func() bool { return consume() == http.StatusOK })
	if out, _ := w.run(t, exitYes, "config", "history", "--store", store); !strings.Contains(out, "5 in force") {
		t.Errorf("the numbers do not go on: %s", out)
	}
	log := s.end()
	for _, want := range []string{"another configuration is in force", "published version 2", "stays in force"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	if out, _ := w.run(t, exitYes, "config", "status", "--store", store); !strings.Contains(out, "no process follows this store") {
		t.Errorf("after its end, the process is still shown: %s", out)
	}

	server.Pause()
	again := newChild(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-o", "jsonl", "--store", store,
		"--config", "store:", "--timeout", "200ms")
	again.cmd.Env = c.cmd.Env // with what the first one has kept
	s = again.serving()
	if _, text := s.body("http", "/v1/policies", ""); !strings.Contains(text, `"login"`) {
		t.Errorf("without the store it serves %s", text)
	}
	server.Resume()
	s.until("the store is back", func() bool {
		_, text := s.body("admin", "/readyz", "")
		return strings.Contains(text, `"status":"ready"`)
	})
	s.end()
}

// The rights of docs/publish.md suffice: a service decides, follows and reports, and cannot publish; a publisher
// publishes, and can read no limit.
func TestTheRightsOfThePageSuffice(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/publish.md")
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	users := 0
	for line := range strings.Lines(string(page)) {
		words := strings.Fields(strings.ReplaceAll(line, "'", ""))
		if len(words) < 4 || words[0] != "redis-cli" || words[3] != "limits-service" && words[3] != "limits-publisher" {
			continue
		}
		users++
		var call []any
		for _, word := range words[1:] {
			call = append(call, word)
		}
		server.Do(call...)
	}
	if users != 2 {
		t.Fatalf("the page has %d users", users)
	}
	as := func(user string) string { return "redis://" + user + ":PASSWORD@" + server.Addr }
	file := filepath.Join(t.TempDir(), "limitctl.yaml")
	if err := os.WriteFile(file, []byte(loginLimit("1/1h")), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	_, stderr := w.run(t, exitYes, "config", "publish", file, "-m", "first", "--yes", "--no-keys", "--store", as("limits-publisher"))
	if strings.Contains(stderr, "warning") {
		t.Errorf("a publisher lacks a right: %s", stderr)
	}
	w.run(t, exitYes, "config", "history", "--store", as("limits-publisher"))
	w.run(t, exitRefused, "consume", "x", "--limit", "1/1h", "--store", as("limits-publisher"))
	if err := os.WriteFile(file, []byte(loginLimit("2/1h")), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run(t, exitRefused, "config", "publish", file, "-m", "again", "--yes", "--no-keys", "--store", as("limits-service"), "--config", file,
		"--force")
	s := startServe(t, "--store", as("limits-service"), "--config", "store:", "--process-name", "gate")
	if status, _ := s.body("http", "/v1/consume", loginOf); status != http.StatusOK {
		t.Errorf("the service decides %d", status)
	}
	s.until("the service reports", func() bool {
		out, _ := w.run(t, exitYes, "config", "status", "--store", "redis://"+server.Addr)
		return strings.Contains(out, "gate")
	})
	if log := s.end(); strings.Contains(log, "WARN") && strings.Contains(log, "right") || strings.Contains(log, "cannot report") {
		t.Errorf("the service lacks a right:\n%s", log)
	}
}
