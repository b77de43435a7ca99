package lanes

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// clusterCalls is how many slots of a Cluster are worked on at once; their calls
// share pipelines.
const clusterCalls = 64

// oneByOne calls do with the batch. If its slot is moving, with some of the keys here and
// others there (TRYAGAIN), it calls do once for each key. Nothing has been done then: a server
// does not run a script if it has only some of the keys.
func oneByOne(batch []int, do func(batch []int) error) error {
	err := do(batch)
	if len(batch) == 1 || !redisserver.IsErrorReply(err, "TRYAGAIN") {
		return err
	}
	for _, i := range batch {
		if err := do([]int{i}); err != nil {
			return err
		}
	}
	return nil
}

// EachBatch calls do with the indexes of store keys that one script call can take: at
// most size of them and, in a Cluster, of one slot. There several calls of do run
// at once. After an error, or when ctx ends, no more calls begin. It returns the first error. If the outcome of a call
// is unknown, it returns that error as well.
func (s *Sender) EachBatch(ctx context.Context, storeKeys []string, size int, do func(batch []int) error) error {
	slotOf := s.SlotOf
	if slotOf == nil {
		for first := 0; first < len(storeKeys); first += size {
			batch := make([]int, 0, size)
			for i := first; i < min(first+size, len(storeKeys)); i++ {
				batch = append(batch, i)
			}
			if err := do(batch); err != nil {
				return err
			}
		}
		return nil
	}
	bySlot := map[int][]int{}
	for i := range storeKeys {
		slot := slotOf(redisserver.HashTag(storeKeys[i]))
		bySlot[slot] = append(bySlot[slot], i)
	}
	going, end := context.WithCancel(ctx)
	defer end()
	var working panics.Group
	free := make(chan struct{}, clusterCalls)
	var mu sync.Mutex
	var first, unknown error
	skipped := false
	for _, indexes := range bySlot {
		for batch := range slices.Chunk(indexes, size) {
			select {
			case <-going.Done():
			case free <- struct{}{}:
			}
			if going.Err() != nil { // both can be ready, and then either is chosen
				skipped = true
				break
			}
			working.Go(func() {
				defer func() { <-free }()
				err := oneByOne(batch, do)
				if err == nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
				if errors.Is(err, store.ErrOutcomeUnknown) {
					unknown = err
				}
				end()
			})
		}
	}
	if panicked := working.Wait(); panicked != nil && unknown == nil {
		return s.Explain(sentError{panicked}, "call", true, nil)
	}
	switch {
	case first == nil && skipped: // the caller's time was over
		return s.Explain(ctx.Err(), "call", false, nil)
	case unknown == nil || errors.Is(first, store.ErrOutcomeUnknown):
		return first
	}
	return errors.Join(first, unknown)
}

// Alone waits until no other call of the store is under way whose answer can be large:
// several would share what one exchange may carry. The caller calls end when it is done.
func (s *Sender) Alone(ctx context.Context) (end func(), err error) {
	select {
	case s.large <- struct{}{}:
		return func() { <-s.large }, nil
	case <-ctx.Done():
		return nil, s.Explain(ctx.Err(), "call", false, nil)
	}
}
