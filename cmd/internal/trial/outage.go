package trial

import (
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// layers are what answers while the target is away.
func (t *LoadTest) layers() (with layers.Layers) {
	if t.Breaker != nil {
		with.Breaker = func(backend store.Store) store.Store { return layers.WithBreaker(backend, *t.Breaker) }
	}
	with.Failure = func(backend store.Store) store.Store { return layers.WithFailure(backend, t.Failure) }
	return with
}

// localShare is the share of each limit that is decided locally, in words; empty if none
// is.
func (t *LoadTest) localShare() string {
	switch {
	case t.Failure.Policy != store.LocalOnError:
		return ""
	case t.Failure.Share == 0:
		return store.DefaultShare.String()
	}
	return t.Failure.Share.String()
}
