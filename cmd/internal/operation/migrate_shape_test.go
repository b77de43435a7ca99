package operation

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What docs/layouts.md promises of a migration: by which algorithms no unit comes back sooner than
// it would have. The other limiter is played by the same limit in the state that it may have.
func TestUsageComesBackNoSooner(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, pair := range []struct{ old, fresh store.Limit }{
		{store.Limit{Algorithm: store.TokenBucket, Count: 7, Period: time.Minute, Burst: 20},
			store.Limit{Algorithm: store.TokenBucket, Count: 7, Period: time.Minute, Burst: 20}},
		{store.Limit{Algorithm: store.TokenBucket, Count: 7, Period: time.Minute},
			store.Limit{Algorithm: store.SlidingLog, Count: 7, Period: time.Minute}},
		{store.Limit{Algorithm: store.FixedWindow, Count: 7, Period: time.Minute},
			store.Limit{Algorithm: store.SlidingLog, Count: 7, Period: time.Minute}},
		{store.Limit{Algorithm: store.SlidingLog, Count: 7, Period: time.Minute},
			store.Limit{Algorithm: store.SlidingLog, Count: 7, Period: time.Minute}},
	} {
		t.Run(fmt.Sprint(pair.old.Algorithm, " into ", pair.fresh.Algorithm), func(t *testing.T) {
			old, err := pair.old.Normalize()
			if err != nil {
				t.Fatal(err)
			}
			fresh, err := pair.fresh.Normalize()
			if err != nil {
				t.Fatal(err)
			}
			for range 500 {
				var theirs, ours store.State
				now := store.Instant(1_800_000_000_000_000 + random.Int64N(1e9))
				for range random.IntN(30) {
					if now += store.Instant(random.Int64N(2e7)); theirs.Used(now) < old.Capacity() {
						theirs.Charge(old, 1, now)
					}
				}
				now += store.Instant(random.Int64N(2e7))
				a := admin.Adjustment{Limit: fresh, Used: min(theirs.Used(now), fresh.Capacity()), OnlyMore: true}
				a.Apply(&ours, now)
				for range 50 {
					if ours.Used(now) < theirs.Used(now) {
						t.Fatalf("%d units are used after %s, and %d were with the other limiter", ours.Used(now), now.Time(),
							theirs.Used(now))
					}
					now += store.Instant(random.Int64N(3e6))
				}
			}
		})
	}
}
