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
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), takerVariable+"="+path)
	return cmd
}

// Eight processes that begin with no file and consume one key together admit
// exactly the limit.
func TestConcurrentProcessesShareALimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	var takers []*exec.Cmd
	outputs := make([]strings.Builder, 8)
	for i := range outputs {
		cmd := taker(t, path)
		cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
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

// startTaker starts a taker, and returns the lines that it prints.
func startTaker(t *testing.T, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := taker(t, path)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(stdout)
}

// A process killed in the middle of its takes leaves a sound file: every unit it
// was granted is charged, and at most the one it was about to be told of beyond.
func TestAKilledProcessLosesAndDoublesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	granted := 0
	for round := range 10 {
		cmd, lines := startTaker(t, path)
		for n := 0; lines.Scan(); n++ {
			if strings.TrimSpace(lines.Text()) != "got 1" {
				t.Errorf("round %d: %s", round, lines.Text())
			}
			granted++
			if n == 10+round {
				cmd.Process.Kill() // SIGKILL; what is still in the pipe counts
			}
		}
		cmd.Wait()
		d, err := storecall.New(open(t, path)).Peek(context.Background(), shared, sharedLimit, 1)
		if err != nil {
			t.Fatal(err)
		}
		if unprinted := int(d.Used) - granted; unprinted < 0 || unprinted > 1 {
			t.Fatalf("round %d: %d units were granted and %d are charged", round, granted, d.Used)
		}
		granted = int(d.Used)
	}
	if granted < 100 || granted >= 1000 {
		t.Errorf("%d units were granted; the processes were not killed in the middle", granted)
	}
}

// The writer stops trying a locked file when the last caller leaves. Who comes at that moment waits as others do.
func TestWhoComesAsTheLastOneLeavesWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	limit := store.Limit{Count: 10, Period: 24 * time.Hour}
	key := store.Key{Subject: "u", Name: "limit"}
	if err := take(backend, key, limit, 1); err != nil {
		t.Fatal(err)
	}
	other := raw(t, path)
	defer other.Close()
	other.SetMaxOpenConns(1)
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
		_, err := storecall.New(backend).Take(ctx, key, limit, 1)
		cancel()
		if !errors.Is(err, store.ErrGaveUp) {
			t.Fatalf("got %v, want an ErrGaveUp", err)
		}
	}
	if _, err := other.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := take(backend, key, limit, 1); err != nil {
		t.Errorf("after the lock was released: %v", err)
	}
}

// Another process that holds the file's lock is waited for as long as the caller
// has time; then nothing was charged.
func TestALockedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	limit := store.Limit{Count: 10, Period: 24 * time.Hour}
	key := store.Key{Subject: "u", Name: "limit"}
	if err := take(backend, key, limit, 1); err != nil {
		t.Fatal(err)
	}
	other := raw(t, path)
	defer other.Close()
	other.SetMaxOpenConns(1)
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := storecall.New(backend).Take(ctx, key, limit, 1)
	if !errors.Is(err, store.ErrGaveUp) || store.IsAway(err) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an ErrGaveUp that names the file", err)
	}
	_, err = storecall.New(store.WithBudget(backend, 50*time.Millisecond)).Take(context.Background(), key, limit, 1)
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrGaveUp) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an ErrUnavailable that names the file", err)
	}
	if d, err := storecall.New(backend).Peek(context.Background(), key, limit, 1); err != nil || d.Used != 1 {
		t.Errorf("a peek beside the lock: %+v, %v; want 1 used", d, err)
	}
	// Nor does a call without a deadline make others of this process wait beyond theirs.
	patient := make(chan error)
	go func() { patient <- take(backend, key, limit, 1) }()
	until(t, "it waits", func() bool { return backend.Waiting() > 0 })
	ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := storecall.New(backend).Take(ctx, key, limit, 1); !errors.Is(err, store.ErrGaveUp) || store.IsAway(err) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("behind a patient call: %v; want an ErrGaveUp for the deadline", err)
	}
	released := make(chan error)
	go func() {
		_, err := other.Exec("COMMIT")
		released <- err
	}()
	if err := take(backend, key, limit, 1); err != nil {
		t.Errorf("after the lock was released: %v", err)
	}
	if err := errors.Join(<-released, <-patient); err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatAreNotOurs(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	content := strings.Repeat("no database, just text. ", 50)
	if err := os.WriteFile(text, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	database := filepath.Join(dir, "database")
	execute(t, database, "CREATE TABLE limits (somebody TEXT)")
	newer := filepath.Join(dir, "newer")
	execute(t, newer, "PRAGMA application_id = 1919707501")
	execute(t, newer, "PRAGMA user_version = 99")
	for path, want := range map[string]string{text: "not an SQLite database", database: "another program's database",
		newer: "format version 99"} {
		backend := open(t, path)
		limit := store.Limit{Count: 10, Period: time.Hour}
		if err := take(backend, store.Key{Subject: "u"}, limit, 1); err == nil || !strings.Contains(err.Error(), want) ||
			store.IsAway(err) {
			t.Errorf("%s: %v, want an error that says %q", path, err, want)
		}
	}
	if after, err := os.ReadFile(text); err != nil || string(after) != content {
		t.Errorf("the text was touched (%v)", err)
	}
}

func TestLapsedKeysAreReclaimed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	now := time.Unix(1_700_000_000, 0)
	backend := open(t, path, filestore.WithClock(func() time.Time { return now }))
	for i := range 500 {
		now = now.Add(100 * time.Millisecond)
		if err := take(backend, store.Key{Subject: fmt.Sprint(i), Name: "limit"}, store.Limit{Count: 1, Period: time.Second},
			1); err != nil {
			t.Fatal(err)
		}
	}
	if rows := strings.Count(dump(t, path), "\n"); rows > 20 {
		t.Errorf("%d keys are in the file, of which 10 are in use", rows)
	}
}

var hour = store.Limit{Count: 10, Period: time.Hour}

// until waits for what is to come soon.
func until(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("after a minute it is not so that %s", what)
		}
	}
}
