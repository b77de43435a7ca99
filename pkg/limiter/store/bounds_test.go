package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// All that bounds an override, at the bound and beside it.
func TestBoundsOfAnOverride(t *testing.T) {
	attributes := func(n int) map[string]string {
		attributes := map[string]string{}
		for i := range n {
			attributes[fmt.Sprint("name", i)] = "v"
		}
		return attributes
	}
	named := func(name, value string) store.Override {
		return store.Override{Effect: store.OverrideBlock, Attributes: map[string]string{name: value}}
	}
	times := func(n int64) store.Override { return store.Override{Effect: store.OverrideTimes, Thousandths: n} }
	add := func(n int64) store.Override { return store.Override{Effect: store.OverrideAdd, Units: n} }
	text := func(n int) string { return strings.Repeat("x", n) }
	block := store.Override{Effect: store.OverrideBlock}
	for _, test := range []struct {
		name  string
		o     store.Override
		lasts time.Duration
		fits  bool
	}{
		{"shortest", block, time.Millisecond, true}, {"too short", block, time.Millisecond - 1, false},
		{"longest", block, 30 * 24 * time.Hour, true}, {"too long", block, 30*24*time.Hour + 1, false},
		{"16 attributes", store.Override{Effect: store.OverrideBlock, Attributes: attributes(16)}, time.Hour, true},
		{"17 attributes", store.Override{Effect: store.OverrideBlock, Attributes: attributes(17)}, time.Hour, false},
		{"a long attribute", named(text(256), text(256)), time.Hour, true},
		{"a value too long", named("n", text(257)), time.Hour, false},
		{"a long reason", store.Override{Effect: store.OverrideBlock, Reason: text(500), By: text(500)}, time.Hour,
			true},
		{"a reason too long", store.Override{Effect: store.OverrideBlock, Reason: text(501)}, time.Hour, false},
		{"a million times", times(1_000_000_000), time.Hour, true},
		{"more times", times(1_000_000_001), time.Hour, false},
		{"the most units", add(store.MaxCount), time.Hour, true},
		{"more units", add(store.MaxCount + 1), time.Hour, false},
		{"the most units less", add(-store.MaxCount), time.Hour, true},
		{"no units", add(0), time.Hour, false},
		{"the last effect", store.Override{Effect: store.OverrideExempt}, time.Hour, true},
		{"no effect", store.Override{Effect: store.OverrideExempt + 1}, time.Hour, false},
		{"two lines", store.Override{Effect: store.OverrideBlock, Reason: "a\nb"}, time.Hour, false},
		{"no text", store.Override{Effect: store.OverrideBlock, By: "\xff"}, time.Hour, false},
	} {
		if err := test.o.Check(test.lasts); (err == nil) != test.fits || err != nil &&
			!errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v; want it to fit: %v", test.name, err, test.fits)
		}
	}
}

