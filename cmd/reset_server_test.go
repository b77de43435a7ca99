package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

// newGate returns a gate to a server until the test ends.
func newGate(t *testing.T, server string, isTime func() bool) *redistest.Gate {
	t.Helper()
	g, err := redistest.NewGate(server, isTime)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// heldBy returns what each limit's key in a server holds, and when it expires.
func heldBy(t *testing.T, client *redis.Client) map[string]string {
	t.Helper()
	held := map[string]string{}
	for _, key := range client.Keys(t.Context(), "rl:*").Val() {
		value, err := client.Get(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		held[key] = fmt.Sprintf("%x until %s", value, client.PExpireTime(t.Context(), key).Val())
	}
	return held
}

// A reset that is killed, is interrupted or gets no answer in the middle has all that it deleted in its backup, from
// which it comes back with the expiry it had. One that is killed cannot say a word, and is in the store's audit log as
// one that has begun. One without an answer is run again for the rest, and what each run says undoes that run.
func TestResetStoppedInTheMiddle(t *testing.T) {
	tier.Full(t, "outages in series, and servers that hang")
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, 0} { // 0 does nothing
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			const all = 3000
			server := redistest.Start(t)
			client := server.Client()
			ctx := t.Context()
			w := newWorld(t)
			w.run(t, exitYes, "consume", "tenant:acme:0", "--limit", "10/100h", "--store", "redis://"+server.Addr)
			value := client.Get(ctx, "rl:{tenant:acme:0}:token-bucket/100h").Val()
			pipe := client.Pipeline()
			for i := range all {
				pipe.Set(ctx, fmt.Sprintf("rl:{tenant:acme:%d}:token-bucket/100h", i), value,
					time.Hour+time.Duration(i)*time.Millisecond)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				t.Fatal(err)
			}
			before := heldBy(t, client)
			var over atomic.Bool // and the gate is open again
			g := newGate(t, server.Addr, func() bool { return !over.Load() && limitsIn(ctx, client) < all-600 })
			home, elsewhere := t.TempDir(), t.TempDir()
			var stdout, stderr bytes.Buffer
			limitctl := func(home, address string, args ...string) *exec.Cmd {
				cmd := exec.Command("limitctl", append(args, "--store", "redis://"+address)...)
				cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+home, "XDG_CONFIG_HOME="+home, "USER=night")
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				return cmd
			}
			words := []string{"reset", "tenant:acme:*", "--yes", "-o", "json", "--reason", "a runaway job", "--timeout",
				"5s"}
			reset := limitctl(home, g.Addr, words...)
			if err := reset.Start(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-g.Shut:
			case <-time.After(time.Minute):
				t.Error("it deletes nothing")
			}
			// An undo while it still runs would say that it is done, and be wrong.
			kept, err := filepath.Glob(home + "/limitctl/backups/*.jsonl")
			if err != nil || len(kept) != 1 {
				t.Fatalf("%q, %v", kept, err)
			}
			undo := limitctl(home, server.Addr, "undo", kept[0], "--yes")
			undo.Stdout, undo.Stderr = nil, nil
			refusal, err := undo.CombinedOutput()
			want := fmt.Sprintf("still runs (pid %d); wait for its end, or end it", reset.Process.Pid)
			if undo.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(refusal), want) {
				t.Errorf("an undo meanwhile: %v, %s", err, refusal)
			}
			reset.Process.Signal(sig)
			over.Store(true) // for new connections
			reset.Wait()
			deleted := all - limitsIn(ctx, client)
			if deleted < 600 || deleted == all {
				t.Fatalf("it was not stopped in the middle: %d of %d keys are deleted", deleted, all)
			}
			said, told := stdout.String(), stderr.String()

			audit := limitctl(elsewhere, server.Addr, "audit", "-o", "jsonl")
			if sig != syscall.SIGKILL { // which the machine itself knows of
				audit = limitctl(home, server.Addr, "audit", "-o", "jsonl")
			}
			stdout.Reset()
			var run auditlog.Entry
			if err := audit.Run(); err != nil || json.Unmarshal(stdout.Bytes(), &run) != nil {
				t.Fatalf("the audit log is %s, %v", &stdout, err)
			}
			if run.User != "night" || run.Reason != "a runaway job" ||
				filepath.Dir(run.Backup) != filepath.Join(home, "limitctl", "backups") {
				t.Errorf("the audit log has %+v", run)
			}
			ends := struct {
				outcome auditlog.Outcome
				exit    int
				says    string
			}{auditlog.Interrupted, exitInterrupted, "interrupted: "}
			if sig == 0 {
				ends.outcome, ends.exit, ends.says = auditlog.Partly, exitPartly,
					"; run it again for the rest, with --timeout 30s if the server is slow; to undo all, undo each "+
						"run, "+
						"the last one first)"
			}
			switch {
			case sig == syscall.SIGKILL:
				if run.Outcome != auditlog.Begun || run.Matched != all || run.Source != auditlog.Store ||
					strings.Contains(told, "undo with") {
					t.Errorf("the audit log from elsewhere has %+v, and it says %s", run, told)
				}
			case run.Outcome != ends.outcome || run.Changed != deleted || reset.ProcessState.ExitCode() != ends.exit ||
				!strings.Contains(said, fmt.Sprintf(`"matched": %d,`, all)) ||
				!strings.Contains(said, fmt.Sprintf(`"changed": %d,`, deleted)):
				t.Errorf("%d are deleted, it ends with %v and says %s, and the audit log has %+v", deleted,
					reset.ProcessState, said, run)
			default:
				for _, want := range []string{
					"undo with: limitctl undo " + run.Backup + " ", ends.says, "outcome unknown: redis at " + g.Addr,
					fmt.Sprintf("%s of %s keys known to be done", output.Thousands(deleted), output.Thousands(all))} {
					if !strings.Contains(told, want) {
						t.Errorf("it does not say %q:\n%s", want, told)
					}
				}
			}
			if sig == 0 {
				for _, args := range [][]string{words, {"undo", "--yes"}} {
					stderr.Reset()
					if err := limitctl(home, g.Addr, args...).Run(); err != nil || limitsIn(ctx, client) == all {
						t.Fatalf("%v: %s", err, &stderr)
					}
				}
			}

			// What was not deleted is as it should be, and stays. To restore once more changes nothing.
			for _, restored := range []int64{deleted, 0} {
				stdout.Reset()
				if err := limitctl(home, g.Addr, "undo", run.Backup, "--yes", "-o", "jsonl").Run(); err != nil {
					t.Fatalf("%v: %s", err, &stderr)
				}
				checkBroughtBack(t, stdout.Bytes(), all, restored)
			}
			if after := heldBy(t, client); !maps.Equal(after, before) {
				t.Errorf("%d keys are back of %d, or not with what they held", len(after), len(before))
			}
		})
	}
}

// checkBroughtBack checks what an undo or a restore of a stopped reset says: that it brought so many keys back, and
// that the others are there, those of the batch that was under way and those that had not been reached.
func checkBroughtBack(t *testing.T, answer []byte, records, restored int64) {
	t.Helper()
	var is struct {
		Records, Restored, Lapsed, Unreached int64
		Already                              int64 `json:"already_there"`
		InUse                                int64 `json:"in_use"`
	}
	if err := json.Unmarshal(answer, &is); err != nil || is.Records != records || is.Restored != restored ||
		is.Lapsed+is.InUse != 0 ||
		is.Restored+is.Already+is.Unreached != records || is.Unreached == 0 || is.Unreached%500 != 0 {
		t.Errorf("it says %s (%v), want %d records, %d restored, and the others there or unreached, by batches of 500",
			answer, err,
			records, restored)
	}
}

// limitsIn is how many limits a server has, besides what is kept beside them.
func limitsIn(ctx context.Context, client *redis.Client) int64 {
	n, _ := client.Eval(ctx, "return #redis.call('KEYS', 'rl:*')", nil).Int64()
	return n
}
