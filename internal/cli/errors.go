package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var (
	// ErrDenied is the answer no. The command has printed its answer already.
	ErrDenied = errors.New("denied")
	// ErrNothing marks that there is nothing to undo, with a text that says why.
	ErrNothing = errors.New("nothing to undo")
	// ErrLeft ends a command that Ctrl-C ends in the usual way. Nothing is printed for it.
	ErrLeft = fmt.Errorf("left: %w", context.Canceled)
	// ErrEnded ends a command in whose place a program ran. Nothing is printed for it.
	ErrEnded = errors.New("ended")
	// errUsage marks a mistake on the command line.
	errUsage = errors.New("usage")
)

// usageError is a mistake on the command line, with a text of its own.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func (e *usageError) Is(target error) bool { return target == errUsage }

// Usagef returns a mistake on the command line, which ends the command with exit code 2.
func Usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// OutputError says that the answer could not be printed, though the work is done.
type OutputError struct{ error }

func (e *OutputError) Error() string { return "the answer could not be printed: " + e.error.Error() }

func (e *OutputError) Is(target error) bool { return target == outcome.ErrPartly }

func (e *OutputError) Unwrap() error { return e.error }

// NotPrinted is err as the reason why an answer could not be printed.
func NotPrinted(err error) error { return &OutputError{err} }

// errorKindOf returns what an error means: the shared table, with what only commands have.
func errorKindOf(err error) outcome.Kind { return outcome.Of(err, commandsKind) }

// commandsKind knows the errors that only commands have.
func commandsKind(err error) (kind outcome.Kind, known bool) {
	switch {
	case errors.Is(err, operation.ErrNoOverride):
		return outcome.Kind{Word: "no_override", Exit: outcome.ExitNo}, true
	case errors.Is(err, ErrNothing):
		return outcome.Kind{Word: "nothing_to_undo", Exit: outcome.ExitNo}, true
	case errors.Is(err, ErrDenied):
		return outcome.Denied, true
	case errors.Is(err, ErrEnded):
		return outcome.Done, true
	case MistakesOf(err) != nil:
		return outcome.Kind{Word: "config", Exit: outcome.ExitUsage}, true
	case errors.Is(err, errUsage):
		return outcome.Usage, true
	}
	return outcome.Kind{}, false
}

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

// WithExitCode gives an error another exit code than that of its kind.
func WithExitCode(err error, code int) error { return &exitError{err, code} }

// ExitCode returns the exit code of an error.
func ExitCode(err error) int {
	kind := errorKindOf(err)
	var own *exitError
	if kind != outcome.Interrupted && errors.As(err, &own) {
		return own.code
	}
	return kind.Exit
}

// MistakesOf returns the mistakes of a configuration that an error holds, or nil.
func MistakesOf(err error) *config.Mistakes {
	var mistakes *config.Mistakes
	errors.As(err, &mistakes)
	return mistakes
}

// Message writes an error on one line of a readable length, and escapes what servers and files
// have put into it.
func Message(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	const most = 5
	if len(lines) > most+1 { // "and 1 more" takes as much room as the sixth line itself
		lines = append(lines[:most], fmt.Sprintf("and %d more", len(lines)-most))
	}
	const longest = 2000
	return output.Shorten(output.Escape(strings.Join(lines, "; ")), longest)
}

// Mend is what to add to the message of an error about a value of another program in Redis: the command that deletes
// it.
func (g *Globals) Mend(err error) string {
	foreign := (*store.ForeignError)(nil)
	if !errors.As(err, &foreign) || foreign.IsDamaged() || !isRedis(g.chosen.Store) ||
		len(foreign.StoreKey) > 2*store.MaxSubjectLength || strings.Contains(foreign.StoreKey, "!{config}:") {
		return ""
	}
	return "; if nobody needs it: " + output.Printable(shell.Unlink(foreign.StoreKey))
}

// Cause is why a file could not be written, without the name of the temporary file.
func Cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// IsPartial reports whether an error concerns some servers of a store, and the others have answered completely.
func IsPartial(away error) bool {
	var incomplete *admin.IncompleteError
	return errors.As(away, &incomplete)
}

// EndAnswer prints the rest of the answer for programs, with the error that ends the command;
// err may be nil.
func EndAnswer(g *Globals, err error) error {
	kind := errorKindOf(err)
	if kind.Word == "" { // done, or an answer such as denied
		return g.answer.End(nil)
	}
	message := Message(err)
	if mistakes := MistakesOf(err); mistakes != nil { // programs get all
		texts := make([]string, len(mistakes.List))
		for i := range mistakes.List {
			texts[i] = mistakes.List[i].String()
		}
		message = output.Escape(strings.Join(texts, "; "))
	}
	document := &output.Error{Kind: kind.Word, Message: g.WithoutSecrets(message)}
	if g.answer != nil {
		return g.answer.End(document)
	}
	return g.Printer().Error(document)
}
