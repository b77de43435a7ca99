package keyspace

import (
	"context"

	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Store keys that belong together are changed together where they lie in one slot. Those of a
// family of several slots are changed slot by slot, since no script call can have them all.

// member is a store key of one record, or of several that share it.
type member struct {
	*admin.Member
	records []int
	number  int // among all members
}

// memberSet is members of one record that one script call changes together.
type memberSet struct{ parts []member }

// setsOf returns the members of records, each once, in sets.
func (f *Others) setsOf(records []admin.Record) ([]memberSet, error) {
	type place struct{ set, part int }
	known := make(map[string]place, len(records))
	var sets []memberSet
	for i := range records {
		if len(records[i].Members) == 0 {
			return nil, store.Invalidf("the record of key %q names no store keys", records[i].Key.Subject)
		}
		mine := len(sets) // the sets of this record begin here
		for j := range records[i].Members {
			part := &records[i].Members[j]
			if at, has := known[part.StoreKey]; has {
				shared := &sets[at.set].parts[at.part]
				shared.records = append(shared.records, i)
				continue
			}
			n := mine
			for n < len(sets) && !f.together(sets[n].parts[0].StoreKey, part.StoreKey) {
				n++
			}
			if n == len(sets) {
				sets = append(sets, memberSet{})
			}
			known[part.StoreKey] = place{n, len(sets[n].parts)}
			sets[n].parts = append(sets[n].parts, member{part, []int{i}, len(known) - 1})
		}
	}
	return sets, nil
}

// together reports whether one script call can have two store keys.
func (f *Others) together(a, b string) bool {
	slotOf := f.SlotOf
	return slotOf == nil || slotOf(hashTag(a)) == slotOf(hashTag(b))
}

// partsPerCall is how many members one script call changes.
const partsPerCall = keysPerCall

// eachSets calls do with sets that one script call can have.
func (f *Others) eachSets(ctx context.Context, sets []memberSet, do func([]memberSet) error) error {
	storeKeys, longest := make([]string, len(sets)), 1
	for i := range sets {
		storeKeys[i] = sets[i].parts[0].StoreKey
		longest = max(longest, len(sets[i].parts))
	}
	return f.EachBatch(ctx, tagsOf(storeKeys), max(1, partsPerCall/longest), func(batch []int) error {
		return do(pick(sets, batch))
	})
}

// flat returns the members of sets, the set of each, and their store keys.
func flat(sets []memberSet) (parts []member, setOf []int, storeKeys []string) {
	for n := range sets {
		for _, part := range sets[n].parts {
			parts, setOf, storeKeys = append(parts, part), append(setOf, n), append(storeKeys, part.StoreKey)
		}
	}
	return parts, setOf, storeKeys
}

// run calls a script that changes sets. Keys of a single set that are on their way to another
// master are waited for.
func (f *Others) run(ctx context.Context, verb string, script *lua.Script, sets []memberSet, storeKeys []string,
	arguments []any) (*redis.Cmd, error) {
	var cmd *redis.Cmd
	call := func() (err error) {
		cmd, err = f.Run(ctx, true, script, storeKeys, arguments)
		return err
	}
	err := call()
	if len(sets) == 1 {
		err = lanes.OnceMoved(ctx, err, call)
	}
	if err != nil {
		return nil, f.Explain(err, verb, true, storeKeys)
	}
	return cmd, nil
}

// dumpedPart returns the text that a part holds, if it is one, and else what DUMP returned.
func dumpedPart(part *admin.Member) (value []byte, isText bool) {
	if part.Type == string(layouts.StringValue) {
		if text, ok := dumpedText(part.Dump); ok {
			return text, true
		}
	}
	return part.Dump, false
}

// keptPart tells the scripts which value of a part the caller has; see lua/members_held.lua.
func keptPart(part *admin.Member) []byte {
	if part.Dump == nil {
		return []byte{}
	}
	value, isText := dumpedPart(part)
	if value == nil {
		value = []byte{}
	}
	return append([]byte{mark(isText)}, keptValue(value)...)
}

// mark begins a value as lua/members_held.lua has it.
func mark(isText bool) byte {
	if isText {
		return 't'
	}
	return 'd'
}

// dumpOf returns what a part holds, from the answer of a script that compared it with kept.
func dumpOf(kept, answer []byte) []byte {
	if len(kept) > 0 && kept[0] == mark(true) {
		return dumpText(answer)
	}
	return answer
}
