package endpoint

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestNamesOfSubjects(t *testing.T) {
	for format, want := range map[string]string{"": "*-user:7", "{subject}": "user:7", "key-{n}": "key-7", "a{run}b{n}": "a*b7"} {
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
		before, after, _ := strings.Cut(one.Pattern(), "*")
		if !strings.HasPrefix(name, before) || !strings.HasSuffix(name, after) {
			t.Errorf("%q: %s is not %s", format, name, one.Pattern())
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

// counter is a Client that records the subjects.
type counter struct {
	Client
	asked []string
}

func (c *counter) Send(_ context.Context, subject string, _ int64, _ *Answer) error {
	c.asked = append(c.asked, subject)
	return nil
}

func TestRenamedSubjects(t *testing.T) {
	c := &counter{}
	client := (&Subjects{List: []string{"a", "b"}}).Rename(c)
	for _, subject := range []string{"x", "y", "x"} {
		if err := client.Send(t.Context(), subject, 1, new(Answer)); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(c.asked, ""); got != "aba" {
		t.Errorf("asked as %s", got)
	}
	if err := client.Send(t.Context(), "z", 1, new(Answer)); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a third of two subjects: %v", err)
	}
}
