//go:build unix

package readfile

import "syscall"

// Unblocked is the flag to open a FIFO without waiting for its other end, and a terminal without making it the
// controlling one.
const Unblocked = syscall.O_NONBLOCK | syscall.O_NOCTTY
