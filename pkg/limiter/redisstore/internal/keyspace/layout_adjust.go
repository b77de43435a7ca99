package keyspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// layoutAdjustment is one adjustment on its way.
type layoutAdjustment struct {
	*admin.Adjustment
	setting *layouts.Setting
	result  *admin.Adjusted
	// storeKeys are those that were read, and writes what is to be written there.
	storeKeys []string
	writes    []layouts.Write
	read      map[string]*heldValue
	before    int64
	record    admin.Record // what was there, if that is not what the caller has kept
}

// adjustTries is how often a limit is looked at that is used before it could be written.
const adjustTries = 8

// Adjust implements [admin.Keyspace] for limits of a layout that is a [layouts.Setter]. It reads the
// values, computes what to write, and writes that if the values are still the same. A limit that
// changes at every try is a [store.ErrUnavailable] and stays as it is.
func (f *Others) Adjust(ctx context.Context, adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	results := make([]admin.Adjusted, len(adjustments))
	pending := make([]*layoutAdjustment, len(adjustments))
	for i := range adjustments {
		a := &adjustments[i]
		if len(a.Members) == 0 {
			return nil, store.Invalidf("the adjustment of key %q names no store keys", a.Key.Subject)
		}
		if remaining := a.Limit.Capacity() - a.Used; a.Used < 0 || remaining < 0 {
			return nil, store.Invalidf("%d used is not within limit %s of key %q", a.Used, a.Limit, a.Members[0].StoreKey)
		}
		setting, err := f.sources.Setting(a.Key, a.Members[0].StoreKey, a.Limit)
		if err != nil {
			return nil, err
		}
		pending[i] = &layoutAdjustment{Adjustment: a, setting: setting, result: &results[i]}
	}
	var left []error
	before := map[string]*heldValue{}
	for some := range slices.Chunk(pending, keysPerCall) {
		foreign, err := f.adjust(ctx, some, before)
		if left = append(left, foreign...); err != nil {
			return results, errors.Join(append(left, err)...)
		}
	}
	return results, errors.Join(left...)
}

// adjust makes adjustments, and returns the errors of foreign values among them. Several of the
// same store key are made one after the other. before is what store keys held that were written.
func (f *Others) adjust(ctx context.Context, pending []*layoutAdjustment, before map[string]*heldValue) (left []error, err error) {
	for try := 0; len(pending) > 0; try++ {
		if try == adjustTries {
			return left, fmt.Errorf("%w: key %q is used so often that it could not be set in %d tries; it was left as it is",
				store.ErrUnavailable, pending[0].Members[0].StoreKey, adjustTries)
		}
		now, later := distinct(pending)
		ready, foreign, err := f.prepare(ctx, now, before)
		left = append(left, foreign...)
		if err != nil {
			return left, err
		}
		changed, err := f.set(ctx, ready)
		for _, a := range ready {
			for _, storeKey := range a.storeKeys {
				if before[storeKey] == nil && a.result.Done {
					before[storeKey] = a.read[storeKey]
				}
			}
		}
		if err != nil {
			return left, err
		}
		if pending = append(changed, later...); len(changed) < len(now) {
			try = -1 // some were set, so it goes on
		}
	}
	return left, nil
}

// distinct parts adjustments into such that have no store key in common, and the others.
func distinct(all []*layoutAdjustment) (now, later []*layoutAdjustment) {
	taken := map[string]bool{}
	for _, a := range all {
		free := !slices.ContainsFunc(a.Members, func(p admin.Member) bool { return taken[p.StoreKey] })
		for i := range a.Members {
			taken[a.Members[i].StoreKey] = true
		}
		if free {
			now = append(now, a)
		} else {
			later = append(later, a)
		}
	}
	return now, later
}

