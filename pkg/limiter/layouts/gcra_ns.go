package layouts

import (
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// gcraNs is any limiter that keeps a theoretical arrival time in ns since 1970 under a key
// that can be anything: throttled, redis-cell, Valkey's and Dragonfly's command CL.THROTTLE.
// They write the same. It counts as throttled and Dragonfly do. redis-cell differs from that by a
// unit at most, for an instant.
type gcraNs struct{ single }

// Info implements [Layout].
func (gcraNs) Info() Info {
	return Info{
		Name: "gcra-ns", Called: "a GCRA bucket in nanoseconds",
		Writer:  "limiters that keep a time in nanoseconds: throttled, redis-cell, Valkey, Dragonfly",
		Example: "api:203.0.113.9", Type: "string", KeepsArrival: true, Needs: "the limit and the burst",
		Source: "github.com/throttled/throttled 9e814f27, github.com/dragonflydb/dragonfly f8eca6d0",
	}
}

// Match implements [Layout]. Those keys are left to throttled and boulder that have a form of
// their own.
func (l gcraNs) Match(storeKey string, asked bool) (store.Key, bool) {
	_, ofBoulder := parseBucketKey(storeKey)
	return store.Key{Subject: storeKey, Name: l.Info().Name}, asked || !ofBoulder && !isVaried(storeKey)
}

// Decode implements [Layout]. No key is Certain, also if it is kept until just the time in it: a
// lock, or a job that is to run later, can keep such a time, and keep it until then.
func (gcraNs) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	entry, _, err := arrivalEntry(found, wholeInterval)
	if err != nil {
		return Reading{}, err
	}
	entry.Defects = lifetime{needed: entry.ResetAfter, passes: true}.defects(&entry, value)
	return Reading{Entries: []admin.Entry{entry}}, nil
}

// SetRemaining implements [Setter].
func (gcraNs) SetRemaining(found *Found, remaining int64) ([]Write, error) {
	return arrivalLeaving(remaining, found, wholeInterval, 0)
}
