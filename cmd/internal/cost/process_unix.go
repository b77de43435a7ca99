//go:build unix

package cost

import (
	"syscall"
	"time"
)

// processTime returns the time that processors have spent on this process, for
// itself and for the system on its behalf. known is false where that is not told.
func processTime() (spent time.Duration, known bool) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
