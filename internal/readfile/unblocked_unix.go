//go:build unix

package readfile

import "syscall"

// Unblocked is the flag that opens a FIFO without waiting for its other end, and that
// does not make a terminal the process's own.
const Unblocked = syscall.O_NONBLOCK | syscall.O_NOCTTY
