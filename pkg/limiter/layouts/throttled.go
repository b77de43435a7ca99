package layouts

import (
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// throttled is github.com/throttled/throttled v2 with one of its Redis stores: a bucket in the
// form of GCRA. A string holds the theoretical arrival time in ns since 1970. What it calls
// MaxBurst is one less than the burst.
type throttled struct{ gcraNs }

// Info implements [Layout]. The facts are from github.com/throttled/throttled 9e814f27.
func (throttled) Info() Info {
	return Info{
		Name: "throttled", Writer: "throttled/throttled v2", Example: "throttled:203.0.113.9\nget\n/\n",
		KeepsArrival: true, Needs: "the limit and the burst",
	}
}

// isVaried reports whether a key has the form that throttled's middleware gives it: parts of a
// request, each with a line feed behind it.
func isVaried(storeKey string) bool { return len(storeKey) > 1 && strings.HasSuffix(storeKey, "\n") }

// Match implements [Layout]. The prefix is the user's, and may be empty. What is before the
// first colon of a key of the middleware is not cut off, since it can be of an address.
func (l throttled) Match(storeKey string, _ bool) (store.Key, bool) {
	return store.Key{Subject: storeKey, Name: l.Info().Name}, storeKey != ""
}

// Decode implements [Layout]. Only keys of the middleware are Certain: others write the same
// value under keys of any form.
func (throttled) Decode(found *Found) (Reading, error) {
	entry, s, err := arrivalEntry(found, wholeInterval)
	if err != nil {
		return Reading{}, err
	}
	// The expiry is rounded down to seconds. That counts if a unit comes back in less.
	kept := lifetime{needed: entry.ResetAfter, passes: true}
	if entry.UsedKnown() {
		const latency = 250 * time.Millisecond // of the server's answer
		kept.rounding = min(time.Second, max(latency, time.Duration(s.interval)))
	}
	return kept.reading(found, entry, isVaried(found.StoreKey) && isKeptUntilThen(found))
}

// isKeptUntilThen reports whether a key is kept until the arrival time in it, which throttled rounds down
// to seconds. It keeps a key for one at least.
func isKeptUntilThen(found *Found) bool {
	arrival, _ := arrivalOf(&found.Values[0])
	ahead := time.Duration(arrival - nanoseconds(found.Now))
	return ahead >= -time.Second && agrees(max(0, ahead-time.Second), found.Values[0].TTL, 2*time.Second)
}
