package operation

import "github.com/limitctl/limitctl/pkg/limiter/foreign"

// Unsure is the keys that an operation met and that may be of a limiter.
type Unsure struct {
	Count int64
	// First are the first few of them.
	First []*foreign.UnsureError
}

func (u *Unsure) add(key *foreign.UnsureError) {
	u.Count++
	if len(u.First) < keptForeign {
		u.First = append(u.First, key)
	}
}
