package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// overrides runs the laws of an [admin.Tables], if the stores have one.
func overrides(t *testing.T, h Harness) {
	if _, has := admin.TablesOf(h.New(t, nil)); !has {
		return
	}
	t.Run("AreKept", func(t *testing.T) { t.Parallel(); overridesAreKept(t, h) })
	t.Run("AreBounded", func(t *testing.T) { t.Parallel(); overridesAreBounded(t, h) })
	t.Run("AreChecked", func(t *testing.T) { t.Parallel(); overridesAreChecked(t, h) })
	t.Run("EndByThemselves", func(t *testing.T) { t.Parallel(); overridesEndByThemselves(t, h) })
	t.Run("AreSetTogether", func(t *testing.T) { t.Parallel(); overridesAreSetTogether(t, h) })
	t.Run("AreOne", func(t *testing.T) { t.Parallel(); overridesAreOne(t, h) })
}

// drawOverride draws an override of any kind.
func drawOverride(t *rapid.T) store.Override {
	draw := func(what string, of ...string) store.Pattern {
		text := rapid.SampledFrom(of).Draw(t, what)
		if text == "" {
			return store.Pattern{}
		}
		p, err := store.ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	o := store.Override{
		Subjects: draw("subjects", "", "*", "user:42", "tenant:acme:*", `a\*b`, "user:[0-9]?", "<&>\"é"),
		Names:    draw("names", "", "api/*", "token-bucket/1m"),
		Effect:   store.OverrideEffect(rapid.IntRange(0, 4).Draw(t, "effect")),
		Reason:   rapid.SampledFrom([]string{"", "INC-7: a \"flood\" <é>"}).Draw(t, "reason"),
		By:       rapid.SampledFrom([]string{"", "ann@ops-1"}).Draw(t, "by"),
	}
	if rapid.Bool().Draw(t, "attributes") {
		o.Attributes = map[string]string{"tenant": "acme", "path": rapid.SampledFrom([]string{"/v1:{a}", "\xff%", "2001:db8::1"}).Draw(t,
			"path")}
	}
	switch o.Effect {
	case store.OverrideLimit:
		kind := rapid.SampledFrom(store.Kinds()).Draw(t, "kind")
		o.Limit, _ = randomLimit(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "limit"), 0)), kind).Normalize()
	case store.OverrideTimes:
		o.Thousandths = rapid.Int64Range(1, store.MaxOverrideThousandths).Draw(t, "thousandths")
	case store.OverrideAdd:
		o.Units = rapid.SampledFrom([]int64{1, -1, store.MaxCount, -store.MaxCount}).Draw(t, "units")
	case store.OverrideBlock, store.OverrideExempt:
	}
	return o
}

// isOneOverride reports whether two overrides have the same subjects and effect.
func isOneOverride(a, b *store.Override) bool {
	return a.Subjects.String() == b.Subjects.String() && a.Names.String() == b.Names.String() && maps.Equal(a.Attributes, b.Attributes) &&
		a.Effect == b.Effect && a.Limit == b.Limit && a.Thousandths == b.Thousandths && a.Units == b.Units
}

// sameOverride reports whether two overrides are equal, including their times.
func sameOverride(a, b *store.Override) bool {
	return a.ID == b.ID && a.Subjects.String() == b.Subjects.String() && a.Names.String() == b.Names.String() &&
		maps.Equal(a.Attributes, b.Attributes) && a.Effect == b.Effect && a.Limit == b.Limit && a.Thousandths == b.Thousandths &&
		a.Units == b.Units && a.Reason == b.Reason && a.By == b.By &&
		a.CreatedAt.Equal(b.CreatedAt) && a.ExpiresAt.Equal(b.ExpiresAt)
}

