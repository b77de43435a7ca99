// Package panics lets a panic come out as an error, of a goroutine where somebody
// waits for it. A bug then costs the one call and not the process, and says who it is.
package panics

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// Error is a panic, which is a bug.
type Error struct {
	Value any
	Stack []byte // of the goroutine, for who looks for the bug
}

// Error is one line.
func (e *Error) Error() string {
	first, _, _ := strings.Cut(fmt.Sprint(e.Value), "\n")
	return "internal error: " + first
}

// Unwrap returns the error that the panic was about, if it was one.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Catch puts a panic of the function that defers it into err, over what was there.
func Catch(err *error) {
	switch value := recover().(type) {
	case nil:
	case *Error: // of another goroutine, on its way up
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

// Go calls f in a goroutine, and then with what [Call] would return.
func Go(f func() error, then func(err error)) {
	go func() { then(Call(f)) }()
}
