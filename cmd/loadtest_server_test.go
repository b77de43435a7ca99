package cmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// onLoad calls do once a load test has written to the server.
func onLoad(t *testing.T, server *redistest.Server, do func()) {
	client := server.Client()
	go func() {
		for t.Context().Err() == nil {
			if n, err := client.DBSize(t.Context()).Result(); err == nil && n > 0 {
				do()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
}

// underLoad runs a load test in a process of its own against the server, calls do
// with the process once it has written something, and returns what it printed when it has
// ended.
func underLoad(
	t *testing.T, server *redistest.Server, do func(*os.Process), args ...string,
) (state *os.ProcessState, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("limitctl", append([]string{"loadtest", "--store", "redis://" + server.Addr}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	onLoad(t, server, func() { do(cmd.Process) })
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		cmd.Process.Kill()
		<-ended
		t.Fatalf("it did not end: %s%s", &out, &errors)
	}
	return cmd.ProcessState, out.String(), errors.String()
}

// An interrupt ends the sending; there is a report of what was until then, and nothing
// else is left.
func TestAnInterruptedLoadTestReportsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	state, stdout, stderr := underLoad(t, server, func(p *os.Process) { p.Signal(syscall.SIGINT) }, "--limit", "10/1h",
		"--duration", "10m",
		"-o", "json", "--threshold", "requests==0", "--save", "run.json", "--rate", "200", "--keys", "20",
		"--algorithm", "all")
	var document report.Document
	if err := json.Unmarshal([]byte(stdout), &document); err != nil || state.ExitCode() != exitInterrupted ||
		stderr != "limitctl: interrupted\n" || len(document.Runs) != 1 || !document.Interrupted ||
		len(document.Thresholds) != 1 {
		t.Fatalf("exit code %d (%v): %s%s", state.ExitCode(), err, stdout, stderr)
	}
	if r := &document.Runs[0]; r.Requests == 0 || r.Requests != r.Allowed+r.Denied || r.Dropped != 0 ||
		r.Audit.OverAdmitted != 0 ||
		r.Audit.UnderAdmitted != 0 {
		t.Errorf("%+v", r)
	}
	if n := server.Do("DBSIZE"); n != int64(0) {
		t.Errorf("%d keys are left", n)
	}
}

// Whoever is in a hurry interrupts twice: what is under way is not waited for.
func TestASecondInterruptEndsALoadTest(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	state, stdout, _ := underLoad(t, server, func(p *os.Process) {
		server.Pause() // so that something is under way for as long as the timeout
		for p.Signal(syscall.SIGINT) == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}, "--limit", "10/1h", "--rate", "200", "--duration", "10m", "--timeout", "10m")
	server.Resume()
	if status := state.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT ||
		stdout != "" {
		t.Errorf("it ended by itself: %s, %s", state, stdout)
	}
}

// onAnswers calls do once a load test has read the answer to a take: a connection that takes for the third time has,
// since the first answer can be that the script is not known.
func onAnswers(t *testing.T, server *redistest.Server, do func()) {
	conn, err := net.Dial("tcp", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	go func() {
		calls := map[string]int{} // by the client's address
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			// as in: +1700000000.1 [0 127.0.0.1:5000] "evalsha" "…"
			words := strings.Fields(lines.Text())
			if len(words) < 4 || words[3] != `"evalsha"` && words[3] != `"eval"` { // others only read
				continue
			}
			if calls[words[2]]++; calls[words[2]] == 3 {
				do()
				return
			}
		}
	}()
}

func TestALoadTestWhoseServerDies(t *testing.T) {
	tier.Full(t, "outages in series, and servers that hang")
	t.Parallel()
	server := redistest.Start(t)
	onAnswers(t, server, server.Kill)
	w := newWorld(t)
	w.Now, w.Sleep = time.Now, sys.Sleep
	stdout, stderr := w.run(t, exitPartly, "loadtest", "--store", "redis://"+server.Addr, "--limit", "10/1h",
		"--rate", "200", "--requests", "400", "--duration", "10m", "--timeout", "5s", "-o", "json", anyErrors)
	var document report.Document
	if err := json.Unmarshal([]byte(stdout), &document); err != nil || len(document.Runs) != 1 {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	r := &document.Runs[0]
	if r.Errors == 0 || r.Requests != r.Allowed+r.Denied+r.Errors || r.Requests+r.Dropped != 400 ||
		r.Audit.OverAdmitted != 0 ||
		r.Audit.UnderAdmitted != 0 {
		t.Errorf("%+v", r)
	}
	if !slices.ContainsFunc(r.ErrorTexts, func(e loadgen.ErrorCount) bool {
		return strings.Contains(e.Text, "connection refused")
	}) {
		t.Errorf("the errors are %v", r.ErrorTexts)
	}
	if want := "limitctl: the run's keys, which begin with rl:loadtest:"; !strings.HasPrefix(stderr, want) ||
		!strings.Contains(stderr, "could not all be removed: ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("it says %q", stderr)
	}
}

// Requests whose answers did not come in time may have been charged, or not: neither is
// held against the limit.
func TestALoadTestWhoseServerIsAwayForAWhile(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	t.Parallel()
	server := redistest.Start(t)
	onLoad(t, server, func() {
		server.Pause()
		time.Sleep(600 * time.Millisecond)
		server.Resume()
	})
	document := loadtest(t, exitYes, "--store", "redis://"+server.Addr, "--limit", "20/1h", "--keys", "2", "--workers",
		"8",
		"--rate", "200", "--requests", "300", "--duration", "10m", "--timeout", "250ms")
	r := &document.Runs[0]
	if r.Unknown == 0 || r.Allowed == 0 || r.Denied == 0 || r.Requests != r.Allowed+r.Denied+r.Errors ||
		r.Requests+r.Dropped != 300 {
		t.Errorf("%d allowed, %d denied, %d errors, %d unknown, %d dropped", r.Allowed, r.Denied, r.Errors, r.Unknown,
			r.Dropped)
	}
	if r.Late == 0 || r.Audit.OverAdmitted != 0 || r.Audit.UnderAdmitted != 0 || r.Audit.WorstRatio > 1 {
		t.Errorf("%d late, %+v", r.Late, r.Audit)
	}
	if n := server.Do("DBSIZE"); n != int64(0) {
		t.Errorf("%d keys are left", n)
	}
}
