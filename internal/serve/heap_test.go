package serve

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

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
