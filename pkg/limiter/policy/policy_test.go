package policy

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// awkward generates parts of values that careless joining would confuse with separators.
func awkward() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{":", "%", "{", "}", "%3A", "%25", "a", "b", "ip", "::1", "2001:db8::7",
			"fe80::1%eth0",
			"::ffff:10.0.0.1", "/", "a:b", "user:7",
			"\x00", "\n", "\x7f", "\u0085", "\xff", "\xc3", "é", "用户", "1:2:3:4:5:6:7:8", "A%zz", " ", "="}),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 6), func(b []byte) string { return string(b) }),
	)
}

func value() *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(awkward(), 1, 5), func(parts []string) string { return strings.Join(parts, "") })
}

func attributeName() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "ip", "user", "tenant"}),
		rapid.StringMatching(`[A-Za-z][A-Za-z0-9_-]{0,5}`))
}

// made is a key, and what it was made from.
type made struct {
	policy     *Policy
	attributes []Attribute
	key        store.Key
}

// aKey makes a key of a policy with one limit, whose subject is the first n of its
// attributes under hash_by.
func aKey(t *rapid.T, label string) made {
	by := rapid.SliceOfNDistinct(attributeName(), 1, 4, rapid.ID[string]).Draw(t, label+" by")
	hashed := rapid.IntRange(0, len(by)).Draw(t, label+" hashed")
	m := made{policy: &Policy{
		Name:   rapid.SampledFrom([]string{"p", "api", "a-b"}).Draw(t, label+" policy"),
		HashBy: by[:hashed],
		Limits: []Limit{{
			Limit: limiter.Per(rapid.SampledFrom([]string{"l", "p", "x_1"}).Draw(t, label+" limit"), 1, 1e9),
			By:    by,
		}},
	}}
	if problems := m.policy.Problems(); len(problems) > 0 {
		t.Fatal(problems)
	}
	attributes := Attributes{}
	for _, name := range by {
		attributes[name] = value().Draw(t, label+" "+name)
		m.attributes = append(m.attributes, Attribute{name, attributes[name]})
	}
	m.key = m.policy.Key(&m.policy.Limits[0], attributes)
	return m
}

func (m made) same(other made) bool {
	return m.policy.Name == other.policy.Name && m.policy.Limits[0].Name == other.policy.Limits[0].Name &&
		m.inSubject() == other.inSubject() && slices.Equal(m.attributes, other.attributes)
}

// inSubject is the number of attributes in the subject: all, without hash_by.
func (m made) inSubject() int {
	if n := len(m.policy.HashBy); n > 0 {
		return n
	}
	return len(m.attributes)
}

// For any values, two different requests never share a key, and a key can be split into its parts.
func TestKeysAreUnambiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for i := range 5 {
			a, b := aKey(t, fmt.Sprint("a", i)), aKey(t, fmt.Sprint("b", i))
			if (a.key == b.key) != a.same(b) {
				t.Fatalf("%+v has the key %q and %+v %q", a.attributes, a.key, b.attributes, b.key)
			}
			parts, ok := ParseKey(a.key)
			if !ok || parts.Policy != a.policy.Name || parts.Limit != a.policy.Limits[0].Name ||
				!slices.Equal(parts.Attributes, a.attributes) {
				t.Fatalf("%q of %v is taken apart into %+v, %t", a.key, a.attributes, parts, ok)
			}
			tooLong := len(a.key.Subject) > store.MaxSubjectLength || len(a.key.Name) > store.MaxNameLength
			if err := a.key.Validate(); err != nil && !tooLong {
				t.Fatalf("%q of %v: %v", a.key, a.attributes, err)
			}
		}
	})
}

func TestKey(t *testing.T) {
	for _, test := range []struct {
		by, hashBy []string
		attributes Attributes
		want       store.Key
	}{
		{[]string{"ip"}, nil, Attributes{"ip": "203.0.113.9"}, store.Key{Subject: "ip:203.0.113.9", Name: "p/l"}},
		// readable
		{[]string{"ip"}, nil, Attributes{"ip": "2001:db8::7"}, store.Key{Subject: "ip:2001:db8::7", Name: "p/l"}},
		{[]string{"ip", "user"}, nil, Attributes{"ip": "2001:db8::7", "user": "7"},
			store.Key{Subject: "ip:2001%3Adb8%3A%3A7:user:7", Name: "p/l"}},
		{[]string{"a", "A"}, nil, Attributes{"a": "a", "A": "2001:db8::7"},
			store.Key{Subject: "a:a:A:2001%3Adb8%3A%3A7", Name: "p/l"}}, // a:A:2001:db8::7 is an address, too
		{[]string{"a"}, nil, Attributes{"a": "a:A:2001:db8::7"}, store.Key{Subject: "a:a:A:2001:db8::7", Name: "p/l"}},
		{[]string{"user", "ip"}, []string{"user"}, Attributes{"ip": "::1", "user": "7"},
			store.Key{Subject: "user:7", Name: "p/l:ip:::1"}},
		{[]string{"a", "b"}, nil, Attributes{"a": "a:b", "b": "c"}, store.Key{Subject: "a:a%3Ab:b:c", Name: "p/l"}},
		{[]string{"a"}, nil, Attributes{"a": "{x}%\n\xff é*"},
			store.Key{Subject: "a:%7Bx%7D%25%0A%FF é*", Name: "p/l"}},
		{[]string{"ip"}, nil, Attributes{"ip": "fe80::1%eth0"},
			store.Key{Subject: "ip:fe80%3A%3A1%25eth0", Name: "p/l"}},
	} {
		p := &Policy{Name: "p", HashBy: test.hashBy}
		if got := p.Key(&Limit{Limit: limiter.Limit{Name: "l"}, By: test.by}, test.attributes); got != test.want {
			t.Errorf("%v by %v is %q, not %q", test.attributes, test.by, got, test.want)
		}
	}
}

