package loadgen

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// exactSleeper returns what sleeps for short times more exactly than the runtime's
// timers, for the calling goroutine alone and until it ends: its thread is its own.
func exactSleeper() func(time.Duration) {
	runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
	// How much later than asked the kernel may wake this thread, in nanoseconds; it
	// is 50 µs otherwise. Where it cannot be set it stays so.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return func(d time.Duration) {
		request := unix.NsecToTimespec(int64(d))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &request, nil) // if woken early, it is called again
	}
}
