// Package panics turns a panic into an error: of a function, of a goroutine, or of a group of goroutines. So a bug
// fails one call and not the process, and the error has the stack that shows where it is.
package panics

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
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

// A Group runs goroutines and waits for all of them. A panic of one is an error. The zero Group is ready for use.
type Group struct {
	running sync.WaitGroup
	first   sync.Once
	err     error // of the first that had a panic
}

// Go calls f in a goroutine.
func (g *Group) Go(f func()) {
	g.running.Go(func() {
		if err := Call(func() error { f(); return nil }); err != nil {
			g.first.Do(func() { g.err = err })
		}
	})
}

// Wait waits for all goroutines, and returns the panic of the first that had one.
func (g *Group) Wait() error {
	g.running.Wait()
	return g.err
}
