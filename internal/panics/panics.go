// Package panics turns panics into errors, also those of a goroutine for which somebody waits. A bug then fails one
// call and not the process, and the error shows where it is.
package panics

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// Error is a panic, which is a bug.
type Error struct {
	Value any
	Stack []byte // of the goroutine, to find the bug
}

// Error returns one line.
func (e *Error) Error() string {
	first, _, _ := strings.Cut(fmt.Sprint(e.Value), "\n")
	return "internal error: " + first
}

// Unwrap returns the value of the panic, if it is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Catch is deferred, and puts a panic of the function into err, in place of its value.
func Catch(err *error) {
	switch value := recover().(type) {
	case nil:
	case *Error: // passed on from another goroutine
		*err = value
	default:
		*err = &Error{value, debug.Stack()}
	}
}

// Call calls f and returns its error, or its panic as one.
func Call(f func() error) (err error) {
	defer Catch(&err)
	return f()
}

// Go calls f in a goroutine, and then calls then with the result of [Call].
func Go(f func() error, then func(err error)) {
	go func() { then(Call(f)) }()
}
