package serve

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// collections counts how often garbage is collected while so many bytes of it are made.
func collections(bytes int) uint32 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range bytes >> 14 {
		garbage = make([]byte, 1<<14)
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}

var garbage []byte // so that it is on the heap

func TestSpareHeapCollectsLessOften(t *testing.T) {
	const made = 256 << 20
	without := collections(made)
	release := SpareHeap()
	with := collections(made)
	release()
	if with == 0 || 3*with > without {
		t.Errorf("%d collections with spare heap, and %d without", with, without)
	}
}

func TestSpareHeapLeavesTheOperatorsLimit(t *testing.T) {
	limit := debug.SetMemoryLimit(1 << 30)
	defer debug.SetMemoryLimit(limit)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	release := SpareHeap()
	runtime.ReadMemStats(&after)
	release()
	if limit != math.MaxInt64 || after.TotalAlloc-before.TotalAlloc >= spareHeap {
		t.Errorf("%d bytes more under a limit; the limit before was %d", after.TotalAlloc-before.TotalAlloc, limit)
	}
}
