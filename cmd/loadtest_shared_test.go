package cmd

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

// sharedRun runs a load test on two machines at once, which are processes here, and returns the
// files they saved.
func sharedRun(t *testing.T, server *redistest.Server, args ...string) (files []string) {
	t.Helper()
	return sharedRunOf(t, append([]string{"--store", "redis://" + server.Addr}, args...)...)
}

// sharedRunOf is as sharedRun for any target.
func sharedRunOf(t *testing.T, args ...string) (files []string) {
	t.Helper()
	dir := t.TempDir()
	start := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339Nano)
	var machines sync.WaitGroup
	for i := range 2 {
		file := filepath.Join(dir, strconv.Itoa(i)+".json")
		files = append(files, file)
		machines.Go(func() {
			cmd := exec.Command("limitctl", append([]string{"loadtest", "-q", "--machines", "2", "--start-at", start, "--save", file,
				"--keys", "5", "--duration", "2s"}, args...)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir, "XDG_CONFIG_HOME="+dir)
			if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != exitNo {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	machines.Wait()
	return files
}

// merged is what limitctl report says of files, and its exit code.
func merged(t *testing.T, files ...string) (*report.Document, string, int) {
	t.Helper()
	cmd := exec.Command("limitctl", append([]string{"report", "-o", "json"}, files...)...)
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	_ = cmd.Run() // its exit code is looked at
	d := new(report.Document)
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), d); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
	}
	return d, errors.String(), cmd.ProcessState.ExitCode()
}

// Two machines that drive the same keys are audited together: nothing is wrong with a right store,
// though neither was admitted all that the limit allows.
func TestMachinesThatShareKeysAreAuditedTogether(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	t.Parallel()
	server := redistest.Start(t)
	files := sharedRun(t, server, "--run", "both", "--limit", "20/1s", "--rate", "400")
	both, stderr, code := merged(t, files...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	r := &both.Runs[0]
	a := &r.Audit
	if a.OverAdmitted != 0 || a.UnderAdmitted != 0 || a.Lies == nil || a.Lies.Wrong != 0 || a.Lies.Checked < r.Allowed+r.Denied ||
		a.LimitReached == nil || *a.LimitReached != 1 || r.Denied == 0 || r.Keys != 5 || !r.Shared.Audited {
		t.Errorf("together: %+v, %+v", a, r.Shared)
	}
	alone, _, code := merged(t, files[0])
	if a := alone.Runs[0].Audit; code != 0 || a.UnderAdmitted != 0 || a.Lies != nil || a.LimitReached != nil {
		t.Errorf("alone: exit code %d, %+v", code, a)
	}
	again := filepath.Join(t.TempDir(), "again.json")
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(again, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := merged(t, files[0], again); code != exitUsage || !strings.Contains(stderr, "are of the same machine") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// Each of two machines was admitted less than the limit, and together they were admitted more.
func TestMachinesTogetherFindWhatNeitherSeesAlone(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	t.Parallel()
	server := redistest.Start(t)
	// Each asks for 350 of 380, and when these are used both ask for 50 at once.
	files := sharedRun(t, server, "--run", "naive", "--limit", "sliding-log:380/1h", "--implementation", "naive",
		"--arrivals", "bursts:50/100ms", "--keys", "1", "--requests", "350")
	// The keys are used now, and the limit is of an hour.
	used := exec.Command("limitctl", "loadtest", "--store", "redis://"+server.Addr, "--limit", "sliding-log:380/1h",
		"--keys", "1", "--duration", "1s", "--run", "naive", "--machines", "1", "--start-at",
		time.Now().Add(time.Minute).Format(time.RFC3339))
	dir := t.TempDir()
	used.Env = append(os.Environ(), "XDG_STATE_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if out, _ := used.CombinedOutput(); used.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), "are in use already") {
		t.Errorf("a used name: exit code %d, %s", used.ProcessState.ExitCode(), out)
	}
	both, stderr, code := merged(t, files...)
	if code != exitNo {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if a := both.Runs[0].Audit; a.OverAdmitted == 0 || a.LeastOver == 0 || !both.Runs[0].Shared.Audited {
		t.Errorf("together: %+v", a)
	}
	for _, file := range files {
		if alone, _, code := merged(t, file); code != 0 || alone.Runs[0].Audit.OverAdmitted != 0 {
			t.Errorf("alone: exit code %d, %+v", code, alone.Runs[0].Audit)
		}
	}
}

// Two machines that drive the subjects of one endpoint are audited together: each is admitted less than the limit, and an
// endpoint that lets in too much is found all the same.
func TestMachinesThatDriveOneEndpointAreAuditedTogether(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	t.Parallel()
	for _, limit := range []string{"sliding-log:20/1s", "sliding-log:24/1s"} {
		service := newLimitedService(t, limit)
		files := sharedRunOf(t, service.URL+"/?key={subject}", "--run", "both", "--limit", "sliding-log:20/1s", "--rate", "200",
			anyErrors)
		wrong := limit != "sliding-log:20/1s"
		both, stderr, code := merged(t, files...)
		a, r := both.Runs[0].Audit, &both.Runs[0]
		if code == exitNo != wrong || a.OverAdmitted > 0 != wrong || !wrong && a.UnderAdmitted > 0 || r.Keys != 5 || !r.Shared.Audited ||
			a.Sensitivity == nil || a.Sensitivity.LeastOver == 0 {
			t.Errorf("%s: exit code %d, %+v, %+v: %s", limit, code, a, r.Shared, stderr)
		}
		for _, file := range files {
			if alone, _, code := merged(t, file); code != 0 || alone.Runs[0].Audit.OverAdmitted+alone.Runs[0].Audit.UnderAdmitted > 0 {
				t.Errorf("%s alone: exit code %d, %+v", limit, code, alone.Runs[0].Audit)
			}
		}
	}
}

func TestNamesOfRuns(t *testing.T) {
	for name, want := range map[string]string{
		"":                      "--run is empty",
		strings.Repeat("x", 65): "is 65 bytes long; at most 64 fit",
		"a:b":                   "has a character that means something else in keys",
		"{a}":                   "cannot be part of a key",
		"a!b":                   "cannot be part of a key",
		"a\nb":                  "cannot be part of a key",
		"a b*":                  "",
		"good":                  "--run needs --start-at",
	} {
		cmd := exec.Command("limitctl", "loadtest", "--limit", "1/1s", "--duration", "1s", "--run", name, "--machines", "2")
		dir := t.TempDir()
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%q: exit code %d, %s", name, cmd.ProcessState.ExitCode(), out)
		}
	}
}
