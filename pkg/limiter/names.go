package limiter

import (
	"strconv"
	"sync/atomic"
	"time"
)

// defaultNames remembers the names of unnamed limits, so that deciding one
// does not format it anew each time.
var defaultNames nameCache

// maxCachedNames bounds the cache, which is searched from its start; a service
// has a handful of limits, and what a fuzzer makes up is formatted each time.
const maxCachedNames = 16

type cachedName struct {
	algorithm Algorithm
	period    time.Duration
	slices    int64
	name      string
}

// nameCache is read without a lock; a writer replaces the whole.
type nameCache struct {
	names atomic.Pointer[[]cachedName]
}

func (c *nameCache) get(a Algorithm, period time.Duration, slices int64) string {
	var names []cachedName
	snapshot := c.names.Load()
	if snapshot != nil {
		names = *snapshot
	}
	for i := range names {
		if n := &names[i]; n.period == period && n.algorithm == a && n.slices == slices {
			return n.name
		}
	}
	name := a.String() + "/" + FormatPeriod(period)
	if slices > 1 {
		name += "," + strconv.FormatInt(slices, 10)
	}
	if len(names) < maxCachedNames {
		grown := append(names[:len(names):len(names)], cachedName{a, period, slices, name})
		// A lost race only means that the name is formatted once more.
		c.names.CompareAndSwap(snapshot, &grown)
	}
	return name
}
