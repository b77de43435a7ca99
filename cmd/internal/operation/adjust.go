package operation

import (
	"context"
	"errors"

	"github.com/limitctl/limitctl/cmd/internal/backup"
	"github.com/limitctl/limitctl/internal/goroutines"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// adjustWorkers is how many adjustments go on at once; their calls share pipelines.
const adjustWorkers = 64

// adjust leaves remaining units of each key of a batch, and returns of how many it did.
func adjust(ctx context.Context, store limiter.Store, batch backup.Batch, remaining int64) (adjusted int, err error) {
	var working goroutines.Group
	free := make(chan struct{}, adjustWorkers)
	errs := make([]error, len(batch.Records))
	for i := range batch.Records {
		free <- struct{}{}
		working.Go(func() {
			defer func() { <-free }()
			limit := batch.Limits[i]
			reqs := [1]limiter.Request{{Key: batch.Records[i].Key, Limit: limit, Cost: limit.Capacity() - remaining}}
			var decisions [1]limiter.Decision
			errs[i] = store.Decide(ctx, limiter.Adjust, reqs[:], decisions[:])
		})
	}
	panicked := working.Wait()
	for _, err := range errs {
		if err == nil {
			adjusted++
		}
	}
	return adjusted, errors.Join(append(errs, panicked)...)
}
