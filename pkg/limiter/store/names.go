package store

import (
	"strconv"
	"strings"
	"sync/atomic"
)

// defaultNames remembers the names of unnamed limits, so that deciding one
// does not format it anew each time.
var defaultNames nameCache

// maxCachedNames bounds the cache, which is searched from its start; a service
// has a handful of limits, and what a fuzzer makes up is formatted each time.
const maxCachedNames = 16

type cachedName struct {
	limit Limit // without its count and burst
	name  string
}

// nameCache is read without a lock; a writer replaces the whole.
type nameCache struct {
	names atomic.Pointer[[]cachedName]
}

// of returns the name of a limit whose algorithm is set.
func (c *nameCache) of(l *Limit) string {
	named := *l
	named.Count, named.Burst = 0, 0
	if named.Calendar != nil { // one name for all its windows
		named.Period, named.Phase = 0, 0
	}
	var names []cachedName
	snapshot := c.names.Load()
	if snapshot != nil {
		names = *snapshot
	}
	for i := range names {
		if names[i].limit == named {
			return names[i].name
		}
	}
	name := l.Algorithm.String() + "/" + l.PeriodText()
	if l.Slices > 1 {
		name += "," + strconv.FormatInt(l.Slices, 10)
	}
	if l.Calendar != nil {
		name += "," + strings.TrimPrefix(l.calendarOption(), zoneOption)
	}
	if l.FromFirst {
		name += ",first"
	}
	if len(names) < maxCachedNames {
		grown := append(names[:len(names):len(names)], cachedName{named, name})
		// A lost race only means that the name is formatted once more.
		c.names.CompareAndSwap(snapshot, &grown)
	}
	return name
}

// DefaultName returns the name of an unnamed limit: algorithm and period, such
// as "token-bucket/1m", and the slices if there are several, "sliding-counter/1h,60", or the zone of a calendar,
// "fixed-window/1mo,Europe/Berlin".
// The count is not part of it, so that raising the count keeps what was used.
func (l Limit) DefaultName() string {
	if l.Algorithm == 0 {
		l.Algorithm = TokenBucket
	}
	return defaultNames.of(&l)
}
