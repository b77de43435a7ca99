// Package memory bounds the garbage of a command that uses much memory. These are settings of the whole process, so
// nothing else changes them.
package memory

import (
	"math"
	"runtime/debug"
)

const (
	// usual is the default of GOGC, the percentage of garbage before a collection; little is the value while much
	// memory is in use.
	usual  = 100
	little = 15
)

// CollectOften makes garbage collections more frequent until asUsual is called. It changes nothing if the user has
// set GOGC.
func CollectOften() (asUsual func()) {
	if before := debug.SetGCPercent(little); before != usual {
		debug.SetGCPercent(before)
		return func() {}
	}
	return func() { debug.SetGCPercent(usual) }
}

// Limit makes garbage collections so frequent that the process stays at about that many bytes, if the memory in use
// allows it. It changes nothing if the user has set GOMEMLIMIT, or a limit already exists.
func Limit(bytes int64) {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(bytes)
	}
}
