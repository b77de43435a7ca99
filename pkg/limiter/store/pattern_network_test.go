package store_test

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A network selects the subjects that end in an address or a network inside it, at its bounds and one beside them.
func TestPatternOfANetwork(t *testing.T) {
	for _, test := range []struct {
		pattern string
		in, out []string
	}{
		{"ip:203.0.113.0/24", []string{"ip:203.0.113.0", "ip:203.0.113.255", "ip:203.0.113.0/24",
			"ip:203.0.113.128/25"},
			[]string{"ip:203.0.112.255", "ip:203.0.114.0", "ip:203.0.112.0/23", "ip:203.0.113.9:user:7",
				"xip:203.0.113.9",
				"tenant:a:ip:203.0.113.9", "203.0.113.9", "ip:203.0.113.", "ip:203.0.113.09", "ip:::ffff:203.0.113.9",
				"ip:203.0.113.9/33",
				"ip:", "ip"}},
		{"ip:2001:db8::/32", []string{"ip:2001:db8::1", "ip:2001:DB8:ffff::", "ip:2001%3Adb8%3A1%3A2%3A%3A/64",
			"ip:2001%3Adb8%3A%3A1", "ip:2001:0db8:0:0:0:0:0:1"},
			[]string{"ip:2001:db9::", "ip:2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "ip:2001%3Adb8%3A%3A/31",
				"ip:2001%3adb8%3A%3A1",
				"ip:203.0.113.9", "tenant:a:ip:2001:db8::1"}},
		{"face:2001:db8::/32", []string{"face:2001:db8::1"}, []string{"face:2001:db9::1"}},
		{"tenant:*:ip:203.0.113.0/24", []string{"tenant:a:ip:203.0.113.9", "tenant:a:user:b:ip:203.0.113.9"},
			[]string{"ip:203.0.113.9", "tenant:a:ip:203.0.112.9"}},
		{`[ip]p:203.0.113.0/24`, []string{"ip:203.0.113.9", "pp:203.0.113.9"}, []string{"xp:203.0.113.9"}},
	} {
		p := mustPattern(t, test.pattern)
		if _, exact := p.Exact(); exact || p.IsZero() {
			t.Errorf("%s: exact %v, zero %v", test.pattern, exact, p.IsZero())
		}
		for _, subject := range test.in {
			if !p.Match(subject) {
				t.Errorf("%s does not select %s", test.pattern, subject)
			}
		}
		for _, subject := range test.out {
			if p.Match(subject) {
				t.Errorf("%s selects %s", test.pattern, subject)
			}
		}
	}
}

// What people read of a subject selects it, if they type it.
func TestPatternOfAReadableSubject(t *testing.T) {
	for subject, want := range map[string]string{
		"ip:2001%3Adb8%3A%3A/64":          "ip:2001:db8::/64",
		"tenant:a:ip:2001%3Adb8%3A%3A/64": "tenant:a:ip:2001:db8::/64",
		// The colons would make these other subjects, or networks.
		"ip:2001%3Adb8%3A%3A9": "", "ip:2001%3Adb8%3A%3A/129": "", "ip:2001%3Adb8%3A%3A/a": "",
		"login:ip:2001%3Adb8%3A%3A/64": "", "tenant:dead:ab:2001%3A%3A/64": "", "fd00%3A1%3A%3A/64": "",
	} {
		readable := subjecttext.Readable(subject)
		if p := mustPattern(t, readable); readable != cmp.Or(want, subject) || !p.Match(subject) {
			t.Errorf("%s reads %s, which selects it: %v", subject, readable, p.Match(subject))
		}
	}
}

