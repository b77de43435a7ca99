package cmd

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/errorkind"
)

// orderly is how long a command that was interrupted has to end by itself, and to say
// how far it came. What it waits for may know nothing of the interrupt: a file system
// that hangs, a pipe that nobody reads, a server that is silent.
const orderly = time.Second

// await returns the exit code of a command, or that of an interrupt if the command has
// not ended in time and holds no work of a store.
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
		return errorkind.ExitInterrupted
	}
	return <-done
}

// storeWork is whether a command has begun what has to end in order.
type storeWork struct {
	turn       sync.Mutex
	held, left bool
}

// hold says that it has. It never returns once the process is ending.
func (w *storeWork) hold() {
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.left {
		select {}
	}
	w.held = true
}

// leave reports whether the process can end, and from then on none begins.
func (w *storeWork) leave() bool {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.left = !w.held
	return w.left
}
