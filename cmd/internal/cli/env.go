package cli

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"runtime/debug"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/files"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/configfile"
)

// Env is all that a command sees of the world, so that a test can be one.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	// RawOut and rawErr are what Out and Err were before Run put an [output.Terminal] before
	// them: for data that goes to a program, and for what draws on a terminal itself.
	RawOut, rawErr io.Writer
	Getenv         func(name string) string
	// The files: see package files. ReadFile reads one as a whole that has at most so
	// many bytes, and Open one that may be too large for that.
	ReadFile func(path string, most int) ([]byte, error)
	Open     func(path string) (files.File, error)
	// List returns what is in a directory.
	List func(path string) ([]fs.DirEntry, error)
	// WriteFile puts a file in place as a whole, and makes its directory.
	WriteFile func(path string, data []byte) error
	// WriteShared does that with a file that is for others to read.
	WriteShared func(path string, data []byte) error
	// CanWrite returns why neither could not do that, and leaves nothing behind.
	CanWrite func(path string) error
	// Create creates a new file, and Append opens one of limitctl's own to add to its
	// end. MakeDir makes a directory of limitctl's own.
	Create, Append func(path string) (files.File, error)
	MakeDir        func(path string) error
	// Keep keeps others from a file of limitctl's own that they may read.
	Keep   func(path string)
	Remove func(path string) error
	// Process and UserID are the numbers of this process and of who runs it.
	Process, UserID int
	// Account is the machine's name of that user, and Host the machine's own; empty if it is
	// not known.
	Account, Host func() string
	Now           func() time.Time
	// Sleep waits, and returns the context's error if that ends first.
	Sleep func(ctx context.Context, d time.Duration) error
	// Hangups returns what is told of each SIGHUP from then on; several at once are one. The
	// signal does not end the process any more.
	Hangups func() <-chan struct{}
	// InIsTerminal tells whether somebody can be asked; OutIsTerminal and
	// ErrIsTerminal whether somebody is looking.
	InIsTerminal, OutIsTerminal, ErrIsTerminal bool
	// Size returns the columns and rows of the terminal that Out is.
	Size    func() (columns, rows int)
	Version string
	// Timeout is the default of --timeout, or 0 for that of production.
	Timeout time.Duration
	// TabTime is how long what completes a word may take.
	TabTime time.Duration
	// Hold says that the command has to end by itself from now on, even when it is
	// interrupted: it may be in the middle of work on a store, or have a terminal to
	// put in order.
	Hold func()
}

// WithTerminals returns env with an [output.Terminal] before each of its streams, so that nothing
// that a stranger wrote does anything to a terminal, and what writes out the last of it.
func WithTerminals(env *Env, styles bool) (inside *Env, flush func()) {
	out, err := output.NewTerminal(env.Out, styles), output.NewTerminal(env.Err, styles)
	copied := *env
	copied.RawOut, copied.rawErr = env.Out, env.Err
	copied.Out, copied.Err = out, err
	return &copied, func() {
		out.Flush()
		err.Flush()
	}
}

// ReadConfig reads a configuration file.
func (e *Env) ReadConfig(path string) ([]byte, error) {
	return e.ReadFile(path, configfile.MaxSize)
}

// ReadCertificate reads the file of a certificate or its key.
func (e *Env) ReadCertificate(path string) ([]byte, error) {
	return e.ReadFile(path, files.MaxCertificate)
}

// ProgramVersion is the version of this program, as the build or `go install` set it.
func (e *Env) ProgramVersion() string {
	version := e.Version
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(version, info.Main.Version)
	}
	return cmp.Or(version, "(devel)")
}
