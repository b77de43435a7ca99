package serve

import (
	"math"
	"runtime"
	"runtime/debug"
)

// spareHeap is how much more garbage the server may make before it is collected.
const spareHeap = 32 << 20 // bytes

// SpareHeap lets garbage be collected less often, until release is called. Go collects when the
// heap has doubled. A server's heap is a few MiB, which it doubles hundreds of times a second
// under load: a fifth of its processors' time. A block of memory that nobody writes to counts
// as heap and takes no room, since the system has no pages for it. A heap that is large by
// itself still doubles at most, so memory stays bounded, which a higher percentage of garbage
// would not give. Where the operator has set a limit of the memory (GOMEMLIMIT), nothing is
// changed: the block would count towards it.
func SpareHeap() (release func()) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return func() {}
	}
	block := make([]byte, spareHeap)
	return func() { runtime.KeepAlive(block) }
}
