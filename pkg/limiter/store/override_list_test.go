package store_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func mustPattern(tb rapid.TB, text string) store.Pattern {
	tb.Helper()
	if text == "" {
		return store.Pattern{}
	}
	p, err := store.ParsePattern(text)
	must(tb, err)
	return p
}

// literal is how many characters all subjects of a pattern begin with.
func literal(pattern string) int {
	if before, _, is := strings.Cut(pattern, "0/24"); is {
		return len(before) // the octets that the network fixes
	}
	if i := strings.IndexAny(pattern, "*?["); i >= 0 {
		return i
	}
	return len(pattern)
}

// comesBefore is the rule of which override wins, word by word.
func comesBefore(a, b *store.Override) bool {
	class := func(o *store.Override) int {
		return map[store.OverrideEffect]int{store.OverrideBlock: -2, store.OverrideExempt: -1}[o.Effect]
	}
	isExact := func(o *store.Override) bool {
		return !o.Subjects.IsZero() && bits(o) < 0 && literal(o.Subjects.String()) == len(o.Subjects.String())
	}
	for _, difference := range []int{
		class(b) - class(a),
		map[bool]int{true: 1}[isExact(a)] - map[bool]int{true: 1}[isExact(b)],
		bits(a) - bits(b),
		literal(a.Subjects.String()) - literal(b.Subjects.String()),
		len(a.Attributes) - len(b.Attributes),
		map[bool]int{false: 1}[a.Names.IsZero()] - map[bool]int{false: 1}[b.Names.IsZero()],
		a.CreatedAt.Compare(b.CreatedAt),
		strings.Compare(b.ID, a.ID),
	} {
		if difference != 0 {
			return difference > 0
		}
	}
	return false
}

// bits is how many the network of an override has, and below 0 if it has none.
func bits(o *store.Override) int {
	if _, text, is := strings.Cut(o.Subjects.String(), "/"); is {
		n, _ := strconv.Atoi(text)
		return n
	}
	return -1
}

// isAbout tells by package policy whether an override is about a key.
func isAbout(o *store.Override, key store.Key) bool {
	parts, isPolicys := policy.ParseKey(key)
	nameFits := o.Names.IsZero() || o.Names.Match(key.Name) || isPolicys && o.Names.Match(parts.LimitName())
	return (o.Subjects.IsZero() || o.Subjects.Match(key.Subject)) && nameFits &&
		(len(o.Attributes) == 0 || (&policy.Selection{Attributes: o.Attributes}).Match(key))
}

// For any overrides and key, the one that is found is the first of all by the rule.
func TestTheFirstOverrideByTheRuleApplies(t *testing.T) {
	subjects := []string{"", "*", "user:*", "user:4*", "user:42", "user:[0-9]*", "tenant:acme", "tenant:acme*",
		"tenant:acme:user:7", "*:7",
		"te?ant:*", "ip:2001:db8::1", "ip:2001:db8::/32", "ip:2001:db8::/127", "ip:203.0.113.0/24", "ip:203.0.113.8/31",
		"ip:203.0.0.0/16",
		"*:203.0.113.0/24", "ip:203.0.*", "ip:203.0.113.9"}
	names := []string{"", "api/*", "api/user", "token-bucket/1m"}
	attributes := []map[string]string{nil, nil, {"tenant": "acme"}, {"tenant": "acme", "user": "7"}, {"user": "7"},
		{"ip": "2001:db8::1"},
		{"tenant": "acme2"}, {"tenant": "a:c%"}}
	keys := []store.Key{
		{Subject: "user:42", Name: "token-bucket/1m"}, {Subject: "user:7", Name: "api/user"},
		{Subject: "tenant:acme", Name: "api/user"},
		{Subject: "tenant:acme2", Name: "api/user"}, {Subject: "tenant:acme:user:7", Name: "api/user"},
		{Subject: "tenant:acme", Name: "api/user:user:7"}, {Subject: "tenant:acme", Name: "api/user:user:77"},
		{Subject: "ip:2001:db8::1", Name: "login/ip"}, {Subject: "ip:2001:db8::11", Name: "login/ip"},
		{Subject: "ip:2001%3Adb8%3A%3A1:user:7", Name: "login/ip"}, {Subject: "tenant:a%3Ac%25", Name: "api/user"},
		{Subject: "ip:203.0.113.9", Name: "login/ip"}, {Subject: "ip:203.0.113.10", Name: "login/ip"},
		{Subject: "ip:203.0.113.0/24", Name: "login/ip"},
		{Subject: "ip:203.0.112.9", Name: "login/ip"}, {Subject: "ip:203.0.112.0/23", Name: "login/ip"},
		{Subject: "tenant:a:ip:203.0.113.9", Name: "login/ip"}, {Subject: "ip:2001%3Adb8%3A%3A/64", Name: "login/ip"},
		{Subject: "xtenant:acme", Name: "api/user"}, {Subject: "tenant:acme", Name: "token-bucket/1m"},
	}
	applied := 0
	rapid.Check(t, func(t *rapid.T) {
		var all []store.Override
		for i := range rapid.IntRange(0, 12).Draw(t, "overrides") {
			pattern := func(what string, of []string) store.Pattern {
				return mustPattern(t, rapid.SampledFrom(of).Draw(t, what))
			}
			all = append(all, store.Override{
				ID: fmt.Sprint(i), Subjects: pattern("subjects", subjects), Names: pattern("names", names),
				Attributes: rapid.SampledFrom(attributes).Draw(t, "attributes"),
				Effect:     store.OverrideEffect(rapid.IntRange(0, 4).Draw(t, "effect")),
				CreatedAt:  time.Unix(rapid.Int64Range(0, 2).Draw(t, "created"), 0),
			})
		}
		list := store.NewOverrideList(all)
		for _, key := range keys {
			if checkApplies(t, list, all, key) {
				applied++
			}
		}
	})
	if applied == 0 {
		t.Error("none ever applied")
	}
}

