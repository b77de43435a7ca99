package layers

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// letThrough counts by override what it let through: an atomic for each, and no lock. Its memory is bounded. The zero
// value is ready for use.
type letThrough struct {
	known atomic.Pointer[map[string]*atomic.Int64] // by ID; a map never changes
	mu    sync.Mutex                               // held while another map takes its place
}

// dropped is a count that is in no map any more. What is added to it leaves it negative, and counts elsewhere.
const dropped = math.MinInt64

// add adds n, at least 1, to the count of an override. It reports false if there is no room for that.
func (l *letThrough) add(id string, n int64) bool {
	if known := l.known.Load(); known != nil {
		if count := (*known)[id]; count != nil && count.Add(n) > 0 { // else it was dropped since the map was loaded
			return true
		}
	}
	if (admin.LetThrough{Override: id, Count: n}).Check() != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := map[string]*atomic.Int64{}
	if known := l.known.Load(); known != nil {
		next = maps.Clone(*known)
	}
	count := next[id]
	if count == nil && len(next) >= admin.LetThroughKept { // of so many, most have ended
		maps.DeleteFunc(next, func(_ string, count *atomic.Int64) bool { return count.CompareAndSwap(0, dropped) })
		if len(next) >= admin.LetThroughKept {
			return false
		}
	}
	if count == nil {
		count = new(atomic.Int64)
		next[id] = count
		l.known.Store(&next)
	}
	count.Add(n)
	return true
}

// drain takes the counts, as many as one call writes. One call at a time is under way.
func (l *letThrough) drain() (counts []admin.LetThrough) {
	known := l.known.Load()
	if known == nil {
		return nil
	}
	for id, count := range *known {
		if len(counts) == admin.MaxDenialRows {
			break
		}
		if count.Load() > 0 { // else it may be a dropped one, which stays that
			counts = append(counts, admin.LetThrough{Override: id, Count: count.Swap(0)})
		}
	}
	return counts
}

func (l *letThrough) isEmpty() bool {
	known := l.known.Load()
	if known == nil {
		return true
	}
	for _, count := range *known {
		if count.Load() > 0 {
			return false
		}
	}
	return true
}
