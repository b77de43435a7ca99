package endpoint

import (
	"net/netip"
	"strings"
	"testing"
)

func TestNamesOfSubjects(t *testing.T) {
	for format, want := range map[string]string{"": "*-user:7", "{subject}": "user:7", "key-{n}": "key-7",
		"a{run}b{n}": "a*b7"} {
		s := Subjects{Format: format}
		if err := s.Check(); err != nil {
			t.Errorf("%q: %v", format, err)
		}
		one, other := s.Fresh(), s.Fresh()
		name := one.Name(7, "user:7")
		if got := strings.Replace(name, one.run, "*", 1); got != want {
			t.Errorf("%q: %s", format, name)
		}
		if fresh := strings.Contains(want, "*"); fresh != (name != other.Name(7, "user:7")) || fresh != s.IsFresh() {
			t.Errorf("%q: is called %s in another run", format, other.Name(7, "user:7"))
		}
	}
	seen := map[string]bool{}
	addresses := (&Subjects{Format: "{ip}"}).Fresh()
	for n := range uint32(1000) {
		name := addresses.Name(n, "")
		if address, err := netip.ParseAddr(name); err != nil || !address.IsPrivate() || seen[name] {
			t.Fatalf("subject %d has the address %s", n, name)
		}
		seen[name] = true
	}
}
