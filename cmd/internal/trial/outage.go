package trial

import "github.com/limitctl/limitctl/pkg/limiter"

// layers are what answers while the target is away.
func (t *LoadTest) layers() (layers limiter.Layers) {
	if t.Breaker != nil {
		layers.Breaker = func(store limiter.Store) limiter.Store { return limiter.WithBreaker(store, *t.Breaker) }
	}
	layers.Failure = func(store limiter.Store) limiter.Store { return limiter.WithFailure(store, t.Failure) }
	return layers
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
