package cmd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/limitctl/limitctl/internal/clitest"
)

const testPolicies = `policies:
  waiting:
    limits:
      - {name: queue, by: [user], limit: "leaky-bucket:10/1h"}
      - {name: trial, by: [user], limit: "sliding-log:1/1h", shadow: true}
  tenants:
    limits:
      - {name: tenant-per-minute, by: [tenant], limit: 1000/1m, overrides: [{when: {tenant: 日本語のテナント}, limit: 5/1m}]}
      - {name: user-and-route, by: [tenant, user, route], limit: 60/1h, shadow: true}
`

func withPolicies(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(path, []byte(testPolicies), 0o600); err != nil {
		t.Fatal(err)
	}
	getenv := w.Getenv
	w.Getenv = func(name string) string {
		if name == "LIMITCTL_CONFIG" {
			return path
		}
		return getenv(name)
	}
	return w
}

// A turn given back takes nothing from a shadow that was not charged.
func TestGivingBackAPolicysTurn(t *testing.T) {
	w := withPolicies(t)
	w.run(t, exitYes, "consume", "--policy", "waiting", "user=7") // all that the shadow allows
	ctx, interrupt := context.WithCancel(context.Background())
	w.Sleep = func(ctx context.Context, d time.Duration) error {
		interrupt()
		return ctx.Err()
	}
	if code := Run(ctx, []string{"consume", "--policy", "waiting", "user=7", "--wait"}, w.Env); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	stdout, _ := w.run(t, exitYes, "inspect", "user:7", "-o", "csv")
	if !strings.Contains(stdout, "waiting/queue,leaky-bucket,10,3600000,10,,1,9,") ||
		!strings.Contains(stdout, "waiting/trial,sliding-log,1,3600000,1,,1,0,") {
		t.Errorf("after giving back:\n%s", stdout)
	}
}

func TestAPolicysAnswerFitsTheTerminal(t *testing.T) {
	w := withPolicies(t)
	w.OutIsTerminal = true
	for _, columns := range []int{50, 80, 120} {
		w.Size = func() (int, int) { return columns, 24 }
		table, _ := w.run(t, exitYes, "check", "--policy", "tenants", "tenant=日本語のテナント", "user=tenant:acme:user:123456789",
			"route=/api/v1/things")
		if !strings.Contains(table, "\x1b[") || columns == 120 && !strings.Contains(table, "override 1") {
			t.Errorf("on %d columns:\n%s", columns, table)
		}
		for i, line := range strings.Split(clitest.Strip(table), "\n") {
			if width := runewidth.StringWidth(line); i > 0 && width > columns {
				t.Errorf("a line of %d columns on a terminal of %d:\n%q", width, columns, strings.Split(table, "\n")[i])
			}
		}
	}
}
