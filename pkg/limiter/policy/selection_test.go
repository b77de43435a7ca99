package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// names of operators: few, so that selections often match keys.
var (
	policyNames    = rapid.SampledFrom([]string{"api", "apix", "login", "a-b"})
	limitNames     = rapid.SampledFrom([]string{"l", "lx", "user-route", "p_1"})
	attributeNames = rapid.SampledFrom([]string{"tenant", "user", "ip", "tenant2"})
	// Values that are similar, share a beginning, or contain characters of globs.
	values = rapid.OneOf(rapid.SampledFrom(
		[]string{"*", "a[b]?", `\`, "%", "a:b", "acme", "acmee", "acme:user:1", "1", "{", "\n",
			"\xff", "2001:db8::7", "::1",
			"2001:db8::7:user:1", "x:tenant:acme", "[", "]", "^", "-", "%3A", "%2A"}), value())
)

// policies generates distinct policies without problems.
func policies() *rapid.Generator[[]*Policy] {
	return rapid.Custom(func(t *rapid.T) []*Policy {
		var all []*Policy
		for _, name := range rapid.SliceOfNDistinct(policyNames, 1, 3, rapid.ID[string]).Draw(t, "policies") {
			p := &Policy{Name: name}
			if rapid.Bool().Draw(t, "hashed") {
				p.HashBy = rapid.SliceOfNDistinct(attributeNames, 1, 2, rapid.ID[string]).Draw(t, "hash_by")
			}
			for _, limit := range rapid.SliceOfNDistinct(limitNames, 1, 3, rapid.ID[string]).Draw(t, "limits") {
				by := slices.Clone(p.HashBy)
				for _, name := range rapid.SliceOfNDistinct(attributeNames, 1, 3, rapid.ID[string]).Draw(t, "by") {
					if !slices.Contains(by, name) {
						by = append(by, name)
					}
				}
				p.Limits = append(p.Limits, Limit{Limit: limiter.Per(limit, 10, time.Hour), By: by})
			}
			if problems := p.Problems(); len(problems) > 0 {
				t.Fatal(problems)
			}
			all = append(all, p)
		}
		return all
	})
}

// A query of a selection finds exactly the keys that the selection matches, and these are exactly the keys with
// such attributes: with known policies, when keys can be named directly, and without.
func TestQuerySelectsWhatMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		backend := memorystore.New()
		defer backend.Close()
		known := policies().Draw(t, "known")
		pool := rapid.SliceOfN(values, 1, 4).Draw(t, "values")
		written := map[store.Key]func(*Selection) bool{}
		for range rapid.IntRange(1, 30).Draw(t, "keys") {
			p := rapid.SampledFrom(known).Draw(t, "policy of the key")
			l := &p.Limits[rapid.IntRange(0, len(p.Limits)-1).Draw(t, "limit of the key")]
			attributes := Attributes{}
			for _, name := range l.By {
				attributes[name] = rapid.SampledFrom(pool).Draw(t, name)
			}
			key := p.Key(l, attributes)
			if got := LimitName(key); got != p.Name+"/"+l.Name {
				t.Fatalf("the limit of %q is called %q", key, got)
			}
			written[key] = func(s *Selection) bool {
				return matches(s.Policies, p.Name) && matches(s.Limits, l.Name) && attributes.has(s.Attributes)
			}
			take(t, backend, key)
		}
		for _, value := range pool { // similar keys of others
			for _, subject := range []string{"tenant:" + value, value} {
				key := store.Key{Subject: subject, Name: "token-bucket/1h"}
				if key.Validate() == nil {
					written[key] = func(*Selection) bool { return false }
					take(t, backend, key)
				}
			}
		}

		s := Selection{Attributes: Attributes{}}
		for _, name := range rapid.SliceOfNDistinct(attributeNames, 0, 3, rapid.ID[string]).Draw(t, "selected by") {
			s.Attributes[name] = rapid.SampledFrom(pool).Draw(t, "selected "+name)
		}
		pattern := func(names *rapid.Generator[string], label string) store.Pattern {
			text := rapid.OneOf(names, rapid.SampledFrom([]string{"", "*", "a*", "[la]*", "?"})).Draw(t, label)
			if text == "" {
				return store.Pattern{}
			}
			p, err := store.ParsePattern(text)
			tier.Must(t, err)
			return p
		}
		s.Policies, s.Limits = pattern(policyNames, "selected policies"), pattern(limitNames, "selected limits")

		whole := wholeSelection(t, known, pool) // its keys are named directly
		for _, s := range []*Selection{&s, whole} {
			want := map[store.Key]bool{}
			for key, isMeant := range written {
				if s.Match(key) != isMeant(s) {
					t.Fatalf("Match(%q) is %t", key, s.Match(key))
				}
				if isMeant(s) {
					want[key] = true
				}
			}
			for _, hand := range [][]*Policy{nil, known} {
				q, err := s.Query(hand)
				if errors.Is(err, store.ErrInvalid) && len(want) == 0 && hand != nil {
					continue // no limit uses that attribute
				}
				tier.Must(t, err)
				if s == whole && (q.Keys == nil) != (hand == nil) {
					t.Fatalf("with %d policies known it looks at the keys %q", len(hand), q.Keys)
				}
				got := map[store.Key]bool{}
				for entry, err := range backend.Scan(context.Background(), q) {
					tier.Must(t, err)
					got[entry.Key] = true
				}
				if !maps.Equal(got, want) {
					t.Fatalf("with %d policies known, %+v finds\n%q, want\n%q", len(hand), q,
						slices.Collect(maps.Keys(got)),
						slices.Collect(maps.Keys(want)))
				}
			}
		}
	})
}

// wholeSelection selects one limit of a policy, with a value for each of its attributes.
func wholeSelection(t *rapid.T, known []*Policy, pool []string) *Selection {
	p := rapid.SampledFrom(known).Draw(t, "policy")
	l := &p.Limits[rapid.IntRange(0, len(p.Limits)-1).Draw(t, "limit")]
	s := &Selection{Attributes: Attributes{}}
	for _, name := range l.By {
		s.Attributes[name] = rapid.SampledFrom(pool).Draw(t, "whole "+name)
	}
	var err error
	if s.Policies, err = store.ExactPattern(p.Name); err != nil {
		t.Fatal(err)
	}
	if s.Limits, err = store.ExactPattern(l.Name); err != nil {
		t.Fatal(err)
	}
	return s
}

// A glob as the policy finds keys of an earlier configuration, since the current configuration then does not narrow
// the search.
func TestQueryOfAnEarlierConfiguration(t *testing.T) {
	limit := store.Limit{Count: 10, Period: time.Hour}
	before := &Policy{Name: "api", Limits: []Limit{
		{Limit: limiter.LimitOf("gone", limit), By: []string{"user", "tenant"}},
	}}
	now := &Policy{Name: "api", HashBy: []string{"tenant"}, Limits: []Limit{
		{Limit: limiter.LimitOf("l", limit), By: []string{"tenant"}},
	}}
	key := before.Key(&before.Limits[0], Attributes{"tenant": "acme", "user": "7"})
	for text, want := range map[string]bool{"api": false, "api*": true} {
		name, err := store.ParsePattern(text)
		tier.Must(t, err)
		s := Selection{Policies: name, Attributes: Attributes{"tenant": "acme"}}
		q, err := s.Query([]*Policy{now})
		if err != nil || (q.Keys == nil) != want || want && !q.Selects(key) {
			t.Errorf("--policy %s: %+v, %v", text, q, err)
		}
	}
}

func take(t *rapid.T, backend store.Store, key store.Key) {
	if _, err := storecall.New(backend).Take(context.Background(), key, store.Limit{Count: 1000, Period: time.Hour},
		1); err != nil {
		t.Fatal(fmt.Errorf("%q: %w", key, err))
	}
}
