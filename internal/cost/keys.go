package cost

import (
	"context"
	"errors"

	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sampleSize is the number of keys that are measured to estimate the average of all.
const sampleSize = 100

// Sample fills in the average memory of a key in the store, and of a used unit of a sliding log. It measures a
// uniform sample of the keys, which must have names. Keys that are no longer in use do not count, so call it soon
// after the load. It returns warnings about the figures; unknown figures are absent.
func Sample(ctx context.Context, keyspace admin.Keyspace, keys []store.Key, cost *report.Cost) (warnings []string) {
	if len(keys) == 0 {
		return nil
	}
	sample := make([]store.Key, min(sampleSize, len(keys)))
	for i := range sample {
		sample[i] = keys[i*len(keys)/len(sample)]
	}
	var found, bytes, logBytes, logUnits int64
	for entry, err := range keyspace.Scan(ctx, admin.Query{Keys: sample, Bytes: true}) {
		if errors.Is(err, store.ErrForeign) {
			continue // not written by limitctl
		}
		if err != nil {
			return []string{"the memory of keys is not known: " + err.Error()}
		}
		if entry.Bytes == 0 {
			continue // it expired while it was read
		}
		found++
		bytes += entry.Bytes
		if entry.Limit.Kind().CountsEachUnit() {
			logBytes += entry.Bytes
			logUnits += entry.Decision.Used
		}
	}
	if found == 0 {
		return nil
	}
	perKey := float64(bytes) / float64(found)
	cost.BytesPerKey = &perKey
	if logUnits > 0 {
		perUnit := float64(logBytes) / float64(logUnits)
		cost.BytesPerUnit = &perUnit
	}
	return nil
}
