package keyspace

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Adjust implements [admin.Keyspace] with many keys in each script call.
func (o *Own) Adjust(ctx context.Context, adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	adjustments = slices.Clone(adjustments)
	keys, seen := make([]store.Key, len(adjustments)), map[store.Key]bool{}
	for i := range adjustments {
		if err := adjustments[i].Normalize(); err != nil {
			return nil, err
		}
		keys[i] = adjustments[i].Key
		if seen[keys[i]] {
			return nil, store.Invalidf("key %s is adjusted twice", keys[i])
		}
		seen[keys[i]] = true
	}
	results := make([]admin.Adjusted, len(adjustments))
	var foreign []error
	err := o.exchanges(ctx, len(adjustments), func(i int) int { return len(adjustments[i].Kept) },
		func(first, end int) error {
			left, err := o.adjustBatch(ctx, adjustments[first:end], keys[first:end], results[first:end])
			foreign = append(foreign, left...)
			return err
		})
	return results, errors.Join(append(foreign, err)...)
}

// adjustBatch is Adjust for adjustments whose records go in one exchange.
func (o *Own) adjustBatch(ctx context.Context, adjustments []admin.Adjustment, keys []store.Key,
	results []admin.Adjusted) (
	foreign []error, err error,
) {
	var mu sync.Mutex
	storeKeys := make([]string, len(keys))
	for i := range keys {
		storeKeys[i] = o.Sender.Own.StoreKey(keys[i])
	}
	err = o.EachBatch(ctx, storeKeys, keysPerCall, func(batch []int) error {
		storeKeys := pick(storeKeys, batch)
		limits := make([]store.Request, len(batch))
		for n, i := range batch {
			limits[n] = store.Request{Limit: adjustments[i].Limit, Cost: adjustments[i].Used}
		}
		o.SetWindows(limits)
		call := func() ([]any, error) {
			arguments := lanes.WithOptions([]any{packAdjustments(adjustments, batch, limits)}, o.Clock, nil)
			return o.Array(ctx, true, lua.Adjust, storeKeys, arguments, 4)
		}
		tries := 0
		reply, err := call()
		for err != nil && o.CorrectWindows(err, limits, &tries) {
			reply, err = call()
		}
		if err != nil {
			return o.Explain(err, store.Adjust.String(), true, storeKeys)
		}
		left, ok := o.readAdjusted(reply, adjustments, storeKeys, batch, results)
		if !ok {
			return o.Refuse(store.Adjust.String(), true)
		}
		mu.Lock()
		defer mu.Unlock()
		foreign = append(foreign, left...)
		return nil
	})
	return foreign, err
}

// packAdjustments packs ARGV[1] of lua/adjust.lua. limits are the adjustments of the batch as requests.
func packAdjustments(adjustments []admin.Adjustment, batch []int, limits []store.Request) []byte {
	packed := lanes.PackRequests(store.Adjust, 0, limits)
	for _, i := range batch {
		a := &adjustments[i]
		kept, form := keptValue(a.Kept, 't')
		if a.Kept == nil {
			form = '-'
		}
		packed = append(append(packed, form, byte(len(kept))), kept...)
	}
	return packed
}

// readAdjusted reads the reply about the keys of a batch into results. It returns the errors of
// foreign values, and whether the script can have answered so.
func (o *Own) readAdjusted(
	reply []any, adjustments []admin.Adjustment, storeKeys []string, batch []int, results []admin.Adjusted,
) (foreign []error, ok bool) {
	if len(reply) == 0 {
		return nil, false
	}
	units := lanes.Text(reply[0])
	if len(units) != 8*len(batch) {
		return nil, false
	}
	for n, i := range batch {
		results[i] = admin.Adjusted{Done: true, Before: lanes.UnitsAt(units, 8*n), After: lanes.UnitsAt(units, 8*n+4)}
		if r := &results[i]; r.After != r.Before && r.After != adjustments[i].Used {
			return nil, false
		}
	}
	ok = eachReported(reply, len(batch), func(n int, holds string, was []byte, until time.Time) {
		i := batch[n]
		if holds != "" {
			foreign = append(foreign, &store.ForeignError{StoreKey: storeKeys[n], Holds: o.Servers.Redact(holds)})
			results[i] = admin.Adjusted{}
			return
		}
		results[i].Record = admin.Record{Key: adjustments[i].Key, Value: was, Expires: until}
	})
	return foreign, ok
}
