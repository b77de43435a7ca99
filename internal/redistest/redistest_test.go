package redistest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func TestAClusterServesEverySlotOnThreeMasters(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), DisableIdentity: true})
	defer client.Close()
	const keys = 300
	for i := range keys {
		if err := client.Set(ctx, fmt.Sprint("key", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for i, master := range c.Masters {
		n, err := master.do(ctx, "DBSIZE").Int()
		if err != nil || n < keys/6 {
			t.Errorf("master %d has %d of %d keys: %v", i, n, keys, err)
		}
		total += n
		for _, slot := range []int{i * slots / masters, (i+1)*slots/masters - 1} {
			if owner, err := c.Owner(slot); err != nil || owner != i {
				t.Errorf("slot %d is at master %d, %v; want %d", slot, owner, err, i)
			}
		}
	}
	if total != keys {
		t.Errorf("the masters have %d keys, want %d", total, keys)
	}

	// A slot moves with its keys.
	slot := int(client.ClusterKeySlot(ctx, "{a}").Val())
	from, _ := c.Owner(slot)
	to := (from + 1) % masters
	for i := range 250 { // more than one MIGRATE moves
		if err := client.Set(ctx, fmt.Sprint("{a}", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		do           func() error
		owner, moved int
	}{{func() error { return c.BeginMoveSlot(slot, to, "{a}0") }, from, 1},
		{func() error { return c.MoveSlot(slot, to) }, to, 250}} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		at, err := c.Owner(slot)
		if n, err2 := c.Masters[to].do(ctx, "CLUSTER", "COUNTKEYSINSLOT", slot).Int(); err != nil || err2 != nil ||
			at != step.owner ||
			n != step.moved {
			t.Errorf("the slot is at master %d, and %d keys have moved, %v, %v; want %d and %d", at, n, err, err2,
				step.owner, step.moved)
		}
	}
	if got, err := client.Get(ctx, "{a}249").Int(); err != nil || got != 249 {
		t.Errorf("a key that has moved holds %d, %v", got, err)
	}
}

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

// Servers that are started one after the other get addresses before they listen.
func TestNoAddressIsGivenTwice(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		addr, err := FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		if seen[addr] {
			t.Fatalf("%s was given twice", addr)
		}
		seen[addr] = true
	}
}
