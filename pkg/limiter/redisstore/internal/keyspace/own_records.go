package keyspace

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// export reads whole records, each at one instant. Keys that are gone or hold
// something else are left out.
func (o *Own) export(ctx context.Context, keys []store.Key) ([]admin.Record, error) {
	end, err := o.Alone(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var mu sync.Mutex
	var records []admin.Record
	err = o.EachBatch(ctx, keys, keysPerCall, func(batch []int) error {
		for len(batch) > 0 { // large values come in several answers
			storeKeys := o.storeKeys(pick(keys, batch))
			reply, err := o.Array(ctx, false, lua.Export, storeKeys, nil, 2)
			if err != nil {
				return o.Explain(err, "export", false, storeKeys)
			}
			if len(reply) == 0 || len(reply)%2 != 0 || len(reply)/2 > len(batch) {
				return o.Refuse("export", false)
			}
			mu.Lock()
			for n := range len(reply) / 2 {
				if value := lanes.Text(reply[2*n]); value != "" {
					records = append(records, admin.Record{Key: keys[batch[n]], Value: []byte(value),
						Expires: lanes.ExpiryOf(reply[2*n+1])})
				}
			}
			mu.Unlock()
			batch = batch[len(reply)/2:]
		}
		return nil
	})
	return records, err
}

// Delete implements [admin.Keyspace] with UNLINK inside a script that checks
// each value first.
func (o *Own) Delete(ctx context.Context, records ...admin.Record) (deleted int, changed []admin.Record, err error) {
	if err := o.Check(); err != nil {
		return 0, nil, err
	}
	if err := validate(admin.KeysOf(records)); err != nil {
		return 0, nil, err
	}
	var foreign []error
	err = o.exchanges(ctx, len(records), func(i int) int { return len(records[i].Value) }, func(first, end int) error {
		gone, some, left, err := o.deleteBatch(ctx, records[first:end])
		deleted, changed, foreign = deleted+gone, append(changed, some...), append(foreign, left...)
		return err
	})
	return deleted, changed, errors.Join(append(foreign, err)...)
}

// deleteBatch is Delete for records that go in one exchange.
func (o *Own) deleteBatch(ctx context.Context, records []admin.Record) (
	deleted int, changed []admin.Record, foreign []error, err error,
) {
	keys := admin.KeysOf(records)
	storeKeys := o.storeKeys(keys)
	var mu sync.Mutex
	err = o.EachBatch(ctx, keys, keysPerCall, func(batch []int) error {
		kept := make([]any, len(batch))
		for n, i := range batch {
			kept[n] = keptValue(records[i].Value)
		}
		names := pick(storeKeys, batch)
		reply, err := o.Array(ctx, true, lua.Delete, names, kept, 4)
		if err != nil {
			return o.Explain(err, "deletion", true, names)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(reply) == 0 {
			return o.Refuse("deletion", true)
		}
		deleted += int(lanes.Integer(reply[0]))
		ok := eachReported(reply, len(batch), func(i int, holds string, was []byte, until time.Time) {
			if holds != "" {
				foreign = append(foreign, &store.ForeignError{StoreKey: names[i], Holds: o.Servers.Redact(holds)})
				return
			}
			changed = append(changed, admin.Record{Key: keys[batch[i]], Value: was, Expires: until})
		})
		if !ok {
			return o.Refuse("deletion", true)
		}
		return nil
	})
	return deleted, changed, foreign, err
}

// Import implements [admin.Keyspace].
func (o *Own) Import(ctx context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	expires := make([]int64, len(records))
	for i := range records {
		if err := records[i].Check(); err != nil {
			return nil, err
		}
		expires[i] = expiresMS(expiryOf(&records[i]))
	}
	keys := admin.KeysOf(records)
	storeKeys := o.storeKeys(keys)
	outcomes := make([]admin.ImportOutcome, len(records))
	err := o.EachBatch(ctx, keys, keysPerCall, func(batch []int) error {
		arguments := []any{importFlag(replace)}
		for _, i := range batch {
			arguments = append(arguments, records[i].Value, expires[i])
		}
		names := pick(storeKeys, batch)
		cmd, err := o.Run(ctx, true, lua.Import, names, arguments)
		if err != nil {
			return o.Explain(err, "import", true, names)
		}
		reply, err := cmd.Text()
		if err != nil || len(reply) != len(batch) {
			return o.Refuse("import", true)
		}
		for n, i := range batch {
			outcome, known := importOutcome(reply[n])
			if !known {
				return o.Refuse("import", true)
			}
			outcomes[i] = outcome
		}
		return nil
	})
	return outcomes, err
}

// expiryOf returns when the key of a sound record is to expire. If somebody removed the key's
// expiry, it is when the record's units are back, because no record stays for ever.
func expiryOf(r *admin.Record) time.Time {
	if !r.Expires.IsZero() {
		return r.Expires
	}
	state, _ := r.Decode()
	return state.UnusedAt(state.Time).Time().Add(time.Millisecond - time.Microsecond) // whole milliseconds, rounded up
}

func validate(keys []store.Key) error {
	for _, key := range keys {
		if err := key.Validate(); err != nil {
			return err
		}
		if key.Name == "" {
			return store.Invalidf("key %q has no name; say which of its limits is meant", key.Subject)
		}
	}
	return nil
}

func (o *Own) storeKeys(keys []store.Key) []string {
	storeKeys := make([]string, len(keys))
	for i := range keys {
		storeKeys[i] = o.Own.StoreKey(keys[i])
	}
	return storeKeys
}

// pick returns those of all that have an index of batch.
func pick[T any](all []T, batch []int) []T {
	some := make([]T, len(batch))
	for n, i := range batch {
		some[n] = all[i]
	}
	return some
}
