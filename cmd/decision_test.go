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
`

// A turn given back takes nothing from a shadow that was not charged.
func TestGivingBackAPolicysTurn(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(path, []byte(testPolicies), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Getenv = withVariable(w.Getenv, "LIMITCTL_CONFIG", path)
	w.run(t, exitYes, "consume", "--policy", "waiting", "user=7") // all that the shadow allows
	ctx, interrupt := context.WithCancel(context.Background())
	w.Sleep = func(ctx context.Context, d time.Duration) error {
		interrupt()
		return ctx.Err()
	}
	if code := Run(ctx, []string{"consume", "--policy", "waiting", "user=7", "--wait"},
		w.Env); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	stdout, _ := w.run(t, exitYes, "inspect", "user:7", "-o", "csv")
	if !strings.Contains(stdout, ",leaky-bucket,10,3600000,10,0,,1,9,") ||
		!strings.Contains(stdout, ",sliding-log,1,3600000,1,0,,1,0,") {
		t.Errorf("after giving back:\n%s", stdout)
	}
}
