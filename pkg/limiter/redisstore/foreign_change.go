package redisstore

import (
	"context"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// foreignPart is a part of a record, for a script.
type foreignPart struct {
	*limiter.Part
	record int
}

// partsOf returns the parts of records, and keys for their slots.
func partsOf(records []limiter.Record) (parts []foreignPart, tags []limiter.Key, err error) {
	var storeKeys []string
	for i := range records {
		if len(records[i].Parts) == 0 {
			return nil, nil, limiter.Invalidf("the record of key %q names no store keys", records[i].Key.Subject)
		}
		for j := range records[i].Parts {
			parts = append(parts, foreignPart{&records[i].Parts[j], i})
			storeKeys = append(storeKeys, records[i].Parts[j].StoreKey)
		}
	}
	return parts, tagsOf(storeKeys), nil
}

// Delete implements [limiter.Keyspace]. A record is deleted if any of its parts was there. Those of
// several slots of a Cluster are not deleted at one instant.
func (f *foreignKeys) Delete(ctx context.Context, records ...limiter.Record) (deleted int, changed []limiter.Record, err error) {
	parts, tags, err := partsOf(records)
	if err != nil {
		return 0, nil, err
	}
	var mu sync.Mutex
	done := make([]bool, len(records))
	late := map[int]*limiter.Record{}
	err = f.store.eachBatch(ctx, tags, keysPerCall, func(batch []int) error {
		storeKeys, arguments := make([]string, len(batch)), make([]any, 0, 3*len(batch))
		for n, i := range batch {
			storeKeys[n] = parts[i].StoreKey
			arguments = append(arguments, parts[i].Type, parts[i].Field, keptValue(parts[i].Dump))
		}
		reply, err := f.store.array(ctx, true, f.store.scripts.toDeleteForeign(), storeKeys, arguments, 3)
		if err != nil {
			return f.store.explain(err, "deletion", true, storeKeys)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(reply) == 0 || len(text(reply[0])) != len(batch) {
			return f.store.refuse("deletion", true)
		}
		for n, outcome := range text(reply[0]) {
			done[parts[batch[n]].record] = done[parts[batch[n]].record] || outcome == '1'
		}
		for n := 1; n < len(reply); n += 3 {
			at := int(integer(reply[n])) - 1
			if at < 0 || at >= len(batch) {
				return f.store.refuse("deletion", true)
			}
			part := parts[batch[at]]
			if late[part.record] == nil {
				record := records[part.record]
				record.Parts = append([]limiter.Part(nil), record.Parts...)
				late[part.record] = &record
			}
			amend(late[part.record], part.Part, []byte(text(reply[n+1])), reply[n+2])
		}
		return nil
	})
	for i := range done {
		if done[i] {
			deleted++
		}
	}
	for _, record := range late {
		changed = append(changed, *record)
	}
	return deleted, changed, err
}

// amend puts what a part held into a record.
func amend(record *limiter.Record, part *limiter.Part, dump []byte, expires any) {
	for i := range record.Parts {
		if p := &record.Parts[i]; p.StoreKey == part.StoreKey && p.Field == part.Field {
			p.Dump, p.Expires = dump, expiry(expires)
		}
	}
}

// Adjust implements [limiter.Keyspace].
func (f *foreignKeys) Adjust(context.Context, ...limiter.Adjustment) ([]limiter.Adjusted, error) {
	return nil, limiter.Invalidf("the units that remain of other limiters' limits cannot be set yet")
}

// Import implements [limiter.Keyspace].
func (f *foreignKeys) Import(ctx context.Context, replace bool, records ...limiter.Record) ([]limiter.ImportOutcome, error) {
	for i := range records {
		if err := records[i].Check(); err != nil {
			return nil, err
		}
	}
	parts, tags, err := partsOf(records)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	outcomes := make([]limiter.ImportOutcome, len(records))
	err = f.store.eachBatch(ctx, tags, keysPerCall, func(batch []int) error {
		storeKeys, arguments := make([]string, len(batch)), []any{"0"}
		if replace {
			arguments[0] = "1"
		}
		for n, i := range batch {
			storeKeys[n] = parts[i].StoreKey
			expires := int64(-1)
			if !parts[i].Expires.IsZero() {
				expires = parts[i].Expires.UnixMilli()
			}
			arguments = append(arguments, parts[i].Type, parts[i].Field, parts[i].Dump, expires)
		}
		cmd, err := f.store.run(ctx, true, f.store.scripts.toImportForeign(), storeKeys, arguments)
		if err != nil {
			return f.store.explain(err, "import", true, storeKeys)
		}
		reply, err := cmd.Text()
		if err != nil || len(reply) != len(batch) {
			return f.store.refuse("import", true)
		}
		mu.Lock()
		defer mu.Unlock()
		for n, i := range batch {
			outcome, known := importOutcome(reply[n])
			if !known {
				return f.store.refuse("import", true)
			}
			record := parts[i].record
			outcomes[record] = combined(outcomes[record], outcome)
		}
		return nil
	})
	return outcomes, err
}

// importOutcome reads a byte of the reply of an import script.
func importOutcome(reply byte) (outcome limiter.ImportOutcome, known bool) {
	switch reply {
	case 'i':
		return limiter.Imported, true
	case 'a':
		return limiter.AlreadyThere, true
	case 'l':
		return limiter.Lapsed, true
	case 'u':
		return limiter.InUse, true
	case 'f':
		return limiter.Foreign, true
	}
	return limiter.NotKnown, false
}

// combined is what became of a record by what became of two of its parts: what was left counts
// more than what came back, and that more than what was there or had expired.
func combined(a, b limiter.ImportOutcome) limiter.ImportOutcome {
	for _, outcome := range []limiter.ImportOutcome{limiter.Foreign, limiter.InUse, limiter.Imported, limiter.AlreadyThere} {
		if a == outcome || b == outcome {
			return outcome
		}
	}
	return max(a, b)
}
