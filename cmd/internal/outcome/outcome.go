// Package outcome marks errors with how much of the work was done nevertheless.
package outcome

import (
	"errors"
	"fmt"
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
