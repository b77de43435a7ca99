package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// The exit codes, which scripts rely on.
const (
	exitYes         = 0   // allowed, or done
	exitNo          = 1   // denied, or there is nothing to settle or to revoke
	exitUsage       = 2   // the command line is wrong; nothing was done
	exitUnreachable = 3   // the store gave no answer in time
	exitRefused     = 4   // the store refused, or a key holds foreign data; a bug of limitctl
	exitPartly      = 5   // some of it was done
	exitInterrupted = 130 // by Ctrl-C
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

// errorKind is what an error means to the caller's script: a word of the error document, and
// an exit code.
type errorKind struct {
	word string // empty for what is no error: done, or denied
	code int
}

// errorKindOf is the table of what each error means. docs/operations.md lists the words.
func errorKindOf(err error) errorKind {
	switch {
	case err == nil:
		return errorKind{"", exitYes}
	case bugIn(err) != nil:
		return errorKind{"bug", exitRefused}
	case errors.Is(err, context.Canceled):
		return errorKind{"interrupted", exitInterrupted}
	case errors.Is(err, outcome.ErrPartly):
		return errorKind{"partly", exitPartly}
	case errors.Is(err, limiter.ErrUnknownToken):
		return errorKind{"unknown_token", exitNo}
	case errors.Is(err, operation.ErrNoOverride):
		return errorKind{"no_override", exitNo}
	case errors.Is(err, errNothing):
		return errorKind{"nothing_to_undo", exitNo}
	case errors.Is(err, errDenied):
		return errorKind{"", exitNo}
	case mistakesOf(err) != nil:
		return errorKind{"config", exitUsage}
	case errors.Is(err, errUsage), errors.Is(err, limiter.ErrInvalid):
		return errorKind{"usage", exitUsage}
	case limiter.IsAway(err) && errors.Is(err, limiter.ErrOutcomeUnknown):
		return errorKind{"outcome_unknown", exitUnreachable}
	case limiter.IsAway(err):
		return errorKind{"store_away", exitUnreachable}
	case errors.Is(err, limiter.ErrForeign):
		return errorKind{"foreign", exitRefused}
	case errors.Is(err, limiter.ErrRefused):
		return errorKind{"refused", exitRefused}
	}
	return errorKind{"machine", exitUsage} // what is left is about the machine the command runs on
}

// exitCode returns the exit code of an error.
func exitCode(err error) int { return errorKindOf(err).code }
