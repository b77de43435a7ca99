package foreign

import (
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// logEntry fills in what is in use of a limit whose requests are kept with their times, in ns in
// ascending order, the latest ones of length in all. A request counts until it is one period old.
// now is in ns, too. The count may be unknown.
func logEntry(entry *admin.Entry, times []int64, length, now int64) {
	period, count := int64(entry.Limit.Period), entry.Limit.Count
	first, _ := slices.BinarySearch(times, now-period+1)
	inUse := times[first:]
	if first == 0 && length > int64(len(times)) {
		return // there are more of them than were read
	}
	entry.UsedUnknown, entry.ResetTold = false, true
	entry.Used = int64(len(inUse))
	if entry.Used > 0 {
		entry.ResetAfter = ceilMicroseconds(float64(inUse[len(inUse)-1] - now + period))
	}
	if !entry.CapacityKnown() {
		return
	}
	entry.Remaining = max(0, count-entry.Used)
	entry.Allowed = entry.Used < count
	if !entry.Allowed {
		entry.RetryAfter = ceilMicroseconds(float64(inUse[entry.Used-count] - now + period))
	}
}
