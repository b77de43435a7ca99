//go:build unix

package serve

import (
	"math"
	"syscall"
)

// openFiles returns how many files the process may open, if that is known.
func openFiles() (n int, known bool) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0, false
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)), true
}
