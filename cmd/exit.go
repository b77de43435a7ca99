package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/cmd/internal/errorkind"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
)

// The exit codes, which scripts rely on.
const (
	exitYes         = errorkind.ExitYes
	exitNo          = errorkind.ExitNo
	exitUsage       = errorkind.ExitUsage
	exitUnreachable = errorkind.ExitUnreachable
	exitRefused     = errorkind.ExitRefused
	exitPartly      = errorkind.ExitPartly
	exitInterrupted = errorkind.ExitInterrupted
)

var (
	// errDenied is the answer no. It was printed as an answer already.
	errDenied = errors.New("denied")
	// errNothing marks that there is nothing to undo, with a text that says why.
	errNothing = errors.New("nothing to undo")
	// errLeft ends a command that somebody leaves by Ctrl-C, as one can. There is nothing to
	// say about it.
	errLeft = fmt.Errorf("left: %w", context.Canceled)
	// errUsage marks a mistake on the command line.
	errUsage = errors.New("usage")
)

// usageError is a mistake on the command line, with a text of its own.
type usageError struct{ text string }

func (e *usageError) Error() string        { return e.text }
func (e *usageError) Is(target error) bool { return target == errUsage }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// outputError says that the answer could not be printed, though the work is done.
type outputError struct{ error }

func (e *outputError) Error() string        { return "the answer could not be printed: " + e.error.Error() }
func (e *outputError) Is(target error) bool { return target == outcome.ErrPartly }
func (e *outputError) Unwrap() error        { return e.error }

// errorKindOf returns what an error means: the shared table, with what only commands have.
func errorKindOf(err error) errorkind.Kind { return errorkind.Of(err, commandsKind) }

// commandsKind knows the errors that only commands have.
func commandsKind(err error) (kind errorkind.Kind, known bool) {
	switch {
	case errors.Is(err, operation.ErrNoOverride):
		return errorkind.Kind{Word: "no_override", Exit: exitNo}, true
	case errors.Is(err, errNothing):
		return errorkind.Kind{Word: "nothing_to_undo", Exit: exitNo}, true
	case errors.Is(err, errDenied):
		return errorkind.Denied, true
	case mistakesOf(err) != nil:
		return errorkind.Kind{Word: "config", Exit: exitUsage}, true
	case errors.Is(err, errUsage):
		return errorkind.Usage, true
	}
	return errorkind.Kind{}, false
}

// exitCode returns the exit code of an error.
func exitCode(err error) int { return errorKindOf(err).Exit }
