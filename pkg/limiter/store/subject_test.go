package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Keys with these subjects are in the stores of others: what they are must never change.
func TestSubjectsStayAsTheyAre(t *testing.T) {
	long := strings.Repeat("/segment", 256) // 2 KB
	for _, test := range []struct {
		parts []string
		want  string
	}{
		{[]string{"user", "42"}, "user:42"},
		{[]string{"user:42"}, "user%3A42"},
		{[]string{"tenant", "acme", "user", "Zoë"}, "tenant:acme:user:Zoë"},
		{[]string{"agent", "Mozilla/5.0 {beta; 100%}\n\x80"}, "agent:Mozilla/5.0 %7Bbeta; 100%25%7D%0A%80"},
		{[]string{"ip", "203.0.113.9"}, "ip:203.0.113.9"},
		{[]string{"ip", "2001:db8::7"}, "ip:2001:db8::7"},
		{[]string{"ip", "2001:db8::7", "user", "42"}, "ip:2001%3Adb8%3A%3A7:user:42"},
		{[]string{"2001:db8::7"}, "2001:db8::7"},
		{[]string{"a", "2001:db8::7"}, "a:2001%3Adb8%3A%3A7"}, // a:2001:db8::7 is an address, too
		{[]string{"1", "2", "3", "4", "5", "6", "7", "8"}, "1:2:3:4:5:6:7:%38"},
		{[]string{"1:2:3:4:5:6:7:8"}, "1:2:3:4:5:6:7:8"},
		{[]string{"user", ""}, "user:%"},
		{[]string{""}, "%"},
		{nil, "%%"},
		{[]string{"path", long}, "path:" + long[:161] + "%~ijzlRxYvo3WvYP2eYOFxdIEbeijdqEca"},
		{[]string{strings.Repeat("{", 200)}, strings.Repeat("%7B", 55) + "%~mwkUBBz-dRSDBOuEHlp4ijZMcElmD3lu"},
		{[]string{strings.Repeat("é", 200)}, strings.Repeat("é", 83) + "%~3yCyqmJi6Z4TOqfzYUvnB9NcQVXRfiqn"},
	} {
		if got := store.Subject(test.parts...); got != test.want {
			t.Errorf("Subject(%.40q) is\n%q, want\n%q", test.parts, got, test.want)
		}
	}
}

// readSubject is the inverse of Subject for what is not shortened. That there is one shows
// that no two lists of parts make the same subject.
func readSubject(text string) (parts []string) {
	if text == "%%" {
		return nil
	}
	for {
		if strings.Contains(text, ":") && subjecttext.IsPlainIPv6(text) {
			return append(parts, text)
		}
		part, rest, more := strings.Cut(text, ":")
		switch value, ok := subjecttext.Unescape(part); {
		case part == "%":
			parts = append(parts, "")
		case ok:
			parts = append(parts, value)
		case !more && len(part) >= 3: // its first character is escaped without need
			var first byte
			fmt.Sscanf(part[:3], "%%%02X", &first)
			parts = append(parts, string(first)+part[3:])
		default:
			parts = append(parts, "not read: "+part)
		}
		if !more {
			return parts
		}
		text = rest
	}
}

// checkSubject holds what Subject makes to its promises.
func checkSubject(t *testing.T, parts []string) {
	t.Helper()
	subject := store.Subject(parts...)
	if err := (store.Key{Subject: subject}).Validate(); err != nil {
		t.Errorf("Subject(%q) is not valid: %v", parts, err)
	}
	if len(subject) > 200 {
		t.Errorf("Subject(%q) has %d bytes", parts, len(subject))
	}
	if shortened := strings.Contains(subject, "%~"); !shortened {
		if read := readSubject(subject); !slices.Equal(read, parts) {
			t.Errorf("Subject(%q) is %q, which reads as %q", parts, subject, read)
		}
	} else if beginning := subject[:strings.Index(subject, "%~")]; len(beginning) < 150 ||
		len(subject)-len(beginning) != 34 {
		t.Errorf("Subject(%q) is shortened to %q", parts, subject)
	}
	// Its beginning selects it, and so does all of it.
	for _, length := range []int{4, len(subject)} {
		beginning := strings.ToValidUTF8(subject[:min(length, len(subject))], "")
		pattern, err := store.ParsePattern(store.EscapeGlob(beginning) + "*")
		if err != nil || !pattern.Match(subject) {
			t.Errorf("%q does not select %q: %v", beginning+"*", subject, err)
		}
	}
}

// All lists of up to nine parts that can be taken for addresses are told apart.
func TestPartsThatLookLikeAddresses(t *testing.T) {
	seen := map[string][]string{}
	var try func(parts []string)
	pieces := []string{"1", "", ":", "::1", "1:2", "fe80::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7", "2:3:4:5:6:7:8", "%31",
		"g"}
	try = func(parts []string) {
		checkSubject(t, parts)
		subject := store.Subject(parts...)
		if other, twice := seen[subject]; twice {
			t.Errorf("%q and %q are both %q", parts, other, subject)
		}
		seen[subject] = slices.Clone(parts)
		if len(parts) < 4 {
			for _, piece := range pieces {
				try(append(slices.Clone(parts), piece))
			}
		}
	}
	try(nil)
	for _, part := range []string{"/{id}", "%~", "::"} {
		checkSubject(t, []string{"path", strings.Repeat(part, 400), part})
	}
	for n := range 12 {
		parts := slices.Repeat([]string{"1"}, n+1)
		checkSubject(t, parts)
		checkSubject(t, append(parts, "::1"))
	}
}