// prepare reads what limits hold, and computes what to write. ready are those with something to
// write.
func (f *Others) prepare(ctx context.Context, all []*layoutAdjustment, before map[string]*heldValue) (
	ready []*layoutAdjustment, left []error, err error,
) {
	server, err := f.Servers.ServerOf(ctx, all[0].Members[0].StoreKey)
	var now time.Time
	if err == nil {
		now, err = server.Time(ctx).Result()
	}
	if err != nil {
		return nil, nil, f.Explain(err, store.Adjust.String(), false, nil)
	}
	r := &reader{keys: f.keys, dumps: true, now: now, values: map[string]*heldValue{}, server: f.Client}
	if f.IsCluster() {
		r.server = server
	}
	var storeKeys []string
	for _, a := range all {
		a.storeKeys = a.setting.StoreKeys(f.instant(now))
		storeKeys = append(storeKeys, a.storeKeys...)
	}
	if _, err := r.addNew(ctx, storeKeys); err != nil {
		return nil, nil, f.Explain(err, store.Adjust.String(), false, storeKeys)
	}
	for _, a := range all {
		switch writes, err := a.plan(r, before); {
		case errors.Is(err, store.ErrForeign):
			left = append(left, err)
		case err != nil:
			return nil, left, err
		case writes:
			ready = append(ready, a)
		}
	}
	return ready, left, nil
}

// plan computes what to write. It is false if the limit stays as it is.
func (a *layoutAdjustment) plan(r *reader, before map[string]*heldValue) (writes bool, err error) {
	values := make([]layouts.Value, len(a.storeKeys))
	for i, storeKey := range a.storeKeys {
		held := r.values[storeKey]
		if held.tooLarge != "" {
			return false, &store.ForeignError{StoreKey: storeKey, Holds: held.tooLarge}
		}
		values[i] = held.Value
	}
	entry, in, err := a.setting.Entry(a.Key, values)
	if err != nil {
		return false, err
	}
	if a.before = 0; in {
		if !entry.UsedKnown() {
			return false, store.Invalidf("the units in use of key %q are not known, so none can be set", a.storeKeys[0])
		}
		a.before = entry.Used
	}
	*a.result = admin.Adjusted{}
	if a.Wanted(a.before) == a.before {
		*a.result = admin.Adjusted{Done: true, Before: a.before, After: a.before}
		return false, nil
	}
	if a.writes, err = a.setting.Writes(a.Limit.Capacity() - a.Used); err != nil {
		return false, err
	}
	for i := range a.writes {
		w := &a.writes[i]
		if held := r.values[w.StoreKey]; held == nil || held.Type == layouts.NoValue && w.TTL == 0 {
			return false, store.Invalidf("key %q is gone, so nothing can be set there; reset it whole", w.StoreKey)
		}
	}
	a.read = r.values
	a.note(entry.Record.Members, before)
	return len(a.writes) > 0, nil
}

// note notes which of the limit's own parts are there and what they hold, if the caller has kept
// something else. What other adjustments have written meanwhile is not what was there.
func (a *layoutAdjustment) note(own []admin.Member, before map[string]*heldValue) {
	a.record = admin.Record{}
	differs, kept := false, false
	names := slices.Clone(own)
	for i := range a.Members {
		kept = kept || a.Members[i].Dump != nil
		if samePart(own, &a.Members[i]) < 0 {
			names = append(names, a.Members[i])
		}
	}
	var parts []admin.Member
	for i := range names {
		part := admin.Member{StoreKey: names[i].StoreKey, Field: names[i].Field}
		held := a.read[part.StoreKey]
		if was := before[part.StoreKey]; was != nil {
			held = was
		}
		at := samePart(a.Members, &part)
		switch {
		case held == nil: // of a window that is over by now
			continue
		case !held.has(part.Field):
			differs = differs || at >= 0
			continue
		}
		part.Type, part.Expires, part.Dump = string(held.Type), held.expires, held.kept(part.Field)
		differs = differs || at < 0 || part.Type != a.Members[at].Type || !sameValue(&part, &a.Members[at])
		parts = append(parts, part)
	}
	if kept && differs && len(parts) > 0 {
		a.record = admin.Record{Key: a.Key, Members: parts}
	}
}

// samePart returns the index of the part that is at the same place, or -1.
func samePart(parts []admin.Member, as *admin.Member) int {
	return slices.IndexFunc(parts, func(p admin.Member) bool { return p.StoreKey == as.StoreKey && p.Field == as.Field })
}
