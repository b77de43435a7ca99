package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// keysPerCall is how many keys one script call reads, deletes or writes: few enough
// that others wait a millisecond or so for it.
const keysPerCall = 200

// bytesPerExchange is how many bytes of records one exchange with a server carries, as
// many as the export script sends. A record that is larger goes by itself.
const bytesPerExchange = lua.ExportBytes

// perExchange returns how many of the first of n records go in one exchange, at least one.
func perExchange(n int, size func(i int) int) int {
	for i, bytes := 0, 0; i < n; i++ {
		if bytes += size(i); bytes > bytesPerExchange {
			return max(1, i)
		}
	}
	return n
}

// export reads whole records, each at one instant. Keys that are gone or hold
// something else are left out.
func (s *Store) export(ctx context.Context, keys []store.Key) ([]admin.Record, error) {
	end, err := s.lanes.Alone(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var mu sync.Mutex
	var records []admin.Record
	err = s.lanes.EachBatch(ctx, keys, keysPerCall, func(batch []int) error {
		for len(batch) > 0 { // large values come in several answers
			storeKeys := s.storeKeys(keys, batch)
			reply, err := s.lanes.Array(ctx, false, s.lanes.Scripts.Named(lua.Export), storeKeys, nil, 2)
			if err != nil {
				return s.lanes.Explain(err, "export", false, storeKeys)
			}
			if len(reply) == 0 || len(reply)%2 != 0 || len(reply)/2 > len(batch) {
				return s.lanes.Refuse("export", false)
			}
			mu.Lock()
			for n := range len(reply) / 2 {
				if value := lanes.Text(reply[2*n]); value != "" {
					records = append(records, admin.Record{Key: keys[batch[n]], Value: []byte(value), Expires: lanes.ExpiryOf(reply[2*n+1])})
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
func (s *Store) Delete(ctx context.Context, records ...admin.Record) (deleted int, changed []admin.Record, err error) {
	if err := s.lanes.Check(); err != nil {
		return 0, nil, err
	}
	if err := validate(keysOf(records)); err != nil {
		return 0, nil, err
	}
	var foreign []error
	for err == nil && len(records) > 0 {
		// What has changed since comes back, and is about as large.
		n := perExchange(len(records), func(i int) int { return len(records[i].Value) })
		var some []admin.Record
		var left []error
		var gone int
		gone, some, left, err = s.deleteBatch(ctx, records[:n])
		deleted, changed, foreign, records = deleted+gone, append(changed, some...), append(foreign, left...), records[n:]
	}
	return deleted, changed, s.recognised(ctx, errors.Join(append(foreign, err)...))
}

// smallBytes is how large values can be and still come back at any time.
const smallBytes = 64 << 10

// deleteBatch is Delete for records that go in one exchange.
func (s *Store) deleteBatch(ctx context.Context, records []admin.Record) (
	deleted int, changed []admin.Record, foreign []error, err error,
) {
	bytes := 0
	for i := range records {
		bytes += len(records[i].Value)
	}
	if bytes > smallBytes {
		end, err := s.lanes.Alone(ctx)
		if err != nil {
			return 0, nil, nil, err
		}
		defer end()
	}
	keys := keysOf(records)
	var mu sync.Mutex
	err = s.lanes.EachBatch(ctx, keys, keysPerCall, func(batch []int) error {
		storeKeys := s.storeKeys(keys, batch)
		kept := make([]any, len(batch))
		for n, i := range batch {
			kept[n] = keptValue(records[i].Value)
		}
		reply, err := s.lanes.Array(ctx, true, s.lanes.Scripts.Named(lua.Delete), storeKeys, kept, 4)
		if err != nil {
			return s.lanes.Explain(err, "deletion", true, storeKeys)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(reply) == 0 {
			return s.lanes.Refuse("deletion", true)
		}
		deleted += int(lanes.Integer(reply[0]))
		for n := 1; n < len(reply); n += 4 {
			at := int(lanes.Integer(reply[n])) - 1
			if at < 0 || at >= len(batch) {
				return s.lanes.Refuse("deletion", true)
			}
			if holds := lanes.Text(reply[n+1]); holds != "" {
				foreign = append(foreign, &store.ForeignError{StoreKey: storeKeys[at], Holds: s.lanes.Servers.Redact(holds)})
				continue
			}
			changed = append(changed, admin.Record{Key: keys[batch[at]], Value: []byte(lanes.Text(reply[n+2])), Expires: lanes.ExpiryOf(reply[n+3])})
		}
		return nil
	})
	return deleted, changed, foreign, err
}

// keptAsIs is how many bytes of a value are sent to be compared. The sum of one so short costs the
// server more than to read it.
const keptAsIs = 256

// keptValue tells the deletion script which value is kept: a short one itself, a long
// one by a checksum that the script can compute, too.
func keptValue(value []byte) []byte {
	switch {
	case value == nil:
		return []byte{}
	case len(value) <= keptAsIs:
		return append([]byte("="), value...)
	}
	sum := sha1.Sum(value)
	return append([]byte("#"), hex.EncodeToString(sum[:])...)
}

// expiresMS tells the scripts when a key expires: in ms since the epoch, or -1 for never.
func expiresMS(at time.Time) int64 {
	if at.IsZero() {
		return -1
	}
	return at.UnixMilli()
}

// Import implements [admin.Keyspace].
func (s *Store) Import(ctx context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	if err := s.lanes.Check(); err != nil {
		return nil, err
	}
	expires := make([]int64, len(records))
	for i := range records {
		if err := records[i].Check(); err != nil {
			return nil, err
		}
		expires[i] = expiresMS(expiryOf(&records[i]))
	}
	keys := keysOf(records)
	outcomes := make([]admin.ImportOutcome, len(records))
	err := s.lanes.EachBatch(ctx, keys, keysPerCall, func(batch []int) error {
		storeKeys := s.storeKeys(keys, batch)
		arguments := []any{"0"}
		if replace {
			arguments[0] = "1"
		}
		for _, i := range batch {
			arguments = append(arguments, records[i].Value, expires[i])
		}
		cmd, err := s.lanes.Run(ctx, true, s.lanes.Scripts.Named(lua.Import), storeKeys, arguments)
		if err != nil {
			return s.lanes.Explain(err, "import", true, storeKeys)
		}
		reply, err := cmd.Text()
		if err != nil || len(reply) != len(batch) {
			return s.lanes.Refuse("import", true)
		}
		for n, i := range batch {
			outcome, known := importOutcome(reply[n])
			if !known {
				return s.lanes.Refuse("import", true)
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

func keysOf(records []admin.Record) []store.Key {
	keys := make([]store.Key, len(records))
	for i := range records {
		keys[i] = records[i].Key
	}
	return keys
}

func (s *Store) storeKeys(keys []store.Key, indexes []int) []string {
	storeKeys := make([]string, len(indexes))
	for n, i := range indexes {
		storeKeys[n] = s.lanes.Own.StoreKey(keys[i])
	}
	return storeKeys
}
