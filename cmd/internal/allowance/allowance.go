// Package allowance tells what limits allow: which of two allows more, and what a block leaves.
package allowance

import (
	"cmp"
	"math/bits"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Compare compares what two limits allow: over time, as units per time, and at once, as units
// of an unused key. Each is 1 if after allows more than before, -1 if less, and 0 if as much.
// The answer is exact. Algorithms are not compared.
func Compare(before, after store.Limit) (overTime, atOnce int) {
	// Units per time compare like the cross products, which need 128 bits.
	afterHigh, afterLow := bits.Mul64(uint64(after.Count), uint64(before.Period))
	beforeHigh, beforeLow := bits.Mul64(uint64(before.Count), uint64(after.Period))
	return cmp.Or(cmp.Compare(afterHigh, beforeHigh), cmp.Compare(afterLow, beforeLow)),
		cmp.Compare(after.Capacity(), before.Capacity())
}

// Block makes an entry one with nothing left, and the next unit not before left has passed, if the
// override that applies to its key is a block. It may be nil. The keys of other limiters have none.
func Block(e *admin.Entry, override *store.Override, left time.Duration) {
	if override != nil && override.Effect == store.OverrideBlock && e.Layout == "" {
		e.Allowed, e.Remaining, e.RetryAfter = false, 0, max(e.RetryAfter, left)
	}
}
