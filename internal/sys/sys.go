// Package sys says who and where this process is, waits for as long as a context lasts, recognizes time-outs and nil
// values, and sets the memory of the process. The settings of memory affect the whole process, so no other package
// changes them.
package sys

import (
	"context"
	"errors"
	"math"
	"os"
	"os/signal"
	"os/user"
	"reflect"
	"runtime/debug"
	"syscall"
	"time"
)

// Sleep waits for d. If ctx ends first, it returns ctx's error at once.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// IsTimeout reports whether err is the time-out of a connection, a request or a context.
func IsTimeout(err error) bool {
	var timed interface{ Timeout() bool }
	return errors.As(err, &timed) && timed.Timeout()
}

const (
	// usual is the default of GOGC, the percentage of garbage before a collection; little is the value while much
	// memory is in use, and less that of a process that runs for long beside others.
	usual  = 100
	less   = 50
	little = 15
)

// CollectOften makes garbage collections more frequent until asUsual is called. It changes nothing if the user has
// set GOGC.
func CollectOften() (asUsual func()) { return collectAt(little) }

// BeSmall is CollectOften for a process that makes little garbage: memory grows by half instead of by as much again.
func BeSmall() (asUsual func()) { return collectAt(less) }

func collectAt(percent int) (asUsual func()) {
	if before := debug.SetGCPercent(percent); before != usual {
		debug.SetGCPercent(before)
		return func() {}
	}
	return func() { debug.SetGCPercent(usual) }
}

// LimitMemory makes garbage collections so frequent that the process stays at about that many bytes, if the memory in
// use allows it. It changes nothing if the user has set GOMEMLIMIT, or a limit already exists.
func LimitMemory(bytes int64) {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(bytes)
	}
}

// IsNil reports whether v is nil, or holds a nil pointer: a call of its methods would most likely panic.
func IsNil(v any) bool {
	value := reflect.ValueOf(v)
	return v == nil || value.Kind() == reflect.Pointer && value.IsNil()
}

// Host is the machine's own name, empty if it is not known.
func Host() string {
	name, _ := os.Hostname()
	return name
}

// Account is the machine's name of who runs this process, empty if it is not known. It asks the list of users.
func Account() string {
	account, err := user.Current()
	if err != nil {
		return ""
	}
	return account.Username
}

// UserID is the number of who runs this process, -1 where there is none.
func UserID() int { return os.Getuid() }

// Process is the number of this process.
func Process() int { return os.Getpid() }

// Hangups returns a channel that receives when an operator wants files to be read again.
func Hangups() <-chan os.Signal {
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGHUP)
	return received
}
