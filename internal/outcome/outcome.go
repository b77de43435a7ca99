// Package outcome says how work ended. Its table gives each kind of error a word for people and programs, an exit code
// for scripts, and an HTTP status for clients of the server. An error can also say how much of the work was done.
package outcome

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ErrPartly marks an error after which a part of the work is done.
var ErrPartly = errors.New("partly done")

// Partly marks err: a part of the work was done. Its text stays the text of err.
func Partly(err error) error { return &partlyError{err} }

type partlyError struct{ error }

func (e *partlyError) Is(target error) bool { return target == ErrPartly }
func (e *partlyError) Unwrap() error        { return e.error }

// ProgressError is an error with the progress of the work until then, such as "500 of 30000 keys done".
type ProgressError struct {
	Err      error
	Progress string
}

// WithProgress adds the progress of the work to err, in words.
func WithProgress(err error, format string, args ...any) error {
	return &ProgressError{err, fmt.Sprintf(format, args...)}
}

// Error returns the text of the error, with the progress in brackets.
func (e *ProgressError) Error() string { return e.Err.Error() + " (" + e.Progress + ")" }

// Unwrap returns the error itself.
func (e *ProgressError) Unwrap() error { return e.Err }

// The exit codes, which scripts rely on.
const (
	ExitYes         = 0   // allowed, or done
	ExitNo          = 1   // denied, or there is nothing to settle or to revoke
	ExitUsage       = 2   // the command line is wrong; nothing was done
	ExitUnreachable = 3   // the store gave no answer in time
	ExitRefused     = 4   // the store refused, or a key holds foreign data; a bug of limitctl
	ExitPartly      = 5   // some of it was done
	ExitInterrupted = 130 // by Ctrl-C
)

// Kind is what an error means.
type Kind struct {
	// Word is the kind in the error document; empty if it is no error: done, or denied.
	Word string
	// Exit is the exit code of a command.
	Exit int
	// Status is the HTTP status.
	Status int
}

// The kinds that have a name in Go. docs/operations.md lists the words.
var (
	Done           = Kind{"", ExitYes, http.StatusOK}
	Denied         = Kind{"", ExitNo, http.StatusTooManyRequests}
	Usage          = Kind{"usage", ExitUsage, http.StatusBadRequest}
	OutcomeUnknown = Kind{"outcome_unknown", ExitUnreachable, http.StatusServiceUnavailable}
	StoreAway      = Kind{"store_away", ExitUnreachable, http.StatusServiceUnavailable}
	Interrupted    = Kind{"interrupted", ExitInterrupted, http.StatusServiceUnavailable}
)

// The kinds of the server alone, which have no exit code. docs/serve-api.md lists them.
var (
	Overloaded   = Kind{Word: "overloaded", Status: http.StatusServiceUnavailable}
	Unauthorized = Kind{Word: "unauthorized", Status: http.StatusUnauthorized}
)

// Of returns the kind of an error. own, if not nil, knows errors of the caller. Interruptions are checked before
// it, and errors of a store after it.
func Of(err error, own func(error) (Kind, bool)) Kind {
	var bug *panics.Error
	switch {
	case err == nil:
		return Done
	case errors.As(err, &bug):
		return Kind{"bug", ExitRefused, http.StatusInternalServerError}
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, ErrPartly):
		return Kind{"partly", ExitPartly, http.StatusInternalServerError}
	case errors.Is(err, store.ErrUnknownToken):
		return Kind{"unknown_token", ExitNo, http.StatusConflict}
	}
	if own != nil {
		if kind, known := own(err); known {
			return kind
		}
	}
	switch {
	case errors.Is(err, store.ErrInvalid):
		return Usage
	case store.IsAway(err) && errors.Is(err, store.ErrOutcomeUnknown):
		return OutcomeUnknown
	case store.IsAway(err):
		return StoreAway
	case errors.Is(err, store.ErrForeign):
		return Kind{"foreign", ExitRefused, http.StatusBadGateway}
	case errors.Is(err, store.ErrRefused):
		return Kind{"refused", ExitRefused, http.StatusBadGateway}
	}
	// The remaining errors are about the machine on which limitctl runs.
	return Kind{"machine", ExitUsage, http.StatusInternalServerError}
}
