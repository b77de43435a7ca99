// Package cli is the frame that all commands share: what they see of the world, the flags that all have, which store
// is meant and how it is opened, what is protected, which keys are selected, and how answers and errors are printed.
package cli

import (
	"cmp"
	"context"
	"io"
	"runtime/debug"
	"time"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
)

// Flags are the flags that every command has.
type Flags struct {
	Store       string
	ConfigFile  string
	ContextName string
	Prefix      string
	Timeout     time.Duration
	Format      output.Format
	JQ          string
	Quiet       bool
	Verbose     bool
	// Changed tells whether a flag was given.
	Changed func(flag string) bool
}

// Globals are what every command works with: what was asked of it, and its access to the system.
type Globals struct {
	Flags
	Env *Env
	// Args are the words of the command line.
	Args []string
	// Layouts are those of other limiters, if the command is about their keys, and LayoutsName is
	// what --layout calls them; see layouts.go.
	Layouts     layouts.Sources
	LayoutsName string
	// filter is that of --jq, nil without it.
	filter output.Filter
	// answer is what was printed, nil if nothing was; see EndAnswer.
	answer *output.Pending
	// lineDue is when the next line of progress is due.
	lineDue time.Time
	found
}

// found is what a command has found out so far; empty before.
type found struct {
	// files is what Config has read, and chosen what Settings has found.
	files  *config.Config
	chosen *Settings
	// filePassword is the content of the context's password file.
	filePassword string
	// inForce and away, its error, are what InForce has found, early is the store that it opened for that, and unread
	// says why it could not read there.
	inForce *InForce
	away    error
	early   *early
	unread  error
}

// Settings are the store that a command works with, and where that choice comes from.
type Settings struct {
	// Store is a URL, and Prefix what its keys begin with.
	Store, Prefix string
	// byDefault: nothing names the store. byVariable: LIMITCTL_STORE does.
	byDefault, byVariable bool
	// Context is the context that names the store, or nil.
	Context *config.Context
	// byFlag: the command line or the environment names the store.
	byFlag bool
	// hidden is the context chosen by "context use" that LIMITCTL_STORE overrides.
	hidden string
	// chosenBy is what chose the context, if the command line does not name a store.
	chosenBy string
	// Guard is another, protected context that has the same store; see SettingsToChange.
	Guard *config.Context
	// guardAnnounced: the command has named Guard to the user.
	guardAnnounced bool
	// announced: the command has named the store to the user.
	announced bool
}

// Access is what the context in use allows, or the protected one whose store it is; without
// either nothing is forbidden. What changes something calls SettingsToChange before.
func (s *Settings) Access() operation.Access {
	switch {
	case s.Guard != nil:
		return operation.Access{Context: s.Guard.Name, Protected: true, Reached: true}
	case s.Context != nil:
		return operation.Access{Context: s.Context.Name, ReadOnly: s.Context.ReadOnly, Protected: s.Context.Protected}
	}
	return operation.Access{}
}

// Env is the only access of a command to the system: streams, files, the clock, the environment. Tests replace it.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	// RawOut and rawErr are Out and Err without the [output.Terminal] that Run puts before them. They are for data
	// that a program reads, and for code that draws on a terminal itself.
	RawOut, rawErr io.Writer
	Getenv         func(name string) string
	// IsSet reports whether a variable is set, perhaps to nothing.
	IsSet func(name string) bool
	Now   func() time.Time
	// Sleep waits, and returns the context's error if that ends first.
	Sleep func(ctx context.Context, d time.Duration) error
	// InIsTerminal tells whether somebody can be asked; OutIsTerminal and
	// ErrIsTerminal whether somebody is looking.
	InIsTerminal, OutIsTerminal, ErrIsTerminal bool
	// Size returns the columns and rows of the terminal that Out is.
	Size func() (columns, rows int)
	// Version is that of the program, as the build sets it; empty for what Go knows itself.
	Version string
	// Timeout is the default of --timeout, or 0 for that of production.
	Timeout time.Duration
	// Hold says that from now on the command ends by itself, even after an interrupt: it may be
	// in the middle of work on a store, or have to restore a terminal.
	Hold func()
	// Become runs a program in place of this process, with its streams and environment; words are the command, name
	// included. It returns only if the program cannot be started, or where no process can be replaced, as on Windows:
	// there it returns the exit code of the program.
	Become func(path string, words []string) (code int, err error)
}

// WithTerminals returns env with an [output.Terminal] before each of its streams, so that text of
// others cannot control the terminal. flush writes what the terminals still hold.
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
func ReadConfig(path string) ([]byte, error) { return files.Read(path, configfile.MaxSize) }

// ProgramVersion is the version of this program, as the build or `go install` set it.
func (e *Env) ProgramVersion() string {
	version := e.Version
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(version, info.Main.Version)
	}
	return cmp.Or(version, "(devel)")
}
