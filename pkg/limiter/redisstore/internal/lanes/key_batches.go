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

// clusterCalls is how many slots of a Cluster are worked on at once; their calls share pipelines.
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

// batches returns the indexes of store keys that one script call can take: at most size of them and, in a Cluster, of
// one slot.
func (s *Sender) batches(storeKeys []string, size int) (batches [][]int) {
	open := map[int]int{} // the latest batch of each slot
	for i := range storeKeys {
		slot := 0
		if s.IsCluster() {
			slot = redisserver.SlotOf(redisserver.HashTag(storeKeys[i]))
		}
		latest, has := open[slot]
		if !has || len(batches[latest]) == size {
			latest = len(batches)
			open[slot], batches = latest, append(batches, nil)
		}
		batches[latest] = append(batches[latest], i)
	}
	return batches
}

// EachBatch calls do with the indexes of store keys that one script call can take. In a Cluster several calls of do run
// at once. After an error, or when ctx ends, no more calls begin. It returns the first error. If the outcome of a call
// is unknown, it returns that error as well.
func (s *Sender) EachBatch(ctx context.Context, storeKeys []string, size int, do func(batch []int) error) error {
	workers := 1
	if s.IsCluster() {
		workers = clusterCalls
	}
	going, end := context.WithCancel(ctx)
	defer end()
	var working panics.Group
	free := make(chan struct{}, workers)
	var mu sync.Mutex
	var failed []error
	skipped := false
	for _, batch := range s.batches(storeKeys, size) {
		free <- struct{}{}
		if going.Err() != nil {
			skipped = true
			break
		}
		working.Go(func() {
			defer func() { <-free }()
			if err := oneByOne(batch, do); err != nil {
				end()
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
		})
	}
	if panicked := working.Wait(); panicked != nil {
		failed = append(failed, s.Explain(MaybeSent(panicked), "call", true, nil))
	}
	unknown := slices.IndexFunc(failed, func(err error) bool { return errors.Is(err, store.ErrOutcomeUnknown) })
	switch {
	case len(failed) == 0 && skipped: // the caller's time was over
		return s.Explain(ctx.Err(), "call", false, nil)
	case len(failed) == 0:
		return nil
	case unknown > 0:
		return errors.Join(failed[0], failed[unknown])
	}
	return failed[0]
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
