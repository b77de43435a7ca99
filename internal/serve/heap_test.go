package serve

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// nextCollection is the size of the heap, in bytes, at the next collection.
func nextCollection() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.NextGC
}

// The test compares the goal of the collector, and not the number of collections, which depends on the load of the
// machine.
func TestSpareHeapCollectsLessOften(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	without := nextCollection()
	release := SpareHeap()
	with := nextCollection()
	release()
	after := nextCollection()
	if without >= spareHeap || with < 2*spareHeap || after >= spareHeap {
		t.Errorf("garbage is collected at %d MiB without spare heap, at %d with it and at %d after it", without>>20,
			with>>20, after>>20)
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
