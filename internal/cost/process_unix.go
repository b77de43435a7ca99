//go:build unix

package cost

import (
	"syscall"
	"time"
)

// processTime returns the processor time of this process, including the system's time for it. known is false if the
// system does not report it.
func processTime() (spent time.Duration, known bool) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
