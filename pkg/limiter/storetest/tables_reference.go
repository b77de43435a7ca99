package storetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// tablesMatchTheReference counts denials, sets and revokes overrides and lets time pass, and checks that the tables have
// what those of a store in memory have. What that should be, the tests of package admin say.
func tablesMatchTheReference(t *testing.T, h Harness) {
	now := epoch.Truncate(time.Millisecond) // a store may keep only whole milliseconds
	clock := func() time.Time { return now }
	tables, _ := newTables(t, h, clock)
	reference := &memorystore.New(memorystore.WithClock(clock)).Tables
	versions := map[string]bool{}
	check(t, func(t *rapid.T) {
		now = now.Add(store.MaxOverrideTime + time.Hour) // so that nothing of the previous case is left
		last := ""
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, 20 * time.Second, admin.DenialPause,
				admin.DenialPause + time.Millisecond, time.Hour, time.Hour + time.Minute, 3 * time.Hour}).Draw(t, "pause"))
			inForce, _, err := reference.Overrides(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			changed := false
			switch what := rapid.IntRange(0, 4).Draw(t, "what"); {
			case what < 2:
				d := drawDenials(t)
				if err := cmp.Or(tables.AddDenials(context.Background(), d), reference.AddDenials(context.Background(), d)); err != nil {
					t.Fatal(err)
				}
			case what < 4:
				o := drawOverride(t)
				lasts := rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, time.Hour,
					store.MaxOverrideTime}).Draw(t, "lasts")
				changed = true
				sameAnswer(t, "set", tables, reference, func(tables *admin.Tables) (store.Override, bool, error) {
					set, err := tables.SetOverride(context.Background(), o, max(lasts, time.Millisecond))
					return set, true, err
				})
			case len(inForce) > 0:
				o := rapid.SampledFrom(inForce).Draw(t, "which")
				changed = true
				sameAnswer(t, "revoked", tables, reference, func(tables *admin.Tables) (store.Override, bool, error) {
					return tables.RevokeOverride(context.Background(), o.ID)
				})
			}
			last = sameOverrides(t, tables, reference, changed, last, versions)
		}
		span := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 10 * time.Minute, time.Hour,
			time.Hour + time.Microsecond, 10 * time.Hour, admin.DenialHistory}).Draw(t, "last")
		got, err := tables.Denials(context.Background(), span)
		want, err2 := reference.Denials(context.Background(), span)
		if err := cmp.Or(err, err2); err != nil {
			t.Fatal(err)
		}
		for _, rows := range [][]admin.Denied{got.Rows, want.Rows} { // of those denied as often, the order is free
			slices.SortStableFunc(rows, func(a, b admin.Denied) int {
				return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key.Subject, b.Key.Subject))
			})
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("of the last %s:\n%+v, want\n%+v", span, got, want)
		}
	})
}

// drawDenials draws denials by the clock of another process.
func drawDenials(t *rapid.T) admin.Denials {
	d := admin.Denials{Others: rapid.Int64Range(0, 2).Draw(t, "others"), Lost: rapid.Bool().Draw(t, "lost"), Now: store.InstantOf(epoch)}
	ago := func(what string) store.Instant {
		return rapid.SampledFrom([]store.Instant{0, 1, 3000, 299_999, 300_000, 300_001, 3_600_000}).Draw(t, what) * 1000
	}
	limits := []store.Limit{{}, {Algorithm: store.TokenBucket, Count: 10, Period: time.Minute, Burst: 20},
		{Algorithm: store.SlidingCounter, Count: 5, Period: time.Hour, Slices: 6}}
	for i := range rapid.IntRange(0, 4).Draw(t, "rows") {
		row := admin.Denied{Key: store.Key{Subject: fmt.Sprintf("user:%d", i), Name: "n"},
			Count: rapid.Int64Range(1, 1<<40).Draw(t, "count"), Allowed: rapid.Int64Range(0, 1<<40).Draw(t, "allowed"),
			LastAt: d.Now - ago("last"), Limit: rapid.SampledFrom(limits).Draw(t, "limit"),
			Override: rapid.SampledFrom([]string{"", "5y7qnswd", "8e2kd01x"}).Draw(t, "override")}
		row.Since = row.LastAt - ago("since")
		row.Compared = rapid.Int64Range(0, row.Count).Draw(t, "compared")
		row.Blocked = rapid.Int64Range(0, row.Count).Draw(t, "blocked")
		d.Rows = append(d.Rows, row)
	}
	ids := [][]string{nil, {"5y7qnswd"}, {"8e2kd01x", "5y7qnswd", "a: '\"\n*ü\xff"}} // a store takes any
	for _, id := range rapid.SampledFrom(ids).Draw(t, "overrides") {
		d.LetThrough = append(d.LetThrough, admin.LetThrough{Override: id, Count: rapid.Int64Range(1, 1<<40).Draw(t, "let through")})
	}
	return d
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

// sameAnswer checks that a change of an override answers with the same one.
func sameAnswer(t *rapid.T, what string, tables, reference *admin.Tables, change func(*admin.Tables) (store.Override, bool, error)) {
	t.Helper()
	got, found, err := change(tables)
	want, found2, err2 := change(reference)
	if err := cmp.Or(err, err2); err != nil || found != found2 || !sameOverride(&got, &want) {
		t.Fatalf("%s: %+v, %t, %v; want %+v, %t", what, got, found, err, want, found2)
	}
}

// sameOverride reports whether two overrides are equal, including their times.
func sameOverride(a, b *store.Override) bool {
	return a.ID == b.ID && a.Subjects.String() == b.Subjects.String() && a.Names.String() == b.Names.String() &&
		maps.Equal(a.Attributes, b.Attributes) && a.Effect == b.Effect && a.Limit == b.Limit && a.Thousandths == b.Thousandths &&
		a.Units == b.Units && a.Reason == b.Reason && a.By == b.By &&
		a.CreatedAt.Equal(b.CreatedAt) && a.ExpiresAt.Equal(b.ExpiresAt)
}

// sameOverrides checks the overrides of the table, and that the version is another one exactly if anything changed.
func sameOverrides(t *rapid.T, tables, reference *admin.Tables, changed bool, last string, versions map[string]bool) (version string) {
	t.Helper()
	got, of, err := tables.Overrides(context.Background())
	want, _, err2 := reference.Overrides(context.Background())
	same := func(a, b store.Override) bool { return sameOverride(&a, &b) }
	if err := cmp.Or(err, err2); err != nil || !slices.EqualFunc(got, want, same) {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	version, err = tables.OverrideVersion(context.Background())
	switch {
	case err != nil || version != of || (version == "") != (len(want) == 0):
		t.Fatalf("%d overrides of version %q, then version %q, %v", len(want), of, version, err)
	case version == "":
	case changed && versions[version]:
		t.Fatalf("version %q was there before", version)
	case !changed && version != last:
		t.Fatalf("version %q became %q, though nothing was set or revoked", last, version)
	}
	versions[version] = true
	return version
}
