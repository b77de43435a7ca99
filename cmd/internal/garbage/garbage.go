// Package garbage tunes the garbage collector for work that holds much memory. By default
// the heap may grow to twice of what is in use before it is collected, which is too much
// where gigabytes are in use.
//
// A setting that the user chose by GOGC or GOMEMLIMIT stays as it is.
package garbage

import (
	"math"
	"runtime/debug"
)

// KeepBelow has the collector keep all memory of the process below that many bytes, if
// it can: what is in use may be more. It returns what restores the setting from before.
func KeepBelow(bytes int64) (restore func()) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 { // a negative limit only asks
		return func() {}
	}
	debug.SetMemoryLimit(bytes)
	return func() { debug.SetMemoryLimit(math.MaxInt64) }
}

// Percentages of the memory in use that garbage may take, as GOGC has them.
const (
	standardPercent = 100
	thriftyPercent  = 15
)

// KeepSmall has the collector let garbage grow to a small part of what is in use, at the
// price of processor time. It returns what restores the setting from before.
func KeepSmall() (restore func()) {
	if before := debug.SetGCPercent(thriftyPercent); before != standardPercent {
		debug.SetGCPercent(before)
		return func() {}
	}
	return func() { debug.SetGCPercent(standardPercent) }
}
