package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// manyKeys puts keys in use in a server, each with a usage and an expiry of its own.
func manyKeys(t *testing.T, server *redistest.Server, all int) {
	t.Helper()
	backend, err := redisstore.Own(server.Client())
	if err != nil {
		t.Fatal(err)
	}
	limit, err := store.Limit{Algorithm: store.SlidingCounter, Count: 1_000_000, Period: 366 * 24 * time.Hour}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Millisecond)
	var records []admin.Record
	for i := range all {
		var state store.State
		state.Charge(limit, int64(1+i%1000), store.InstantOf(now))
		records = append(records, admin.Record{Key: store.Key{Subject: fmt.Sprintf("user:%d", i), Name: "yearly"},
			Value: state.AppendRecord(nil), Expires: now.Add(time.Hour + time.Duration(i)*time.Millisecond)})
	}
	if _, err := backend.Import(context.Background(), true, records...); err != nil {
		t.Fatal(err)
	}
}

// heldBy returns what each limit's key in a server holds, and when it expires.
func heldBy(t *testing.T, client *redis.Client) map[string]string {
	t.Helper()
	ctx := context.Background()
	keys, err := client.Keys(ctx, "rl:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	held := make(map[string]string, len(keys))
	for len(keys) > 0 {
		part := keys[:min(5000, len(keys))]
		keys = keys[len(part):]
		pipe := client.Pipeline()
		values, expiries := make([]*redis.StringCmd, len(part)), make([]*redis.DurationCmd, len(part))
		for i, key := range part {
			values[i], expiries[i] = pipe.Get(ctx, key), pipe.PExpireTime(ctx, key)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		for i, key := range part {
			held[key] = fmt.Sprintf("%x until %s", values[i].Val(), expiries[i].Val())
		}
	}
	return held
}

// A reset of many keys is killed in the middle, so that it cannot say a word. Somebody on
// another machine sees in the store's audit that it has begun, and which backup it has. By
// "undo" all of it comes back.
func TestAKilledResetIsInTheAuditAndComesBack(t *testing.T) {
	tier.Full(t, "outages in series, and servers that hang")
	const all = 100_000
	server := redistest.Start(t)
	manyKeys(t, server, all)
	client := server.Client()
	before := heldBy(t, client)
	var killed atomic.Bool
	g := newGate(t, server.Addr, func() bool { return !killed.Load() && client.DBSize(context.Background()).Val() < all-all/10 })
	home, elsewhere := t.TempDir(), t.TempDir()
	limitctl := func(home string, args ...string) *exec.Cmd {
		cmd := exec.Command("limitctl", append(args, "--store", "redis://"+g.addr)...)
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+home, "XDG_CONFIG_HOME="+home, "HOME="+home, "USER=night")
		return cmd
	}

	reset := limitctl(home, "reset", "user:*", "--yes", "--reason", "a runaway job", "--timeout", "1m")
	var said bytes.Buffer
	reset.Stderr = &said
	if err := reset.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.closed:
	case <-time.After(time.Minute):
		t.Error("it deletes nothing")
	}
	reset.Process.Kill()
	reset.Wait()
	killed.Store(true)
	left := heldBy(t, client)
	if len(left) == 0 || len(left) > all-all/10 || strings.Contains(said.String(), "undo with") {
		t.Fatalf("%d of %d keys are left, and it says %s", len(left), all, &said)
	}

	text, err := limitctl(elsewhere, "audit", "-o", "jsonl").Output()
	var run auditlog.Entry
	if err != nil || bytes.Count(text, []byte("\n")) != 1 || json.Unmarshal(text, &run) != nil {
		t.Fatalf("the audit from elsewhere is %s, %v", text, err)
	}
	if run.Outcome != auditlog.Begun || run.User != "night" || run.Reason != "a runaway job" || run.Matched != all ||
		run.Source != auditlog.Store ||
		filepath.Dir(run.Backup) != filepath.Join(home, "limitctl", "backups") {
		t.Errorf("the audit from elsewhere has %+v", run)
	}
	for _, columns := range []string{"audit", "audit --local"} { // as people see it, also on the machine itself
		shown, err := limitctl(home, strings.Fields(columns)...).CombinedOutput()
		if err != nil || !bytes.Contains(shown, []byte(" begun ")) || !bytes.Contains(shown, []byte(filepath.Base(run.Backup))) {
			t.Errorf("%s shows %s, %v", columns, shown, err)
		}
	}

	undone, err := limitctl(home, "undo", "--yes", "-o", "jsonl").CombinedOutput()
	if err != nil {
		t.Fatalf("the undo says %s, %v", undone, err)
	}
	checkBroughtBack(t, undone[max(0, bytes.IndexByte(undone, '{')):], int64(all), int64(all-len(left)))
	after := heldBy(t, client)
	for key, want := range before {
		if after[key] != want {
			t.Fatalf("%s holds %s, want %s", key, after[key], want)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d keys are back of %d", len(after), len(before))
	}
}
