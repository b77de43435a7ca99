package cmd

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/outcome"
)

// orderly is how long an interrupted command has to end by itself and to report its progress.
// It may wait for something that ignores the interrupt: a file system that hangs, a pipe that
// nobody reads, a silent server. A command that called Env.Hold, such as serve, is not bound by it.
const orderly = time.Second

// await returns the exit code of a command, or that of an interrupt if the command does not end
// in time and holds no work of a store.
func await(ctx context.Context, done <-chan int, work *storeWork, stderr io.Writer) int {
	select {
	case code := <-done:
		return code
	case <-ctx.Done():
	}
	select {
	case code := <-done:
		return code
	case <-time.After(orderly):
	}
	if work.leave() {
		fmt.Fprintln(stderr, "limitctl: interrupted")
		return outcome.ExitInterrupted
	}
	return <-done
}

// storeWork records whether a command has begun work that must end in order.
type storeWork struct {
	turn       sync.Mutex
	held, left bool
}

// hold says that the command has begun. It never returns while the process ends.
func (w *storeWork) hold() {
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.left {
		select {}
	}
	w.held = true
}

// leave reports whether the process can end, and prevents further work from then on.
func (w *storeWork) leave() bool {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.left = !w.held
	return w.left
}
