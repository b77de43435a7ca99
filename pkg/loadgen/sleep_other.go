//go:build !linux

package loadgen

import "time"

// exactSleeper returns what sleeps for short times as exactly as can be had.
func exactSleeper() func(time.Duration) { return time.Sleep }
