package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Adjust implements [admin.Keyspace] with many keys in each script call.
func (s *Store) Adjust(ctx context.Context, adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
	if err := s.lanes.Check(); err != nil {
		return nil, err
	}
	adjustments = slices.Clone(adjustments)
	keys := make([]store.Key, len(adjustments))
	for i := range adjustments {
		if err := adjustments[i].Normalize(); err != nil {
			return nil, err
		}
		keys[i] = adjustments[i].Key
	}
	if i := firstRepeated(keys); i >= 0 {
		return nil, store.Invalidf("key %s is to be adjusted twice", keys[i])
	}
	results := make([]admin.Adjusted, len(adjustments))
	var foreign []error
	for first := 0; first < len(adjustments); {
		// What has changed since comes back, and is about as large.
		n := perExchange(len(adjustments)-first, func(i int) int { return len(adjustments[first+i].Kept) })
		end := first + n
		left, err := s.adjustBatch(ctx, adjustments[first:end], keys[first:end], results[first:end])
		foreign = append(foreign, left...)
		if err != nil {
			return results, errors.Join(append(foreign, err)...)
		}
		first = end
	}
	return results, s.recognised(ctx, errors.Join(foreign...))
}

// firstRepeated returns the index of the first key that is there before, or -1.
func firstRepeated(keys []store.Key) int {
	seen := make(map[store.Key]struct{}, len(keys))
	for i, key := range keys {
		if _, has := seen[key]; has {
			return i
		}
		seen[key] = struct{}{}
	}
	return -1
}

// adjustBatch is Adjust for adjustments whose records go in one exchange.
func (s *Store) adjustBatch(ctx context.Context, adjustments []admin.Adjustment, keys []store.Key, results []admin.Adjusted) (
	foreign []error, err error,
) {
	bytes := 0
	for i := range adjustments {
		bytes += len(adjustments[i].Kept)
	}
	if bytes > smallBytes {
		end, err := s.lanes.Alone(ctx)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	var mu sync.Mutex
	err = s.lanes.EachBatch(ctx, keys, keysPerCall, func(batch []int) error {
		storeKeys := s.storeKeys(keys, batch)
		arguments := lanes.WithClock([]any{packAdjustments(adjustments, batch)}, s.lanes.Clock)
		reply, err := s.lanes.Array(ctx, true, s.lanes.Scripts.Named(lua.Adjust), storeKeys, arguments, 4)
		if err != nil {
			return s.lanes.Explain(err, store.Adjust.String(), true, storeKeys)
		}
		left, ok := s.readAdjusted(reply, adjustments, storeKeys, batch, results)
		if !ok {
			return s.lanes.Refuse(store.Adjust.String(), true)
		}
		mu.Lock()
		defer mu.Unlock()
		foreign = append(foreign, left...)
		return nil
	})
	return foreign, err
}

// packAdjustments packs ARGV[1] of lua/adjust.lua.
func packAdjustments(adjustments []admin.Adjustment, batch []int) []byte {
	packed := []byte{lanes.OpCodes[store.Adjust]}
	for _, i := range batch {
		a := &adjustments[i]
		packed = lanes.AppendRequests(packed, []store.Request{{Limit: a.Limit, Cost: a.Used}})
	}
	for _, i := range batch {
		a := &adjustments[i]
		only := byte('=')
		if a.OnlyLess {
			only = '<'
		} else if a.OnlyMore {
			only = '>'
		}
		kept := keptValue(a.Kept)
		packed = append(append(packed, only, byte(len(kept))), kept...)
	}
	return packed
}

// readAdjusted reads the reply about the keys of a batch into results. It returns the errors of
// foreign values, and whether the script can have answered so.
func (s *Store) readAdjusted(
	reply []any, adjustments []admin.Adjustment, storeKeys []string, batch []int, results []admin.Adjusted,
) (foreign []error, ok bool) {
	if len(reply)%4 != 1 {
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
	for n := 1; n < len(reply); n += 4 {
		at := int(lanes.Integer(reply[n])) - 1
		if at < 0 || at >= len(batch) {
			return foreign, false
		}
		if holds := lanes.Text(reply[n+1]); holds != "" {
			foreign = append(foreign, &store.ForeignError{StoreKey: storeKeys[at], Holds: s.lanes.Servers.Redact(holds)})
			results[batch[at]] = admin.Adjusted{}
			continue
		}
		i := batch[at]
		results[i].Record = admin.Record{Key: adjustments[i].Key, Value: []byte(lanes.Text(reply[n+2])), Expires: lanes.ExpiryOf(reply[n+3])}
	}
	return foreign, true
}
