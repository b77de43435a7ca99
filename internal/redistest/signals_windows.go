package redistest

import "syscall"

// The numbers that these signals have elsewhere. This system sends none of them and says so.
const (
	stopSignal   = syscall.Signal(19)
	resumeSignal = syscall.Signal(18)
)
