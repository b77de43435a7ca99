package endpoint

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Subjects gives subjects their names in requests.
type Subjects struct {
	// Format can contain places: {run} is a text that no other run has, {subject} the name in reports, {n} its
	// number from 0, and {ip} an address in 10.0.0.0/8. Empty means [DefaultSubjects].
	Format string
	// List, if not empty, has the names themselves, such as API keys.
	List []string

	run string
	ip  uint32
}

// DefaultSubjects is a format for names that were never used before.
const DefaultSubjects = "{run}-{subject}"

// Check returns a [store.ErrInvalid] if a format gives different subjects the same name.
func (s *Subjects) Check() error {
	rest := strings.NewReplacer("{run}", "", "{subject}", "", "{n}", "", "{ip}", "").Replace(s.format())
	switch {
	case strings.ContainsAny(rest, "{}"):
		return store.Invalidf("the format of subjects %q has braces that are not a place; "+
			"the places are {run}, {subject}, {n} and {ip}", s.Format)
	case rest == s.format(), strings.ReplaceAll(s.format(), "{run}", "") == rest:
		return store.Invalidf("the format of subjects %q is the same for all of them; put {n}, {subject} or {ip} "+
			"into it", s.Format)
	}
	return nil
}

func (s *Subjects) format() string {
	if s.Format == "" {
		return DefaultSubjects
	}
	return s.Format
}

// Fresh returns the names of a new run.
func (s *Subjects) Fresh() *Subjects {
	fresh := *s
	var random [4]byte
	_, _ = rand.Read(random[:]) // cannot fail
	fresh.run, fresh.ip = strings.ToLower(rand.Text()[:8]), binary.BigEndian.Uint32(random[:])
	return &fresh
}

// IsFresh reports whether the names can never have been used before.
func (s *Subjects) IsFresh() bool { return len(s.List) == 0 && strings.Contains(s.format(), "{run}") }

// Name returns the name of subject number n, whose name in reports is subject.
func (s *Subjects) Name(n uint32, subject string) string {
	switch {
	case len(s.List) > 0:
		return s.List[int(n)%len(s.List)]
	case s.Format == "":
		return s.run + "-" + subject
	}
	address := netip.AddrFrom4([4]byte{10, byte((s.ip + n) >> 16), byte((s.ip + n) >> 8), byte(s.ip + n)})
	return strings.NewReplacer(
		"{run}", s.run, "{subject}", subject, "{n}", strconv.FormatUint(uint64(n), 10), "{ip}", address.String(),
	).Replace(s.Format)
}
