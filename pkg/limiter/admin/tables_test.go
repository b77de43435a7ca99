package admin_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// epoch is the beginning of virtual time.
var epoch = time.Date(2026, 3, 29, 0, 59, 59, 123_457_000, time.UTC)

// newTables returns the tables of a store in memory.
func newTables(clock func() time.Time) *admin.Tables {
	return &memorystore.New(memorystore.WithClock(clock)).Tables
}

// Setting the same override again keeps its ID, and takes the new end, reason and author.
func TestTheSameOverrideIsOne(t *testing.T) {
	now := epoch
	table := newTables(func() time.Time { return now })
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
		if len(all) != 2 || at < 0 || !reflect.DeepEqual(all[at], got) {
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
}

// A step is kept as long as one of its instants is within the history of its length,
// even if others are added then, and a row as long as its last denial is.
func TestDenialsAreKeptByStep(t *testing.T) {
	for _, step := range []struct{ length, history time.Duration }{
		{time.Minute, admin.DenialMinutes}, {10 * time.Minute, admin.DenialHistory},
	} {
		begin := epoch.Truncate(step.length)
		now := begin.Add(40 * time.Second)
		table := newTables(func() time.Time { return now })
		ctx := context.Background()
		of := func(subject string) admin.Denials {
			at := store.InstantOf(now)
			row := admin.Denied{Key: store.Key{Subject: subject, Name: "n"}, Count: 1, LastAt: at}
			return admin.Denials{Rows: []admin.Denied{row}, Others: 1, Now: at}
		}
		if err := table.AddDenials(ctx, of("old")); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			after        time.Duration // from the beginning of the step
			rows, others int64
		}{
			{step.history + 40*time.Second - time.Millisecond, 1, 1},
			{step.history + 40*time.Second, 0, 1},
			{step.history + step.length - time.Millisecond, 0, 1},
			{step.history + step.length, 0, 0},
		} {
			now = begin.Add(test.after)
			before, err := table.Denials(ctx, step.history)
			if err != nil {
				t.Fatal(err)
			}
			if rows := int64(len(before.Rows)); rows != test.rows || before.Others != test.others {
				t.Errorf("%s after the step began: %+v; want %d rows, %d others", test.after, before, test.rows,
					test.others)
			}
		}
		now = begin.Add(step.history + 39*time.Second)
		if err := table.AddDenials(ctx, of("new")); err != nil {
			t.Fatal(err)
		}
		if d, err := table.Denials(ctx, step.history); err != nil || len(d.Rows) != 2 || d.Others != 2 {
			t.Errorf("%s after the step began, others being added: %+v, %v", step.history, d, err)
		}
	}
}

// Invalid denials are refused.
func TestDenialsAreChecked(t *testing.T) {
	table := newTables(time.Now)
	ctx := context.Background()
	key := store.Key{Subject: "user:42", Name: "n"}
	long := store.Key{Subject: strings.Repeat("é", 101), Name: "n"}
	for _, d := range []admin.Denials{
		{Rows: make([]admin.Denied, admin.MaxDenialRows+1)},
		{Rows: []admin.Denied{{Key: long, Count: 1}}},
		{Rows: []admin.Denied{{Key: store.Key{Subject: "a\x00b", Name: "n"}, Count: 1}}},
		{Rows: []admin.Denied{{Key: key, Count: 0}}},
		{Rows: []admin.Denied{{Key: key, Count: 1}, {Key: key, Count: 1}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Blocked: 2}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Allowed: -1}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Compared: 2}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Override: "a\x00b"}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Override: strings.Repeat("i", admin.MaxDenialText+1)}}},
		{Rows: []admin.Denied{{Key: key, Count: 1, Limit: store.Limit{Count: -1, Period: time.Second}}}},
		{Others: -1},
	} {
		if err := table.AddDenials(ctx, d); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%.80v: %v", d, err)
		}
	}
	for _, last := range []time.Duration{0, -time.Second, admin.DenialHistory + 1} {
		if _, err := table.Denials(ctx, last); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("the last %s: %v", last, err)
		}
	}
	shortened := admin.Denied{Key: long, Count: 1}
	shortened.Shorten()
	fits := admin.Denied{Key: store.Key{Subject: strings.Repeat("s", admin.MaxDenialText)}}
	if fits.Shorten(); strings.Trim(fits.Key.Subject, "s") != "" {
		t.Errorf("what fits is shortened to %q", fits.Key.Subject)
	}
	shortened.Override = strings.Repeat("i", admin.MaxDenialText)
	if err := table.AddDenials(ctx, admin.Denials{Rows: []admin.Denied{shortened}}); err != nil {
		t.Errorf("%q: %v", shortened.Key.Subject, err)
	}
	if got, err := table.Denials(ctx, time.Hour); err != nil || len(got.Rows) != 1 ||
		got.Rows[0].Key != shortened.Key || !got.Exact() {
		t.Errorf("%+v, %v", got, err)
	}
}

