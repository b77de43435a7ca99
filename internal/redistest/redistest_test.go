package redistest

import (
	"os"
	"testing"
)

// Stop leaves nothing behind, whatever the state of the processes.
func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	s, err := LaunchSentinel()
	if err != nil {
		t.Fatal(err)
	}
	s.Servers[0].Pause()
	s.Sentinels[1].Pause()
	s.Sentinels[2].Kill()
	s.Stop()
	s.Stop()
	for _, p := range append(s.Servers, s.Sentinels...) {
		if p.running() {
			t.Error("a process still runs")
		}
		if _, err := os.Stat(p.Dir); !os.IsNotExist(err) {
			t.Errorf("its directory: %v", err)
		}
	}
}

func TestAFailedLaunchLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, launch := range map[string]func() error{
		"server":   func() error { _, err := Launch("--maxmemory", "none"); return err },
		"cluster":  func() error { _, err := LaunchCluster("--maxmemory", "none"); return err },
		"sentinel": func() error { _, err := LaunchSentinel("--maxmemory", "none"); return err },
	} {
		if err := launch(); err == nil {
			t.Errorf("a %s starts with a wrong configuration", name)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
