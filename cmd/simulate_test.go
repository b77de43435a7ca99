package cmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

// writeLog writes an access log of so many lines and clients, and returns its path.
func writeLog(t *testing.T, lines, clients int) string {
	t.Helper()
	var b strings.Builder
	begin := time.Date(2015, time.May, 17, 10, 5, 0, 0, time.UTC)
	for i := range lines {
		fmt.Fprintf(&b, "10.0.%d.%d - - [%s] \"GET / HTTP/1.1\" 200 512\n", i%clients/250, i%clients%250,
			begin.Add(time.Duration(i)*time.Second).Format("02/Jan/2006:15:04:05 -0700"))
	}
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// onceWritten calls do as soon as a server holds a key that it did not before, and
// returns when that is done or ctx has ended.
func onceWritten(ctx context.Context, server *redistest.Server, do func()) (done chan struct{}) {
	client := server.Client()
	done = make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if n, err := client.DBSize(ctx).Result(); err == nil && n > 0 {
				do()
				return
			}
		}
	}()
	return done
}

// longLog is more lines than a server decides before it is looked at again.
const longLog = 300_000

func TestAnInterruptedSimulationLeavesNothingInTheStore(t *testing.T) {
	server := redistest.Start(t)
	w := newWorld(t)
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	written := onceWritten(ctx, server, interrupt)
	code := Run(ctx, []string{"simulate", writeLog(t, longLog, 100), "--limit", "30/1m", "--store", "redis://" + server.Addr}, w.Env)
	interrupt()
	<-written
	if code != exitInterrupted || w.out.Len() > 0 || !strings.HasSuffix(w.err.String(), "limitctl: interrupted\n") {
		t.Errorf("exit code %d: %s%s", code, &w.out, &w.err)
	}
	if n := server.Do("DBSIZE"); n != int64(0) {
		t.Errorf("%d keys are left", n)
	}
}

func TestAnErrorInASimulationLeavesNothingInTheStore(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	server := redistest.Start(t, "--maxmemory", "4mb")
	w := newWorld(t)
	_, stderr := w.run(t, exitRefused, "simulate", writeLog(t, 60_000, 60_000), "--limit", "sliding-log:1000/1h", "--store",
		"redis://"+server.Addr)
	if !strings.Contains(stderr, "memory") || strings.Contains(stderr, "could not all be removed") {
		t.Errorf("it says %s", stderr)
	}
	if n := server.Do("DBSIZE"); n != int64(0) {
		t.Errorf("%d keys are left", n)
	}
	if server.CommandCalls("unlink") == 0 {
		t.Error("there were no keys to remove")
	}
}

// A store that does not agree, here because somebody empties it, is exit code 1, and it
// is said where.
func TestASimulationSaysWhereTheStoreDisagrees(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	server := redistest.Start(t)
	w := newWorld(t)
	client := server.Client()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	written := onceWritten(ctx, server, func() { client.FlushAll(context.Background()) })
	stdout, stderr := w.run(t, exitNo, "simulate", writeLog(t, longLog/10, 1), "--limit", "fixed-window:1000000000/1d", "--store",
		"redis://"+server.Addr)
	cancel()
	<-written
	for _, want := range []string{"limitctl: fixed-window:1000000000/1d: the store decided ", " of 30000 requests differently than Go:\n",
		"of 10.0.0.0, limit fixed-window:1000000000/1d: the store says allowed, ", "; Go says allowed, "} {
		if !strings.Contains(stderr, want) {
			t.Errorf("it does not say %q: %s", want, stderr)
		}
	}
	if !strings.Contains(stdout, "fixed-window 1000000000/1d") {
		t.Errorf("the answer is %s", stdout)
	}
}

func TestInterruptWhileReadingALog(t *testing.T) {
	w := newWorld(t)
	ctx, interrupt := context.WithCancel(context.Background())
	w.In = readerFunc(func([]byte) (int, error) {
		interrupt()
		select {} // nothing more ever comes
	})
	if code := Run(ctx, []string{"simulate", "-", "--limit", "30/1m"}, w.Env); code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, &w.err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
