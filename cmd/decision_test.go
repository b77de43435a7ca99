package cmd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
