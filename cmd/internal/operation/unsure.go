package operation

import (
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/foreign"
)

// Unsure is the keys that an operation met and that may be of a limiter.
type Unsure struct {
	Count int64
	// NeverExpire is how many of them may deny for ever, since they have no expiry.
	NeverExpire int64
	// First are the first few of them, those that may deny for ever before all others.
	First []*foreign.UnsureError
}

func (u *Unsure) add(key *foreign.UnsureError) {
	u.Count++
	at := len(u.First)
	if key.NeverExpires {
		u.NeverExpire++
		if expires := slices.IndexFunc(u.First, func(k *foreign.UnsureError) bool { return !k.NeverExpires }); expires >= 0 {
			at = expires
		}
	}
	if at < keptForeign {
		u.First = slices.Insert(u.First, at, key)
		u.First = u.First[:min(len(u.First), keptForeign)]
	}
}
