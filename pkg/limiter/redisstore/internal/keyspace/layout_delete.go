package keyspace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// deletion is the deletion of some records.
type deletion struct {
	*Others
	records []admin.Record
	mu      sync.Mutex
	// outcomes are the known outcomes of members, and late is what members held, by the member's number.
	outcomes map[int]byte
	late     map[int]late
	foreign  []error
}

// late is what a member held when it was deleted, and until when, if the caller had not kept that.
type late struct {
	dump    []byte
	expires time.Time
}

// Delete implements [admin.Keyspace]. A record is deleted if any of its members was there. The
// members of a record that lie in one slot are deleted together or, if one has become something
// else, not at all. A member that several records share is deleted once, for all of them.
func (f *Others) Delete(ctx context.Context, records ...admin.Record) (deleted int, changed []admin.Record, err error) {
	if err := f.Check(); err != nil {
		return 0, nil, err
	}
	var foreign []error
	err = f.exchanges(ctx, len(records), func(i int) int { return records[i].Size() }, func(first, end int) error {
		sets, err := f.setsOf(records[first:end])
		if err != nil {
			return err
		}
		d := &deletion{Others: f, records: records[first:end], outcomes: map[int]byte{}, late: map[int]late{}}
		err = f.eachSets(ctx, sets, func(some []memberSet) error { return d.call(ctx, some) })
		gone, some := d.result(sets)
		deleted, changed, foreign = deleted+gone, append(changed, some...), append(foreign, d.foreign...)
		return err
	})
	return deleted, changed, errors.Join(append(foreign, err)...)
}

// call deletes sets by a script call, and by more where the values are too large for one answer.
func (d *deletion) call(ctx context.Context, sets []memberSet) error {
	left, err := d.callOnce(ctx, sets)
	if err != nil {
		return err
	}
	for _, set := range left {
		again, err := d.callOnce(ctx, []memberSet{set})
		if err != nil {
			return err
		}
		if len(again) > 0 {
			d.mu.Lock()
			d.foreign = append(d.foreign, &store.ForeignError{StoreKey: set.parts[0].StoreKey,
				Holds: "by now more than a backup takes"})
			d.mu.Unlock()
		}
	}
	return nil
}

// callOnce deletes sets, and returns those that were left since too much had to be returned.
func (d *deletion) callOnce(ctx context.Context, sets []memberSet) (left []memberSet, err error) {
	parts, setOf, storeKeys := flat(sets)
	kept, arguments := make([][]byte, len(parts)), make([]any, 0, 4*len(parts))
	for i := range parts {
		kept[i] = keptPart(parts[i].Member)
		arguments = append(arguments, setOf[i], parts[i].Type, kept[i], expiresMS(parts[i].Expires))
	}
	cmd, err := d.run(ctx, "deletion", lua.DeleteMembers, sets, storeKeys, arguments)
	if err != nil {
		return nil, err
	}
	reply, err := cmd.Slice()
	if err != nil || len(reply)%4 != 1 || len(lanes.Text(reply[0])) != len(parts) {
		return nil, d.Refuse("deletion", true)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	lastLeft := -1
	for i, outcome := range []byte(lanes.Text(reply[0])) {
		d.outcomes[parts[i].number] = outcome
		if outcome == 'b' && setOf[i] != lastLeft {
			lastLeft = setOf[i]
			left = append(left, sets[lastLeft])
		}
	}
	ok := eachReported(reply, len(parts), func(i int, is string, was []byte, until time.Time) {
		if is != "" {
			d.foreign = append(d.foreign, &store.ForeignError{StoreKey: storeKeys[i],
				Holds: fmt.Sprintf("a %s by now, and held a %s", d.Servers.Redact(is), parts[i].Type)})
			return
		}
		d.late[parts[i].number] = late{dumpOf(kept[i], was), until}
	})
	if !ok {
		return nil, d.Refuse("deletion", true)
	}
	return left, nil
}

// result returns how many records were deleted, and those that held something else than what
// the caller has kept, as they were.
func (d *deletion) result(sets []memberSet) (deleted int, changed []admin.Record) {
	type fate struct{ some, new bool }
	fates := make([]fate, len(d.records))
	held := make([][]admin.Member, len(d.records)) // what was deleted
	for i := range sets {
		for _, part := range sets[i].parts {
			for _, record := range part.records {
				switch d.outcomes[part.number] {
				case '1':
					was := *part.Member
					if late, is := d.late[part.number]; is {
						was.Dump, was.Expires = late.dump, late.expires
						fates[record].new = true
					}
					fates[record].some = true
					held[record] = append(held[record], was)
				case 0: // the outcome is not known
					held[record] = append(held[record], *part.Member)
				default:
					fates[record].new = fates[record].new || part.Dump != nil
				}
			}
		}
	}
	for i := range fates {
		if !fates[i].some {
			continue
		}
		deleted++
		if fates[i].new {
			record := d.records[i]
			record.Members = held[i]
			changed = append(changed, record)
		}
	}
	return deleted, changed
}