// What only looks like a network is a subject, or a glob.
func TestPatternOfNoNetwork(t *testing.T) {
	for _, text := range []string{"ip:203.0.113.0/33", "ip:203.0.113/24", "ip:203.0.113.0/024", "ip:203.0.113.0/",
		"route:/orders", "a/24",
		"ip:2001:db8::/129", "ip:fe80::1%eth0/64", "ip:2001%3Adb8%3A%3A/64", "ip:10.0.0.0/8:user:7"} {
		if subject, exact := mustPattern(t, text).Exact(); !exact || subject != text {
			t.Errorf("%s selects %q, %v", text, subject, exact)
		}
	}
	const text = "ip:203.0.113.7/24"
	if got := mustPattern(t, text).String(); got != "ip:203.0.113.0/24" {
		t.Errorf("%s is written %s", text, got)
	}
	for _, subject := range []string{text, "my-ip:10.0.0.0/8", "i[p]:10.0.0.0/8", "10.0.0.0/8", "ip:2001:db8::/64"} {
		if got, exact := mustPattern(t, store.EscapeGlob(subject)).Exact(); !exact || got != subject {
			t.Errorf("%s, escaped %s, selects %q, %v", subject, store.EscapeGlob(subject), got, exact)
		}
		if p, err := store.ExactPattern(subject); err != nil || !p.Match(subject) || p.Match("ip:203.0.113.7") {
			t.Errorf("exactly %s: %v", subject, err)
		}
	}
	if _, err := store.ParsePattern("i[p:203.0.113.0/24"); err == nil {
		t.Error("an open set before a network is taken")
	}
}

// drawNetwork draws a network that the addresses drawn beside it are often in.
func drawNetwork(t *rapid.T, what string) netip.Prefix {
	bytes := []byte{203, 0, byte(rapid.IntRange(112, 113).Draw(t, what)), byte(rapid.IntRange(0, 255).Draw(t, what))}
	most := 32
	if rapid.Bool().Draw(t, what+" is IPv6") {
		bytes, most = append([]byte{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0}, bytes...), 128
	}
	address, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(address, max(0, most-rapid.IntRange(0, 40).Draw(t, what+" has fewer bits"))).Masked()
}

// For any network and subject: what is found in Redis by the glob and by the beginning is at least what the pattern
// selects, it is read back as it is written, and two networks overlap as their addresses do.
func TestPatternOfAnyNetwork(t *testing.T) {
	// What can stand before a network, each with what it matches.
	befores := map[string]string{"ip:": "ip:", "": "", "tenant:a:ip:": "tenant:a:ip:", "*:": "ip:",
		"t?nant:*:ip:": "tenant:a:user:b:ip:"}
	rapid.Check(t, func(t *rapid.T) {
		network, inside := drawNetwork(t, "network"), drawNetwork(t, "inside")
		before := rapid.SampledFrom(slices.Sorted(maps.Keys(befores))).Draw(t, "before")
		p, err := store.ParsePattern(before + network.String())
		must(t, err)
		value := rapid.SampledFrom([]string{
			inside.String(), inside.Addr().String(), subjecttext.Escape(inside.String())}).Draw(t, "value")
		subjects := []string{"ip:", "tenant:a:ip:", "tenant:a:user:b:ip:", ""}
		if before == "*:" {
			subjects = subjects[:3] // a bare IPv6 address can be taken for a name and values
		}
		subject := rapid.SampledFrom(subjects).Draw(t, "subject") + value
		if strings.HasSuffix(subject, inside.Addr().String()) {
			inside = netip.PrefixFrom(inside.Addr(), inside.Addr().BitLen())
		}
		glob, _ := store.ParsePattern(before + "*")
		want := glob.Match(subject) && inside.Bits() >= network.Bits() && network.Contains(inside.Addr()) &&
			(before != "" || !strings.Contains(subject, "p:"))
		if got := p.Match(subject); got != want {
			t.Fatalf("%s selects %s: %v", p, subject, got)
		}
		if again, err := store.ParsePattern(p.String()); err != nil || again.String() != p.String() ||
			again.Match(subject) != want {
			t.Fatalf("%s is read back as %s, %v", p, again, err)
		}
		for subject, selected := range map[string]bool{subject: want, befores[before] + network.Addr().String(): true} {
			found := redisMatch(p.RedisGlob(), subject) && strings.HasPrefix(subject, p.LiteralBeginning())
			if p.Match(subject) != selected || selected && !found {
				t.Fatalf("%s selects %s: %v, and %s or what begins with %q may not", p, subject, selected,
					p.RedisGlob(),
					p.LiteralBeginning())
			}
		}
	})
}