// checkApplies wants list to find the first of all that are about key, and reports whether there is one.
func checkApplies(t *rapid.T, list *store.OverrideList, all []store.Override, key store.Key) bool {
	t.Helper()
	want, got := "", ""
	for i := range all {
		about := isAbout(&all[i], key)
		if all[i].Matches(key) != about {
			t.Fatalf("%+v matches %s: %v", all[i], key, !about)
		}
		if about && (want == "" || comesBefore(&all[i], find(all, want))) {
			want = all[i].ID
		}
	}
	if o := list.For(key); o != nil {
		got = o.ID
	}
	if got != want {
		t.Fatalf("%s: %q applies, want %q, of %+v", key, got, want, all)
	}
	return got != ""
}

func find(overrides []store.Override, id string) *store.Override {
	i := slices.IndexFunc(overrides, func(o store.Override) bool { return o.ID == id })
	return &overrides[i]
}

// What an override makes of a limit is a limit, and the more it gives the more is allowed.
func TestAnOverriddenLimitIsWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(store.Kinds()).Draw(t, "kind")
		limit := store.Limit{Algorithm: kind.Algorithm(), Count: rapid.Int64Range(1, kind.Algorithm().MaxCount()).Draw(
			t, "count"),
			Period: rapid.SampledFrom([]time.Duration{time.Millisecond, time.Minute, store.MaxPeriod}).Draw(
				t, "period")}
		if limit.Algorithm.HasBurst() && rapid.Bool().Draw(t, "has burst") {
			limit.Burst = rapid.Int64Range(1, store.MaxCount).Draw(t, "burst")
		}
		normalized, err := limit.Normalize()
		if err != nil {
			t.Skip()
		}
		times := store.Override{Effect: store.OverrideTimes, Thousandths: rapid.OneOf(rapid.Int64Range(1, 5000),
			rapid.Int64Range(1, store.MaxOverrideThousandths)).Draw(t, "thousandths")}
		add := store.Override{Effect: store.OverrideAdd, Units: rapid.Int64Range(-store.MaxCount, store.MaxCount).Draw(
			t, "units")}
		for _, o := range []store.Override{times, add} {
			for _, from := range []store.Limit{limit, normalized} {
				got, err := o.Apply(from).Normalize()
				if err != nil {
					t.Fatalf("%s under %+v: %v", from, o, err)
				}
				if got.Algorithm != normalized.Algorithm || got.Period != normalized.Period ||
					got.Slices != normalized.Slices {
					t.Fatalf("%s under %+v is %s", from, o, got)
				}
			}
		}
		var none *store.Override
		for _, o := range []*store.Override{none, {Effect: store.OverrideBlock}, {Effect: store.OverrideExempt}} {
			if got := o.Apply(limit); got != limit {
				t.Fatalf("%s under %+v is %s", limit, o, got)
			}
		}
		most := normalized.Algorithm.MaxCount()
		if got := times.Apply(normalized).Count; got > 1 && got < most &&
			got != normalized.Count*times.Thousandths/1000 {
			t.Fatalf("%s times %d/1000 has a count of %d", normalized, times.Thousandths, got)
		}
		if got := add.Apply(normalized).Count; got > 1 && got < most && got != normalized.Count+add.Units {
			t.Fatalf("%s and %d has a count of %d", normalized, add.Units, got)
		}
	})
}

// must ends the test on an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