// An override is read back as it was set, of whatever kind.
func TestAnOverrideIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawOverride(t)
		table := newTables(func() time.Time { return epoch })
		set, err := table.SetOverride(context.Background(), want, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		list, _, err := table.Overrides(context.Background())
		if err != nil || len(list) != 1 || list[0].ID != set.ID {
			t.Fatalf("%+v, %v", list, err)
		}
		got := list[0]
		want.ID, want.CreatedAt, want.ExpiresAt, want.Left = set.ID, epoch.Truncate(time.Millisecond), set.ExpiresAt,
			got.Left
		if !got.CreatedAt.Equal(want.CreatedAt) || got.ExpiresAt.Sub(got.CreatedAt) != time.Hour ||
			got.Subjects.String() != want.Subjects.String() || got.Names.String() != want.Names.String() ||
			!maps.Equal(got.Attributes, want.Attributes) || got.Effect != want.Effect || got.Limit != want.Limit ||
			got.Thousandths != want.Thousandths || got.Units != want.Units || got.Reason != want.Reason ||
			got.By != want.By {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// drawOverride draws an override of any kind.
func drawOverride(t *rapid.T) store.Override {
	draw := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	pattern := func(text string) (p store.Pattern) {
		if text != "" {
			p, _ = store.ParsePattern(text)
		}
		return p
	}
	o := store.Override{
		Subjects: pattern(draw("subjects", "", "*", "user:42", "tenant:acme:*", `a\*b`, "user:[0-9]?", "<&>\"é")),
		Names:    pattern(draw("names", "", "api/*", "token-bucket/1m")),
		Effect:   store.OverrideEffect(rapid.IntRange(0, 4).Draw(t, "effect")),
		Reason:   draw("reason", "", "INC-7: a \"flood\" <é>"),
		By:       draw("by", "", "ann@ops-1"),
	}
	if rapid.Bool().Draw(t, "attributes") {
		o.Attributes = map[string]string{"tenant": "acme", "path": draw("path", "/v1:{a}", "\xff%", "2001:db8::1")}
	}
	switch o.Effect {
	case store.OverrideLimit:
		kind := rapid.SampledFrom(store.Kinds()).Draw(t, "kind")
		count := rapid.Int64Range(1, kind.Algorithm().MaxCount()).Draw(t, "count")
		period := rapid.SampledFrom([]time.Duration{time.Hour, 24 * time.Hour}).Draw(t, "period")
		o.Limit, _ = storetest.LimitOf(kind, count, period).Normalize()
	case store.OverrideTimes:
		o.Thousandths = rapid.Int64Range(1, store.MaxOverrideThousandths).Draw(t, "thousandths")
	case store.OverrideAdd:
		o.Units = rapid.SampledFrom([]int64{1, -1, store.MaxCount, -store.MaxCount}).Draw(t, "units")
	case store.OverrideBlock, store.OverrideExempt:
	}
	return o
}
