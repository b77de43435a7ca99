package limiter

import (
	"maps"
	"sync/atomic"
	"time"
)

// defaultNames remembers the names of unnamed limits, so that deciding one
// does not format it anew each time.
var defaultNames nameCache

// maxCachedNames bounds the cache; a service has a handful of limits, and a
// fuzzer's thousands are simply formatted.
const maxCachedNames = 256

type nameCacheKey struct {
	algorithm Algorithm
	period    time.Duration
}

// nameCache is a read-mostly map: readers load a snapshot without a lock,
// a writer replaces the snapshot.
type nameCache struct {
	names atomic.Pointer[map[nameCacheKey]string]
}

func (c *nameCache) get(a Algorithm, period time.Duration) string {
	key := nameCacheKey{a, period}
	snapshot := c.names.Load()
	if snapshot != nil {
		if name, ok := (*snapshot)[key]; ok {
			return name
		}
	}
	name := a.String() + "/" + FormatPeriod(period)
	grown := map[nameCacheKey]string{key: name}
	if snapshot != nil {
		if len(*snapshot) >= maxCachedNames {
			return name
		}
		maps.Copy(grown, *snapshot)
	}
	// A lost race only means that the name is formatted once more.
	c.names.CompareAndSwap(snapshot, &grown)
	return name
}
