package filestore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Processes of the tests below run this binary again: with the variable set, it
// takes from the file until denied and prints a line for each unit it got.
const takerVariable = "FILESTORE_TEST_TAKE_FROM"

func TestMain(m *testing.M) {
	if path := os.Getenv(takerVariable); path != "" {
		takeUntilDenied(path)
		return
	}
	filestore.NoDisk()
	os.Exit(m.Run())
}

var (
	shared      = store.Key{Subject: "shared", Name: "limit"}
	sharedLimit = store.Limit{Algorithm: store.SlidingLog, Count: 1000, Period: 24 * time.Hour}
)

func takeUntilDenied(path string) {
	backend, err := filestore.New(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()
	for {
		d, err := storecall.New(backend).Take(context.Background(), shared, sharedLimit, 1)
		switch {
		case store.IsAway(err) && !errors.Is(err, store.ErrOutcomeUnknown):
			// nothing was taken: on a busy machine fifty processes can keep one out for longer than a call waits
			continue
		case err != nil:
			fmt.Println(err)
			return
		case !d.Allowed:
			return
		}
		// A pipe has room for a few of these lines, so that nobody gets far ahead of who reads.
		fmt.Println("got 1" + strings.Repeat(" ", 4000))
	}
}

func taker(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	must(t, err)
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), takerVariable+"="+path)
	return cmd
}

// Fifty processes that begin with no file and consume one key together admit exactly the limit.
func TestConcurrentProcessesShareALimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	var takers []*exec.Cmd
	outputs := make([]strings.Builder, 50)
	for i := range outputs {
		cmd := taker(t, path)
		cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
		must(t, cmd.Start())
		takers = append(takers, cmd)
	}
	total := 0
	for i, cmd := range takers {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
		got := strings.Count(outputs[i].String(), "got 1")
		if rest := strings.TrimSpace(strings.ReplaceAll(outputs[i].String(), "got 1", "")); rest != "" {
			t.Errorf("process %d says %s", i, rest)
		}
		total += got
	}
	if total != 1000 {
		t.Errorf("%d units were taken, want 1000", total)
	}
}

// A process killed in the middle of its takes leaves a sound file: every unit it
// was granted is charged, and at most the one it was about to be told of beyond.
func TestAKilledProcessLosesAndDoublesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	granted := 0
	for round := range 5 {
		cmd := taker(t, path)
		stdout, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(stdout)
		for n := 0; lines.Scan(); n++ {
			if strings.TrimSpace(lines.Text()) != "got 1" {
				t.Errorf("round %d: %s", round, lines.Text())
			}
			granted++
			if n == 20+round {
				cmd.Process.Kill() // SIGKILL; what is still in the pipe counts
			}
		}
		cmd.Wait()
		d, err := storecall.New(open(t, path)).Peek(context.Background(), shared, sharedLimit, 1)
		must(t, err)
		if unprinted := int(d.Used) - granted; unprinted < 0 || unprinted > 1 {
			t.Fatalf("round %d: %d units were granted and %d are charged", round, granted, d.Used)
		}
		granted = int(d.Used)
	}
	if granted < 100 || granted >= 1000 {
		t.Errorf("%d units were granted; the processes were not killed in the middle", granted)
	}
}

func TestLapsedKeysAreReclaimed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	now := time.Unix(1_700_000_000, 0)
	backend := open(t, path, filestore.WithClock(func() time.Time { return now }))
	for i := range 500 {
		now = now.Add(100 * time.Millisecond)
		if err := take(backend, store.Key{Subject: fmt.Sprint(i), Name: "limit"},
			store.Limit{Count: 1, Period: time.Second},
			1); err != nil {
			t.Fatal(err)
		}
	}
	if rows := strings.Count(dump(t, path), "\n"); rows > 20 {
		t.Errorf("%d keys are in the file, of which 10 are in use", rows)
	}
}