// overridesAreKept sets, revokes and outlives random overrides, and checks that exactly those in force are
// returned, with a new version after each change.
func overridesAreKept(t *testing.T, h Harness) {
	now := epoch
	table, _ := admin.TablesOf(h.New(t, func() time.Time { return now }))
	ctx := context.Background()
	versions := map[string]bool{}
	check(t, func(t *rapid.T) {
		now = now.Add(store.MaxOverrideTime + time.Hour) // so that those of the previous case have ended
		var want []store.Override
		last := ""
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 5000).Draw(t, "pause")) * time.Millisecond)
			kept := want[:0]
			for _, o := range want {
				if o.ExpiresAt.After(now) {
					kept = append(kept, o)
				}
			}
			want = kept
			changed := true
			switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
			case what > 0:
				o := drawOverride(t)
				lasts := time.Duration(rapid.Int64Range(1, 8000).Draw(t, "lasts")) * time.Millisecond
				set, err := table.SetOverride(ctx, o, lasts)
				if err != nil {
					t.Fatalf("%+v: %v", o, err)
				}
				if set.ExpiresAt.Sub(set.CreatedAt) != lasts || set.Left <= lasts-time.Millisecond || set.Left > lasts {
					t.Fatalf("from %s to %s, %s left, of %s", set.CreatedAt, set.ExpiresAt, set.Left, lasts)
				}
				o.ID, o.CreatedAt, o.ExpiresAt = set.ID, now.Truncate(time.Millisecond), now.Truncate(time.Millisecond).Add(lasts)
				if !sameOverride(&o, &set) {
					t.Fatalf("set %+v, returned %+v", o, set)
				}
				want = slices.DeleteFunc(want, func(before store.Override) bool {
					if same := isOneOverride(&before, &o); same != (before.ID == set.ID) {
						t.Fatalf("%+v and %+v are one: %v", before, set, same)
					}
					return before.ID == set.ID
				})
				if set.ExpiresAt.After(now) {
					want = append(want, set)
				}
			case len(want) > 0:
				i := rapid.IntRange(0, len(want)-1).Draw(t, "which")
				o, found, err := table.RevokeOverride(ctx, want[i].ID)
				if err != nil || !found || !sameOverride(&o, &want[i]) {
					t.Fatalf("revoked %+v, %v, %v; want %+v", o, found, err, want[i])
				}
				want = append(want[:i:i], want[i+1:]...)
			default:
				changed = false
			}
			last = checkOverrides(t, table, want, now, changed, last, versions)
		}
	})
}

// checkOverrides checks the overrides of the table, and that the version is new if anything changed.
func checkOverrides(t *rapid.T, table *admin.Tables, want []store.Override, now time.Time, changed bool, last string,
	versions map[string]bool) (version string) {
	t.Helper()
	got, of, err := table.Overrides(context.Background())
	if err != nil || len(got) != len(want) {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	for i := range got {
		if i > 0 && got[i].CreatedAt.After(got[i-1].CreatedAt) {
			t.Fatalf("not the newest first: %+v", got)
		}
		if left := got[i].ExpiresAt.Sub(now.Truncate(time.Microsecond)); got[i].Left > left || got[i].Left <= left-time.Millisecond {
			t.Fatalf("%s left, want %s", got[i].Left, left)
		}
		found := false
		for j := range want {
			found = found || sameOverride(&got[i], &want[j])
		}
		if !found {
			t.Fatalf("got %+v, want one of %+v", got[i], want)
		}
	}
	version, err = table.OverrideVersion(context.Background())
	if err != nil || version != of || (version == "") != (len(want) == 0) {
		t.Fatalf("%d overrides of version %q, then version %q, %v", len(want), of, version, err)
	}
	switch {
	case version == "":
	case changed && versions[version]:
		t.Fatalf("version %q was there before", version)
	case !changed && version != last:
		t.Fatalf("version %q became %q, though nothing was set or revoked", last, version)
	}
	versions[version] = true
	return version
}

// overridesAreBounded fills the table.
func overridesAreBounded(t *testing.T, h Harness) {
	now := epoch
	table, _ := admin.TablesOf(h.New(t, func() time.Time { return now }))
	ctx := context.Background()
	block := func(i int) store.Override {
		subject, err := store.ExactPattern(fmt.Sprintf("user:%d", i))
		if err != nil {
			t.Fatal(err)
		}
		return store.Override{Subjects: subject, Effect: store.OverrideBlock}
	}
	ids := map[string]bool{}
	for i := range admin.MaxOverrides {
		lasts := time.Hour
		if i == admin.MaxOverrides-1 {
			lasts = time.Minute
		}
		set, err := table.SetOverride(ctx, block(i), lasts)
		if err != nil {
			t.Fatal(err)
		}
		ids[set.ID] = true
	}
	if len(ids) != admin.MaxOverrides {
		t.Errorf("%d different IDs", len(ids))
	}
	before, err := table.OverrideVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = table.SetOverride(ctx, block(admin.MaxOverrides), time.Hour)
	if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), fmt.Sprint(admin.MaxOverrides)) {
		t.Errorf("one more: %v", err)
	}
	list, after, err := table.Overrides(ctx)
	if err != nil || len(list) != admin.MaxOverrides || after != before {
		t.Errorf("%d overrides of version %q, before %q; %v", len(list), after, before, err)
	}
	if _, err := table.SetOverride(ctx, block(0), time.Hour); err != nil {
		t.Errorf("one of them again: %v", err)
	}
	if before, err = table.OverrideVersion(ctx); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute + time.Millisecond)
	if after, err := table.OverrideVersion(ctx); err != nil || after != before {
		t.Errorf("after one has ended version %q is %q, %v", before, after, err)
	}
	if _, err := table.SetOverride(ctx, block(admin.MaxOverrides), time.Hour); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// overridesAreChecked checks that invalid overrides are refused, and that unknown IDs are reported.
