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

// documentedUsers makes the users that docs/publish.md has, and returns the store for each.
func documentedUsers(t *testing.T, server *redistest.Server) func(user string) (store string) {
	t.Helper()
	page, err := os.ReadFile("../docs/publish.md")
	if err != nil {
		t.Fatal(err)
	}
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
	return func(user string) string { return "redis://" + user + ":PASSWORD@" + server.Addr }
}

// A server follows what is published: it has each version in force without a signal, keeps the one before if it cannot
// use one, says so, and starts without its store by what it has kept. The rights of the page suffice: a service
// decides, follows and reports, and cannot publish; a publisher publishes, and can read no limit.
func TestServeFollowsWhatIsPublished(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	as, all := documentedUsers(t, server), "redis://"+server.Addr
	w := newWorld(t)
	publish := func(exit int, limit string, args ...string) {
		file := filepath.Join(t.TempDir(), "new.yaml")
		if err := os.WriteFile(file, []byte(loginLimit(limit)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, stderr := w.run(t, exit, append(
			[]string{"config", "publish", file, "-m", "why", "--yes", "--store"}, args...)...)
		if args[0] != all && strings.Contains(stderr, "warning") {
			t.Errorf("a publisher lacks a right: %s", stderr)
		}
	}
	publish(exitYes, "1/1h", as("limits-publisher"))
	w.run(t, exitYes, "config", "history", "--store", as("limits-publisher"))
	w.run(t, exitRefused, "consume", "x", "--limit", "1/1h", "--store", as("limits-publisher"))
	publish(exitRefused, "2/1h", as("limits-service"), "--force")
	c := newChild(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-o", "jsonl", "--config", "store:",
		"--store", as("limits-service"))
	s := c.serving()
	if first, second := s.login(), s.login(); first != http.StatusOK || second != http.StatusTooManyRequests {
		t.Fatalf("by the first version: %d, %d", first, second)
	}
	publish(exitYes, "2/1h", as("limits-publisher"))
	// which it does after the report, so that no report lags
	s.until("/readyz tells of the second version", func() bool {
		return strings.Contains(s.get("admin", "/readyz"), `"version":2`)
	})
	out, _ := w.run(t, exitYes, "config", "status", "--store", all, "-o", "json")
	if !strings.Contains(out, `"name": "serve"`) || !strings.Contains(out, `"version": 2`) ||
		!strings.Contains(out, `"current": true`) ||
		s.login() != http.StatusOK {
		t.Errorf("the second version is not in force, or its status is %s", out)
	}

	// A broken record is not in force.
	server.Do("SET", "rl!{config}:head",
		`{"schema":1,"version":3,"hash":"`+strings.Repeat("0", 64)+`","oldest":1}`)
	server.Do("SET", "rl!{config}:v:3", "policies: {}")
	s.until("/readyz tells of the broken version", func() bool {
		status, text := s.body("admin", "/readyz", "")
		return status == http.StatusOK && strings.Contains(text, `"degraded"`) &&
			strings.Contains(text, "version 3 cannot be used") &&
			strings.Contains(text, `"version":2,"refused":3`)
	})
	if !strings.Contains(s.get("admin", "/metrics"), "limitctl_config_stale 1") ||
		s.login() != http.StatusTooManyRequests {
		t.Error("the metrics do not tell of it, or it is in force")
	}
	if out, _ := w.run(t, exitNo, "config", "status", "--store", all); !strings.Contains(out, "serve") ||
		!strings.Contains(out, "lags") || !strings.Contains(out, "version 3 cannot be used") {
		t.Errorf("its status is %s", out)
	}
	log := s.end()
	for _, want := range []string{"in force\" changed=true", "published version 2", "stays in force"} {
		if !strings.Contains(log, want) || strings.Contains(log, "WARN") && strings.Contains(log, " right") {
			t.Errorf("the log lacks %q, or the service a right:\n%s", want, log)
		}
	}

	// A broken head is told, keeps nobody from what is there, and is replaced.
	for _, spoil := range [][]any{{"SET", "rl!{config}:head", "x"}, {"DEL", "rl!{config}:head"},
		{"LPUSH", "rl!{config}:head", "x"}} {
		server.Do(spoil...)
		for words, exit := range map[string]int{"status": exitRefused, "rollback -m why --yes": exitRefused,
			"fetch":   exitRefused,
			"history": exitYes, "rollback 1 --dry-run": exitYes} {
			_, stderr := w.run(t, exit, append(strings.Fields("config "+words), "--store", all)...)
			if !strings.Contains(stderr, "the head of the published configuration is broken: ") {
				t.Errorf("after %v, config %s tells %s", spoil, words, stderr)
			}
		}
		if out, _ := w.run(t, exitPartly, "handover", "--store", all); !strings.Contains(
			out, "CONFIG  cannot be read") {
			t.Errorf("after %v, handover tells %s", spoil, out)
		}
		if out, _ := w.run(t, exitYes, "doctor", "--store", all); !strings.Contains(out, "! published ") ||
			!strings.Contains(out, "rollback N") {
			t.Errorf("after %v, doctor tells %s", spoil, out)
		}
		if out, _ := w.run(t, exitYes, "config", "fetch", "--version", "1", "--store", all); out != loginLimit("1/1h") {
			t.Errorf("after %v, version 1 is %s", spoil, out)
		}
	}
	w.run(t, exitYes, "config", "rollback", "1", "-m", "why", "--yes", "--store", all)
	_, stderr := w.run(t, exitYes, "config", "rollback", "2", "-m", "why", "--yes", "--store", all)
	if !strings.Contains(stderr, "rollback 3 ") {
		t.Errorf("the way back is not told: %s", stderr)
	}
	server.Do("SET", "rl!{config}:v:4", "x")
	_, stderr = w.run(t, exitYes, "config", "rollback", "1", "-m", "why", "--yes", "--store", all)
	if strings.Contains(stderr, "go back") {
		t.Errorf("the way back is to what cannot be read: %s", stderr)
	}
	publish(exitYes, "4/1h", all)
	if out, _ := w.run(t, exitYes, "config", "history", "--store", all); !strings.Contains(out, "6 in force") {
		t.Errorf("the numbers do not go on: %s", out)
	}

	server.Pause()
	again := newChild(t, append(c.cmd.Args[1:], "--timeout", "200ms")...)
	again.cmd.Env = c.cmd.Env // with what the first one has kept
	s = again.serving()
	if text := s.get("admin", "/readyz"); !strings.Contains(text, `"policies":1`) {
		t.Errorf("without the store it serves %s", text)
	}
	server.Resume()
	s.until("the store is back", func() bool {
		return strings.Contains(s.get("admin", "/readyz"), `"status":"ready"`)
	})
	s.end()
}