// ParseKey accepts only what Key can have made, and never panics.
func FuzzParseKey(f *testing.F) {
	f.Add("tenant:acme:user:7", "api/user-route")
	f.Add("tenant:acme", "api/user-route:user:7:ip:::1")
	f.Add("ip:2001:db8::7", "login/ip")
	f.Add("a:%3A%25%7B", "p/l")
	f.Add("a:%", "p/l:")
	f.Add("ip:1:2:3:4:5:6:7:8", "p/l")
	for _, subject := range []string{"", "user", "user:", "a:b:c", "a:%3a", "a:%41", "a:%4", "1:b", "a:%+1", "a:% 1",
		"ip:2001%3Adb8%3A%3A7", "a:b"} {
		for _, name := range []string{"p/l", "p", "token-bucket/1m", "p/l:", "p/l:c", "p/l/m", "1/l"} {
			f.Add(subject, name)
		}
	}
	f.Fuzz(func(t *testing.T, subject, name string) {
		key := store.Key{Subject: subject, Name: name}
		parts, ok := ParseKey(key)
		if !ok {
			return
		}
		rejoin := func(list []Attribute) string {
			names, attributes := make([]string, len(list)), Attributes{}
			for i, a := range list {
				names[i], attributes[a.Name] = a.Name, a.Value
			}
			return join(names, attributes)
		}
		inSubject, _ := ParseSubject(subject)
		again := store.Key{Subject: rejoin(inSubject), Name: parts.Policy + "/" + parts.Limit}
		if rest := parts.Attributes[len(inSubject):]; len(rest) > 0 {
			again.Name += ":" + rejoin(rest)
		}
		if again != key {
			t.Errorf("%q is taken apart into %+v, which makes %q", key, parts, again)
		}
	})
}

func TestRequests(t *testing.T) {
	p := &Policy{Name: "api", Limits: []Limit{
		{
			Limit: limiter.Per("tenant", 10, 1e9),
			By:    []string{"tenant"},
			Exceptions: []Exception{
				{Attributes{"tenant": "acme"}, limiter.Per("", 20, 1e9)},
				{Attributes{"plan": "gold"}, limiter.Per("", 30, 1e9)},
			},
		},
		{Limit: limiter.Limit{Name: "user", Count: 5, Period: 1e9, Shadow: true}, By: []string{"tenant", "user"}},
	}}
	for _, test := range []struct {
		attributes Attributes
		counts     []int64
		want       string // the error
	}{
		{Attributes{"tenant": "acme", "user": "7", "plan": "gold"}, []int64{20, 5}, ""}, // the first that applies
		{Attributes{"tenant": "x"}, nil, `policy "api" needs the attribute user; add user=VALUE`},
		{Attributes{"tenant": "x", "user": "7", "plna": "gold"}, nil,
			`unknown attribute "plna"; policy "api" uses plan, tenant, user; did you mean plan?`},
	} {
		reqs, err := p.Requests(test.attributes, 3)
		if test.want != "" {
			if fmt.Sprint(err) != test.want || !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%v: the error is %v", test.attributes, err)
			}
			continue
		}
		if err != nil || len(reqs) != 2 {
			t.Errorf("%v: %v, %v", test.attributes, reqs, err)
			continue
		}
		for i, req := range reqs {
			if l := req.Limit(); l.Count != test.counts[i] || req.Cost() != 3 || l.Shadow != (i == 1) {
				t.Errorf("%v: request %d is %+v", test.attributes, i, req)
			}
		}
	}
}

// An override is never reached if an earlier one requires only a part of its attributes.
func TestUnreachableOverrides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		when := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"1", "2"}), 1, 3)
		p := &Policy{Name: "p", Limits: []Limit{{Limit: limiter.Per("l", 1, 1e9), By: []string{"a"}}}}
		var want []string
		for i := range rapid.IntRange(1, 8).Draw(t, "overrides") {
			o := Exception{When: when.Draw(t, "when"), Limit: limiter.Per("", 1, 1e9)}
			if j := slices.IndexFunc(p.Limits[0].Exceptions, func(earlier Exception) bool {
				return o.When.has(earlier.When)
			}); j >= 0 {
				want = append(want, fmt.Sprintf("limits[0].overrides[%d].when by %d", i, j+1))
			}
			p.Limits[0].Exceptions = append(p.Limits[0].Exceptions, o)
		}
		var got []string
		for _, problem := range p.Problems() {
			_, rest, _ := strings.Cut(problem.Text, "never reached, because override ")
			by, _, _ := strings.Cut(rest, " ")
			got = append(got, problem.Path+" by "+by)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("of %+v are never reached %q, not %q", p.Limits[0].Exceptions, got, want)
		}
	})
}