func overridesAreChecked(t *testing.T, h Harness) {
	table, _ := admin.TablesOf(h.New(t, nil))
	ctx := context.Background()
	for _, id := range []string{"", "0", "00000000", "version", "../../..", "a:b*c\x00d", strings.Repeat("a", 1000)} {
		if _, found, err := table.RevokeOverride(ctx, id); found || err != nil {
			t.Errorf("revoking %q: %v, %v", id, found, err)
		}
	}
	many := map[string]string{}
	for i := range store.MaxOverrideAttributes + 1 {
		many[fmt.Sprintf("a%d", i)] = "b"
	}
	for _, o := range []store.Override{
		{Effect: 99},
		{Effect: store.OverrideLimit},
		{Effect: store.OverrideLimit, Limit: store.Limit{Count: 1, Period: time.Nanosecond}},
		{Effect: store.OverrideTimes},
		{Effect: store.OverrideTimes, Thousandths: store.MaxOverrideThousandths + 1},
		{Effect: store.OverrideAdd},
		{Effect: store.OverrideAdd, Units: -store.MaxCount - 1},
		{Effect: store.OverrideBlock, Reason: "a\nb"},
		{Effect: store.OverrideBlock, Reason: strings.Repeat("a", store.MaxOverrideText+1)},
		{Effect: store.OverrideBlock, By: "\xff"},
		{Effect: store.OverrideBlock, Attributes: many},
		{Effect: store.OverrideBlock, Attributes: map[string]string{"tenant": ""}},
	} {
		if _, err := table.SetOverride(ctx, o, time.Hour); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, lasts := range []time.Duration{0, -time.Hour, store.MaxOverrideTime + 1} {
		if _, err := table.SetOverride(ctx, store.Override{Effect: store.OverrideBlock}, lasts); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("for %s: %v", lasts, err)
		}
	}
	if list, version, err := table.Overrides(ctx); len(list) > 0 || version != "" || err != nil {
		t.Errorf("%+v, %q, %v", list, version, err)
	}
}

// overridesEndByThemselves uses the store's own clock.
func overridesEndByThemselves(t *testing.T, h Harness) {
	backend := h.New(t, nil)
	table, _ := admin.TablesOf(backend)
	ctx := context.Background()
	before := h.dump(t, backend)
	set, err := table.SetOverride(ctx, store.Override{Effect: store.OverrideBlock}, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	all, err := store.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	for entry, err := range scan(ctx, backend, admin.Query{Subjects: all}) {
		t.Errorf("a scan finds %+v, %v", entry, err)
	}
	for began := time.Now(); ; {
		version, err := table.OverrideVersion(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if version == "" {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%+v has not ended", set)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if list, version, err := table.Overrides(ctx); len(list) > 0 || version != "" || err != nil {
		t.Errorf("%+v, %q, %v", list, version, err)
	}
	if _, found, err := table.RevokeOverride(ctx, set.ID); found || err != nil {
		t.Errorf("revoked after its end: %v, %v", found, err)
	}
	if h.DropsEnded {
		if after := h.dump(t, backend); after != before {
			t.Errorf("left behind: %s", after)
		}
	}
}
