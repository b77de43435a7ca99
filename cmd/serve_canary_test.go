//go:build unix

package cmd

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/redistest"
)

// A server tries a version beside the one in force: as a shadow it decides nothing and is counted, for a share it decides, and
// at its end the version in force is alone again, by itself.
func TestServeTriesTheNextVersion(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := "redis://" + server.Addr
	w := newWorld(t)
	publish := func(limits string, flags ...string) {
		file := filepath.Join(t.TempDir(), "new.yaml")
		text := "policies:\n  login:\n    limits: [" + limits + "]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.run(t, exitYes, append([]string{"config", "publish", file, "-m", "a test", "--yes", "--no-keys", "--store", store}, flags...)...)
	}
	publish("{name: ip, by: [ip], limit: 3/1h}, {name: day, by: [ip], limit: 100/1d}")
	s := startServe(t, "--store", store, "--config", "store:", "--process-name", "gate")
	consume := func(ip string) (int, string) {
		return s.body("http", "/v1/consume", fmt.Sprintf(`{"policy":"login","attributes":{"ip":%q}}`, ip))
	}
	check := func(ip string) (int, string) { // which charges nothing
		return s.body("http", "/v1/check", fmt.Sprintf(`{"policy":"login","attributes":{"ip":%q}}`, ip))
	}
	status := func() string {
		out, _ := w.try(t, "config", "status", "--store", store)
		return out
	}
	const less = "{name: ip, by: [ip], limit: 1/1h}, {name: day, by: [ip], limit: 'sliding-log:2/1d'}"
	publish(less, "--shadow")
	s.until("the shadow is tried", func() bool {
		_, text := s.body("admin", "/readyz", "")
		return strings.Contains(text, `"version":1,"next":2`)
	})
	for n, want := range []int{http.StatusOK, http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if got, text := consume("192.0.2.1"); got != want || strings.Contains(text, "next") || strings.Count(text, `"name"`) != 2 {
			t.Errorf("take %d under the shadow: %d, %s", n, got, text)
		}
	}
	consume("192.0.2.2")
	if got := server.Do("EXISTS", "rl:{ip:192.0.2.1}:login/day~next"); got != int64(1) {
		t.Errorf("what counts apart is not counted: %v", got)
	}
	_, text := s.body("admin", "/metrics", "")
	for _, want := range []string{"limitctl_next_version 2", `limitctl_next_takes_total{outcome="denied_anew"} 2`,
		`limitctl_next_takes_total{outcome="same"} 3`, `limitctl_next_denials_total{change="anew",limit="ip",policy="login"} 2`,
		`limitctl_next_denials_total{change="anew",limit="day",policy="login"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	s.until("config status adds up what would be denied", func() bool {
		out := status()
		return strings.Contains(out, "5 takes judged, 1 denied; the next version would deny 2 anew, and 0 no longer") &&
			strings.Contains(out, "ip:192.0.2.1  login/ip   anew")
	})

	publish(less, "--percent", "100", "--by", "ip")
	s.until("the next version decides", func() bool {
		_, text := check("192.0.2.2")
		return strings.Contains(text, `"day~next"`)
	})
	if got, _ := consume("192.0.2.2"); got != http.StatusTooManyRequests { // one is in use of the limit that counts alike
		t.Errorf("the next version answers %d", got)
	}
	if got, _ := consume("192.0.2.4"); got != http.StatusOK {
		t.Errorf("the next version answers %d", got)
	}
	if _, text := s.body("admin", "/metrics", ""); !strings.Contains(text, `limitctl_next_takes_total{outcome="denied_by_next"}`) ||
		!strings.Contains(text, `limitctl_decisions_total{limit="day~next",outcome="allowed",policy="login"}`) {
		t.Error("the metrics do not tell of the share")
	}
	w.run(t, exitYes, "config", "rollback", "-m", "enough", "--yes", "--store", store)
	s.until("the version in force is alone again", func() bool {
		_, text := check("192.0.2.2")
		return !strings.Contains(text, `"day~next"`)
	})
	if got, _ := consume("192.0.2.2"); got != http.StatusOK {
		t.Errorf("the version in force answers %d", got)
	}
	if _, text := s.body("admin", "/metrics", ""); strings.Contains(text, "limitctl_next_version ") {
		t.Error("the metrics still tell of a version that is tried")
	}

	publish(less, "--percent", "100", "--by", "ip", "--until", "2s")
	s.until("it is the end by itself", func() bool {
		return strings.Contains(status(), "and is no longer; ")
	})
	if got, text := consume("192.0.2.3"); got != http.StatusOK || strings.Contains(text, "next") {
		t.Errorf("after the end it answers %d, %s", got, text)
	}
	// It can still be promoted.
	w.run(t, exitYes, "config", "promote", "-m", "fine", "--yes", "--no-keys", "--store", store)
	s.until("the promoted version is in force", func() bool {
		got, text := check("192.0.2.3")
		return got == http.StatusTooManyRequests && !strings.Contains(text, "~next")
	})
	if log := s.end(); strings.Contains(log, "panic") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log tells of an error:\n%s", log)
	}
}
