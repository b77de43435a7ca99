package hostile

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// MostHeld returns the most bytes of memory that were in use while f ran, beyond those before, in the whole
// process. Garbage does not count: it measures whenever the heap has grown by a tenth.
func MostHeld(f func()) (bytes uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	inUse := func() uint64 {
		metrics.Read(live)
		return live[0].Value.Uint64()
	}
	runtime.GC()
	before := inUse()
	var most atomic.Uint64
	var ended atomic.Bool
	var look func(*[16]byte)
	look = func(again *[16]byte) { // is called after each collection
		most.Store(max(most.Load(), inUse()))
		if !ended.Load() {
			runtime.SetFinalizer(again, look)
		}
	}
	runtime.SetFinalizer(new([16]byte), look)
	f()
	ended.Store(true)
	return max(most.Load(), before) - before
}
