package keyspace

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// setWords are the words of one store key for lua/members_set.lua, but for its family.
type setWords struct {
	storeKey string
	words    []any
}

// set writes what adjustments have planned, each if its values are still what was read. It
// returns those where they are not.
func (f *Others) set(ctx context.Context, ready []*layoutAdjustment) (changed []*layoutAdjustment, err error) {
	storeKeys := make([]string, len(ready))
	for i, a := range ready {
		if storeKeys[i], err = f.writtenSlot(a); err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex
	err = f.EachBatch(ctx, tagsOf(storeKeys), keysPerCall/4, func(batch []int) error {
		left, err := f.setTogether(ctx, pick(ready, batch))
		mu.Lock()
		defer mu.Unlock()
		changed = append(changed, left...)
		return err
	})
	return changed, err
}

// writtenSlot returns the store key whose slot all writes of an adjustment are in.
func (f *Others) writtenSlot(a *layoutAdjustment) (string, error) {
	first := a.writes[0].StoreKey
	for i := range a.writes {
		if storeKey := a.writes[i].StoreKey; !f.together(first, storeKey) {
			return "", store.Invalidf("keys %q and %q lie in different slots of the Cluster, so they cannot be set at one instant; "+
				"reset them whole", first, storeKey)
		}
	}
	return first, nil
}

// setTogether is set for adjustments that one script call can make.
func (f *Others) setTogether(ctx context.Context, some []*layoutAdjustment) (changed []*layoutAdjustment, err error) {
	var storeKeys []string
	var arguments []any
	last := make([]int, len(some)) // of each, its last key
	for n, a := range some {
		for _, of := range a.words(f.together) {
			storeKeys = append(storeKeys, of.storeKey)
			arguments = append(append(arguments, n), of.words...)
		}
		last[n] = len(storeKeys) - 1
	}
	cmd, err := f.run(ctx, store.Adjust.String(), lua.SetMembers, make([]memberSet, len(some)), storeKeys, arguments)
	if err != nil {
		return nil, err
	}
	reply, err := cmd.Text()
	if err != nil || len(reply) != len(storeKeys) {
		return nil, f.Refuse(store.Adjust.String(), true)
	}
	for n, a := range some {
		switch reply[last[n]] {
		case '1':
			*a.result = admin.Adjusted{Done: true, Before: a.before, After: a.Used, Record: a.record}
		case 'c':
			changed = append(changed, a)
		default:
			return nil, f.Refuse(store.Adjust.String(), true)
		}
	}
	return changed, nil
}

// words are what the script is to check of an adjustment's store keys, and to write there. Those
// that lie in other slots than the first write cannot be checked.
func (a *layoutAdjustment) words(together func(a, b string) bool) (all []setWords) {
	first := a.writes[0].StoreKey
	for _, storeKey := range a.storeKeys {
		if !together(first, storeKey) {
			continue
		}
		held := a.read[storeKey]
		kept := []byte{}
		switch held.Type {
		case layouts.NoValue:
		case layouts.StringValue:
			kept = keptHeld(held.Text, true)
		default:
			kept = keptHeld(held.dump, false)
		}
		all = append(all, setWords{storeKey, []any{string(held.Type), kept, "", "", "", "0"}})
	}
	for i := range a.writes {
		w := &a.writes[i]
		what := "s"
		switch {
		case w.Gone:
			what = "d"
		case w.Field != "":
			what = "h"
		}
		ttl := strconv.FormatInt(int64(w.TTL.Milliseconds()), 10)
		if w.TTL > 0 && ttl == "0" {
			ttl = "1"
		}
		words := []any{"", "", what, w.Field, w.Text, ttl}
		// The check of a key and what is written there are one.
		at := slices.IndexFunc(all, func(s setWords) bool { return s.storeKey == w.StoreKey && s.words[2] == "" })
		if at >= 0 {
			copy(all[at].words[2:], words[2:])
			continue
		}
		all = append(all, setWords{w.StoreKey, words})
	}
	return all
}
