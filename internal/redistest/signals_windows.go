package redistest

import "syscall"

// The numbers of these signals on other systems. This system cannot send them and returns an error.
const (
	stopSignal   = syscall.Signal(19)
	resumeSignal = syscall.Signal(18)
)
