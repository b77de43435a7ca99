package storetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// overridesAreSetTogether sets and revokes from many concurrent callers.
func overridesAreSetTogether(t *testing.T, h Harness) {
	table, _ := admin.TablesOf(h.New(t, nil))
	ctx := context.Background()
	const callers, each = 8, 10
	var wait sync.WaitGroup
	kept := make(chan string, callers*each)
	for caller := range callers {
		wait.Go(func() {
			for i := range each {
				o := store.Override{Effect: store.OverrideAdd, Units: int64(1 + caller*each + i)}
				set, err := table.SetOverride(ctx, o, time.Hour)
				if err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					kept <- set.ID
				} else if _, found, err := table.RevokeOverride(ctx, set.ID); !found || err != nil {
					t.Errorf("revoking %s: %v, %v", set.ID, found, err)
				}
				if _, _, err := table.Overrides(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	close(kept)
	want := map[string]bool{}
	for id := range kept {
		want[id] = true
	}
	list, _, err := table.Overrides(ctx)
	if err != nil || len(list) != len(want) {
		t.Errorf("%d overrides, want %d; %v", len(list), len(want), err)
	}
	for _, o := range list {
		if !want[o.ID] {
			t.Errorf("%s was revoked", o.ID)
		}
	}
}

// overridesAreOne sets the same override again, alone and from many concurrent callers.
func overridesAreOne(t *testing.T, h Harness) {
	now := epoch
	table, _ := admin.TablesOf(h.New(t, func() time.Time { return now }))
	ctx := context.Background()
	set := func(o store.Override, lasts time.Duration) store.Override {
		t.Helper()
		done, err := table.SetOverride(ctx, o, lasts)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	list := func() []store.Override {
		t.Helper()
		all, _, err := table.Overrides(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	add := store.Override{Effect: store.OverrideAdd, Units: 5, Reason: "first", By: "ann"}
	first := set(add, time.Hour)
	fifty := add
	fifty.Units, fifty.Reason = 50, ""
	if other := set(fifty, time.Hour); other.ID == first.ID || len(list()) != 2 {
		t.Errorf("5 and 50 units more are one: %+v", list())
	}
	for _, lasts := range []time.Duration{2 * time.Hour, time.Minute} { // first a later end, then an earlier one
		now = now.Add(time.Second)
		again := add
		again.Reason, again.By = "again "+lasts.String(), "ben"
		got := set(again, lasts)
		if got.ID != first.ID || got.Reason != again.Reason || got.By != "ben" ||
			!got.CreatedAt.Equal(now.Truncate(time.Millisecond)) ||
			!got.ExpiresAt.Equal(got.CreatedAt.Add(lasts)) {
			t.Errorf("set again for %s it is %+v", lasts, got)
		}
		all := list()
		at := slices.IndexFunc(all, func(o store.Override) bool { return o.ID == first.ID })
		if len(all) != 2 || at < 0 || !sameOverride(&all[at], &got) {
			t.Errorf("the table has %+v", all)
		}
	}
	now = now.Add(time.Minute) // the earlier end counts
	if all := list(); len(all) != 1 || all[0].ID == first.ID {
		t.Errorf("after its end the table has %+v", all)
	}
	if _, found, err := table.RevokeOverride(ctx, first.ID); found || err != nil {
		t.Errorf("revoked after its end: %v, %v", found, err)
	}
	if back := set(add, time.Hour); back.Reason != "first" || len(list()) != 2 {
		t.Errorf("after its end it is set as %+v, %+v", back, list())
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() { set(store.Override{Effect: store.OverrideBlock}, time.Hour) })
	}
	wait.Wait()
	if all := list(); len(all) != 3 {
		t.Errorf("set by 8 at once there are %+v", all)
	}
}