// All that bounds a request, at the bound and beside it.
func TestBoundsOfARequest(t *testing.T) {
	one := func(change func(*store.Request)) store.Request {
		r := store.Request{Key: store.Key{Subject: "u"}, Limit: store.Limit{Count: store.MaxCount, Period: time.Hour},
			Cost: 1}
		change(&r)
		return r
	}
	for _, test := range []struct {
		name string
		op   store.Op
		r    store.Request
		fits bool
	}{
		{"the greatest cost", store.Charge, one(func(r *store.Request) { r.Cost = store.MaxCount }), true},
		{"a greater cost", store.Charge, one(func(r *store.Request) { r.Cost = store.MaxCount + 1 }), false},
		{"all at once", store.Take, one(func(r *store.Request) { r.Limit.Count, r.Cost = 5, 5 }), true},
		{"more than all at once", store.Take, one(func(r *store.Request) { r.Limit.Count, r.Cost = 5, 6 }), false},
		{"more than all, by a shadow", store.Take,
			one(func(r *store.Request) { r.Limit.Count, r.Cost, r.Shadow = 5, 6, true }), true},
		{"adjusted to nothing", store.Adjust, one(func(r *store.Request) { r.Cost = 0 }), true},
		{"settled at nothing", store.Settle, one(func(r *store.Request) { r.Cost, r.Token = 0, "t" }), true},
		{"the last instant", store.Refund, one(func(r *store.Request) { r.NotAfter = store.MaxInstant }), true},
		{"after the last instant", store.Refund, one(func(r *store.Request) { r.NotAfter = store.MaxInstant + 1 }),
			false},
		{"a take with a last instant", store.Take, one(func(r *store.Request) { r.NotAfter = 1 }), false},
		{"the longest token", store.Take, one(func(r *store.Request) { r.Token = strings.Repeat("t", 200) }), true},
		{"a longer token", store.Take, one(func(r *store.Request) { r.Token = strings.Repeat("t", 201) }), false},
		{"remembered for a day", store.Take, one(func(r *store.Request) { r.Token, r.TokenTTL = "t", 24*time.Hour }),
			true},
		{"for longer", store.Take, one(func(r *store.Request) { r.Token, r.TokenTTL = "t", 24*time.Hour+1 }), false},
		{"no UTF-8", store.Take, one(func(r *store.Request) { r.Token = "\xff" }), false},
		{"settled without a token", store.Settle, one(func(*store.Request) {}), false},
		{"for less", store.Take, one(func(r *store.Request) { r.Token, r.TokenTTL = "t", time.Millisecond-1 }), false},
	} {
		if err := test.r.Normalize(test.op); (err == nil) != test.fits || err != nil &&
			!errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v; want it to fit: %v", test.name, err, test.fits)
		}
	}
	for n, fits := range map[int]bool{0: false, 1: true, store.MaxRequests: true, store.MaxRequests + 1: false} {
		var reqs []store.Request
		for i := range n {
			reqs = append(reqs, one(func(r *store.Request) { r.Key.Subject = fmt.Sprint(i) }))
		}
		if _, err := store.NormalizeAll(nil, store.Take, reqs); (err == nil) != fits {
			t.Errorf("%d requests: %v; want them to fit: %v", n, err, fits)
		}
	}
}

// The longest record is one of a log of the most entries, and a longer value is none.
func TestTheLongestRecord(t *testing.T) {
	limit := normal(t, store.Limit{Algorithm: store.SlidingLog, Count: store.MaxSlidingLogCount, Period: time.Hour})
	var s store.State
	take(&s, limit, 1, 1e15)
	value := append(s.AppendRecord(nil), make([]byte, store.MaxRecordSize)...)
	for size, want := range map[int]store.Limit{store.MaxRecordSize: limit, store.MaxRecordSize + 1: {}} {
		if got, err := store.DecodeRecordLimit(value[:size]); got != want || (err == nil) != (want == limit) {
			t.Errorf("%d bytes: %+v, %v", size, got, err)
		}
	}
}

// What is remembered of a token is for one operation on these keys and limits, and for nothing that looks like them.
func TestWhatATokenStandsFor(t *testing.T) {
	digests := map[store.TokenDigest]string{}
	limit := normal(t, store.Limit{Count: 5, Period: time.Hour})
	with := func(subject, name string, change func(*store.Request)) store.Request {
		r := store.Request{Key: store.Key{Subject: subject, Name: name}, Limit: limit}
		change(&r)
		return r
	}
	as := func(*store.Request) {}
	shadow := func(r *store.Request) { r.Shadow = true }
	for name, reqs := range map[string][]store.Request{
		"one":                    {with("a", "bc", as)},
		"a letter further":       {with("ab", "c", as)},
		"a shadow":               {with("a", "bc", shadow)},
		"another limit":          {with("a", "bc", func(r *store.Request) { r.Limit.Count = 6 })},
		"another burst":          {with("a", "bc", func(r *store.Request) { r.Limit.Burst = 6 })},
		"two":                    {with("a", "b", as), with("c", "d", as)},
		"the other way round":    {with("c", "d", as), with("a", "b", as)},
		"the first is a shadow":  {with("a", "b", shadow), with("c", "d", as)},
		"the second is a shadow": {with("a", "b", as), with("c", "d", shadow)},
	} {
		digest := store.TokenDigestOf(reqs)
		if other, has := digests[digest]; has {
			t.Errorf("%s and %s have one digest", name, other)
		}
		digests[digest] = name
	}
	for length, is := range map[int]bool{64: true, 65: false} {
		token := strings.Repeat("t", length)
		if name := store.TokenName(token); (name == "token:"+token) != is || len(name) > 77 {
			t.Errorf("a token of %d bytes is called %q", length, name)
		}
	}
}
