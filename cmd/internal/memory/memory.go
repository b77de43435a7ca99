// Package memory bounds the garbage that a command with a lot in memory leaves before Go
// collects it. These are settings of the whole process, so they are made here alone.
package memory

import (
	"math"
	"runtime/debug"
)

const (
	// usual is how much garbage Go lets grow, in percent of what is in use, unless GOGC
	// says otherwise; little is how much it is to be while a lot is in use.
	usual  = 100
	little = 15
)

// CollectOften has garbage collected earlier until asUsual is called. It changes nothing
// for a user who has set GOGC.
func CollectOften() (asUsual func()) {
	if before := debug.SetGCPercent(little); before != usual {
		debug.SetGCPercent(before)
		return func() {}
	}
	return func() { debug.SetGCPercent(usual) }
}

// Limit has garbage collected so often that the process keeps to about that many bytes,
// as long as what is in use leaves room for that. It changes nothing for a user who has set
// GOMEMLIMIT, and nothing where there is a limit already.
func Limit(bytes int64) {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(bytes)
	}
}
