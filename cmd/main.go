// Package cmd is the command line of limitctl: it makes the commands of the packages below,
// runs one of them, and turns its error into a message and an exit code.
package cmd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"syscall"
	"time"
	_ "time/tzdata" // the zones of limits, whatever the host has

	"golang.org/x/term"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/noterminalquery"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/sys"
)

// Main runs limitctl in the process's own environment and returns its exit code. version may be empty; see Env for the
// timeout.
func Main(version string, timeout time.Duration) int {
	env := osEnv(version)
	env.Timeout = timeout
	return mainIn(env)
}

func mainIn(env *cli.Env) int {
	noterminalquery.Restore()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends what does not end by itself. A signal that comes this soon after
	// the first is the same Ctrl-C: timeout(1) signals the process and its group.
	context.AfterFunc(ctx, func() { time.AfterFunc(sameInterrupt, stop) })
	work := new(storeWork)
	env.Hold = work.hold
	done := make(chan int, 1)
	code := outcome.ExitRefused
	panics.Go(func() error {
		code = Run(ctx, os.Args[1:], env)
		return nil
	}, func(err error) {
		if err != nil { // of Run itself, which catches those of commands
			fmt.Fprintln(os.Stderr, "limitctl: "+bugComplaint(err.Error()))
		}
		done <- code
	})
	return await(ctx, done, work, os.Stderr)
}

// osEnv is the process's own environment, but for Hold.
func osEnv(version string) *cli.Env {
	return &cli.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv:        getenv,
		IsSet:         isSet,
		Now:           time.Now,
		Sleep:         sys.Sleep,
		InIsTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutIsTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrIsTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Size:          size,
		Version:       version,
		Become: func(path string, words []string) (int, error) {
			return become(&exec.Cmd{Path: path, Args: words, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
		},
	}
}

// getenv is os.Getenv. Where HOME is not set, as on Windows and in units of systemd, it is the home of the account: its
// files say which stores are protected. A HOME that is set and empty says that there is none.
func getenv(name string) string {
	value, set := os.LookupEnv(name)
	if name != "HOME" || set {
		return value
	}
	if home, err := os.UserHomeDir(); err == nil {
		return home
	}
	if account, err := user.Current(); err == nil {
		return account.HomeDir
	}
	return ""
}

// isSet is Env.IsSet of a process.
func isSet(name string) bool {
	_, set := os.LookupEnv(name)
	return set
}

// sameInterrupt is how long after a signal another one is the same Ctrl-C.
const sameInterrupt = 200 * time.Millisecond

func size() (columns, rows int) {
	if columns, rows, err := term.GetSize(int(os.Stdout.Fd())); err == nil && columns > 0 && rows > 0 {
		return columns, rows
	}
	return 80, 24
}
