// Package cmd is the command line of limitctl: a file for each command, and the
// one place where an error becomes an exit code.
package cmd

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/limitctl/limitctl/cmd/internal/unasked"
)

// Main runs limitctl in the process's own environment and returns its exit code.
func Main(version string) int {
	unasked.Restore()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends what does not end by itself. One that comes at once is the
	// same one: timeout(1) signals the process and its group.
	context.AfterFunc(ctx, func() { time.AfterFunc(sameInterrupt, stop) })
	return Run(ctx, os.Args[1:], &Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv:        os.Getenv,
		ReadFile:      os.ReadFile,
		Open:          openFile,
		WriteFile:     writeFile,
		CanWrite:      canWrite,
		Remove:        os.Remove,
		Now:           time.Now,
		Sleep:         sleep,
		InIsTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutIsTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrIsTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Size:          size,
		Version:       version,
	})
}

// sameInterrupt is how soon after an interrupt another one is no second one.
const sameInterrupt = 200 * time.Millisecond

// Env is all that a command sees of the world, so that a test can be one.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	// rawOut and rawErr are what Out and Err were before Run put a door before them: for
	// data that goes to a program, and for what draws on a terminal itself.
	rawOut, rawErr io.Writer
	Getenv         func(name string) string
	ReadFile       func(path string) ([]byte, error)
	// Open opens a file that may be too large to read as a whole.
	Open func(path string) (io.ReadCloser, error)
	// WriteFile puts a file in place as a whole, and makes its directory.
	WriteFile func(path string, data []byte) error
	// CanWrite returns why WriteFile could not do that, and leaves nothing behind.
	CanWrite func(path string) error
	Remove   func(path string) error
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

// openFile opens a file to read it. A directory, which can be opened, is an error.
func openFile(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		file.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	}
	return file, nil
}

// writeFile writes beside the file and renames, so that whoever reads it sees the
// old or the new.
func writeFile(path string, data []byte) error {
	if err := replaceable(path); err != nil {
		return err
	}
	directory := filepath.Dir(path)
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(directory, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// replaceable reports what is in the place of a file that is none, such as a directory
// or a device: that cannot be replaced, or must not be.
func replaceable(path string) error {
	switch info, err := os.Stat(path); {
	case err != nil || info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	}
	return &fs.PathError{Op: "write", Path: path, Err: errors.New("it is no regular file")}
}

// canWrite tries writeFile's way in the directory, or the nearest one that there is.
func canWrite(path string) error {
	if err := replaceable(path); err != nil {
		return err
	}
	directory := filepath.Dir(path)
	for {
		_, err := os.Stat(directory)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		directory = filepath.Dir(directory)
	}
	file, err := os.CreateTemp(directory, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	file.Close()
	return os.Remove(file.Name())
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
