package trial

import "github.com/limitctl/limitctl/pkg/limiter"

// withFailure wraps a target by what answers while it is away.
func (t *LoadTest) withFailure(target limiter.Store) limiter.Store {
	if t.Breaker != nil {
		target = limiter.WithBreaker(target, *t.Breaker)
	}
	return limiter.WithFailure(target, t.Failure)
}

// localShare is the share of each limit that is decided locally, in words; empty if none
// is.
func (t *LoadTest) localShare() string {
	switch {
	case t.Failure.Policy != limiter.LocalOnError:
		return ""
	case t.Failure.Share == 0:
		return limiter.DefaultShare.String()
	}
	return t.Failure.Share.String()
}
