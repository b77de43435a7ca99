// Package outcome says of an error how much of the work was done in spite of it.
package outcome

import (
	"errors"
	"fmt"
)

// ErrPartly marks an error after which some of the work is done.
var ErrPartly = errors.New("partly done")

// Partly says of err that some of the work was done. Its text stays that of err.
func Partly(err error) error { return &partlyError{err} }

type partlyError struct{ error }

func (e *partlyError) Is(target error) bool { return target == ErrPartly }
func (e *partlyError) Unwrap() error        { return e.error }

// ProgressError says of an error how far the work had come, in words such as "500 of
// 30000 keys done".
type ProgressError struct {
	Err      error
	Progress string
}

// WithProgress returns err with the words that say how far the work had come.
func WithProgress(err error, format string, args ...any) error {
	return &ProgressError{err, fmt.Sprintf(format, args...)}
}

// Error is the text of the error, with the words in brackets.
func (e *ProgressError) Error() string { return e.Err.Error() + " (" + e.Progress + ")" }

// Unwrap returns the error itself.
func (e *ProgressError) Unwrap() error { return e.Err }