func TestParseAttributes(t *testing.T) {
	got, err := ParseAttributes([]string{"ip=203.0.113.9", "q=a=b c", "x=:"})
	if want := (Attributes{"ip": "203.0.113.9", "q": "a=b c", "x": ":"}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for argument, want := range map[string]string{
		"ip":      `argument "ip" is not an attribute; write name=value, such as ip=203.0.113.9`,
		"ip=":     `attribute "ip" is empty; give it a value, or all who leave it empty share one subject`,
		"1=x":     `attribute name "1" is not valid; use at most 64 letters, digits, - and _, beginning with a letter`,
		"=x":      `attribute name "" is not valid; use at most 64 letters, digits, - and _, beginning with a letter`,
		"twice=b": `attribute "twice" is given twice; keep one`,
	} {
		if _, err := ParseAttributes([]string{"twice=a", argument}); fmt.Sprint(err) != want ||
			!errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: the error is %v", argument, err)
		}
	}
}

// Whatever the unknown attributes are, the limit that applies is a candidate. It is the only one if all are known.
func TestTheLimitThatCountsIsACandidate(t *testing.T) {
	attributes := rapid.MapOfN(rapid.SampledFrom([]string{"tenant", "plan", "region"}),
		rapid.SampledFrom([]string{"a", "b"}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Limit: limiter.Per("", 1, time.Minute)}
		for i, when := range rapid.SliceOfN(attributes, 0, 4).Draw(t, "overrides") {
			l.Exceptions = append(l.Exceptions, Exception{When: when, Limit: limiter.Per("", int64(i)+2, time.Minute)})
		}
		all := Attributes(attributes.Draw(t, "attributes"))
		for _, name := range []string{"tenant", "plan", "region"} {
			if all[name] == "" {
				all[name] = "c"
			}
		}
		known := Attributes{}
		for name, value := range all {
			if rapid.Bool().Draw(t, "known") {
				known[name] = value
			}
		}
		limit, override := l.For(all)
		candidates := l.Candidates(known)
		if !slices.ContainsFunc(candidates, func(c Candidate) bool {
			return c.Limit == limit &&
				c.Exception == override
		}) {
			t.Errorf("%v counts for %v, and is not among %v of %v", limit, all, candidates, known)
		}
		if len(known) == len(all) && (len(candidates) != 1 || len(candidates[0].Unknown) != 0) {
			t.Errorf("all is known, and there are %v", candidates)
		}
	})
}

// A prepared policy has for each limit the key, the limit and what is left that the policy says by itself.
func TestPreparedMakesTheRequestsOfEachLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "c", "d", "e"}
	values := []string{"x", "a b", "a:b", "2001:db8::1", "::", "%{}", "\x00\xff", "é", "203.0.113.9", "2001:db8::/64"}
	pick := func(n int) []string {
		some := slices.Clone(names)
		r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		return some[:n]
	}
	for range 5_000 {
		p := &Policy{Name: "p", HashBy: pick(r.IntN(3))}
		for i := range 1 + r.IntN(4) {
			l := Limit{Limit: limiter.Per(fmt.Sprintf("l%d", i), int64(i+1), time.Second),
				By: slices.Concat(p.HashBy, pick(r.IntN(3)))}
			l.Classes = Classes{By: names[r.IntN(5)], Of: []Class{{"x", 0}, {"é", 200_000}, {"a b", 500_000}}}
			l.Exceptions = []Exception{{Attributes{names[r.IntN(5)]: "x"}, limiter.Per("", 9, time.Second)}}
			l.Shadow = r.IntN(2) == 0
			p.Limits = append(p.Limits, l)
		}
		attributes := Attributes{}
		all, _ := p.Attributes()
		for _, name := range all {
			attributes[name] = values[r.IntN(len(values))]
		}
		want, exceptions := []store.Request{{Cost: 7}}, []int{7}
		got, applied, err := p.Prepare().AppendRequests(want, exceptions, attributes, 3)
		for i := range p.Limits {
			l := &p.Limits[i]
			limit, exception := l.For(attributes)
			want = append(want, store.Request{
				Key: p.Key(l, attributes), Limit: limit, Cost: 3, Leave: l.Leave(limit, attributes), Shadow: l.Shadow})
			exceptions = append(exceptions, exception)
		}
		if err != nil || !slices.Equal(got, want) || !slices.Equal(applied, exceptions) {
			t.Fatalf("%+v for %v makes %+v %v, not %+v %v; %v", p, attributes, got, applied, want, exceptions, err)
		}
	}
}
