// Package cmd is the command line of limitctl: a file for each command, and the
// one place where an error becomes an exit code.
package cmd

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Main runs limitctl in the process's own environment and returns its exit code.
func Main(version string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Run(ctx, os.Args[1:], &Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv:        os.Getenv,
		ReadFile:      os.ReadFile,
		Now:           time.Now,
		Sleep:         sleep,
		InIsTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutIsTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrIsTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Size:          size,
		Version:       version,
	})
}

// Env is all that a command sees of the world, so that a test can be one.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(name string) string
	ReadFile func(name string) ([]byte, error)
	Now      func() time.Time
	// Sleep waits, and returns the context's error if that ends first.
	Sleep func(ctx context.Context, d time.Duration) error
	// InIsTerminal tells whether somebody can be asked; OutIsTerminal and
	// ErrIsTerminal whether somebody is looking.
	InIsTerminal, OutIsTerminal, ErrIsTerminal bool
	// Size returns the columns and rows of the terminal that Out is.
	Size    func() (columns, rows int)
	Version string
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func size() (columns, rows int) {
	if columns, rows, err := term.GetSize(int(os.Stdout.Fd())); err == nil && columns > 0 && rows > 0 {
		return columns, rows
	}
	return 80, 24
}
