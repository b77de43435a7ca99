// Package allowance compares how much limits allow, and computes the effect of a block.
package allowance

import (
	"cmp"
	"math/bits"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Compare compares how much two limits allow: over time, in units per time, and at once, in units of an unused key.
// Each result is 1 if after allows more than before, -1 if less, and 0 if equal. The result is exact. Algorithms
// are not compared.
func Compare(before, after store.Limit) (overTime, atOnce int) {
	// Units per time compare like the cross products, which need 128 bits.
	afterHigh, afterLow := bits.Mul64(uint64(after.Count), uint64(before.Period))
	beforeHigh, beforeLow := bits.Mul64(uint64(before.Count), uint64(after.Period))
	return cmp.Or(cmp.Compare(afterHigh, beforeHigh), cmp.Compare(afterLow, beforeLow)),
		cmp.Compare(after.Capacity(), before.Capacity())
}

// Block changes an entry if the override of its key is a block: nothing remains, and RetryAfter is at least left.
// The override may be nil. The keys of other limiters have none.
func Block(e *admin.Entry, override *store.Override, left time.Duration) {
	if override != nil && override.Effect == store.OverrideBlock && e.Layout == "" {
		e.Allowed, e.Remaining, e.RetryAfter = false, 0, max(e.RetryAfter, left)
	}
}
