// Package clitest has an environment in which tests run commands.
package clitest

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
)

// Env is an environment without a terminal and with nothing to read, whose store and state are in folders of the test.
// Its clock moves when a command sleeps, and only then.
// What commands print is lost unless the test sets Out and Err.
func Env(t *testing.T) *cli.Env {
	t.Helper()
	now := time.Now()
	variables := map[string]string{"LIMITCTL_STORE": "file:" + filepath.Join(t.TempDir(), "limits.db"),
		"XDG_STATE_HOME": t.TempDir(),
		"GOGC":           "200"} // or a scan of many keys changes it for all tests
	return &cli.Env{
		In: strings.NewReader(""), Out: io.Discard, Err: io.Discard,
		Getenv: func(name string) string { return variables[name] },
		IsSet: func(name string) bool {
			_, set := variables[name]
			return set
		},
		Now: func() time.Time { return now },
		Sleep: func(ctx context.Context, d time.Duration) error {
			now = now.Add(d)
			return ctx.Err()
		},
		Size: func() (columns, rows int) { return 80, 24 },
		Hold: func() {},
		// No program takes the place of a test.
		Become: func(string, []string) (int, error) { return 0, nil },
	}
}

// Strip removes SGR sequences.
func Strip(text string) string {
	var b strings.Builder
	for text != "" {
		before, after, found := strings.Cut(text, "\x1b[")
		b.WriteString(before)
		if !found {
			break
		}
		_, text, _ = strings.Cut(after, "m")
	}
	return b.String()
}
