package published

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The latest versions are kept, at most 50 and at most so many bytes; the one before is always kept beside the new one.
// Whatever becomes of the head, it is the same.
func TestVersionsAreBounded(t *testing.T) {
	for name, test := range map[string]struct{ size, published, kept int }{
		"small": {100, 60, versionsKept}, "large": {configfile.MaxSize, 9, 7},
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable()
			text := make([]byte, test.size)
			rand.NewChaCha8([32]byte{}).Read(text) // which does not compress
			for i := range test.published {
				text[0] = byte(i)
				switch i % 7 {
				case 3:
					table.head = "junk"
				case 5:
					table.head = ""
				}
				table.publish(t, text)
				bytes := 0
				for _, record := range table.versions {
					bytes += len(record)
				}
				if want := min(i+1, test.kept); len(table.versions) != want || bytes > bytesKept {
					t.Fatalf("after version %d, %d are kept with %d bytes, want %d", i+1, len(table.versions), bytes, want)
				}
			}
			sound, err := Read(t.Context(), &table.Tables)
			table.head = "junk"
			s, err2 := Read(t.Context(), &table.Tables)
			if err := errors.Join(err, err2); err != nil || len(s.Lines) != test.published {
				t.Fatal(len(s.Lines), err)
			}
			for number := int64(1); number <= int64(test.published); number++ {
				v, err := s.Fetch(t.Context(), &table.Tables, number)
				kept := number > int64(test.published-test.kept)
				if kept != (err == nil) || kept != s.Kept(number) || kept != sound.Kept(number) || kept && v.Number != number ||
					!kept && !errors.Is(err, store.ErrInvalid) {
					t.Errorf("version %d: %v", number, err)
				}
			}
		})
	}
}

// The numbers of a store that lost its head go on after the history, so that no number is used twice.
func TestNumbersGoOn(t *testing.T) {
	table := newTable()
	table.publish(t, limited(1))
	table.publish(t, limited(2))
	table.head = ""
	if v := table.publish(t, limited(3)); v.Number != 3 {
		t.Errorf("the next one is version %d", v.Number)
	}
	table.lines = append(table.lines, "x", "{}", `{"version":-1}`, `{"version":9,"bytes":-1}`, `{"version":9223372036854775807}`)
	if s, err := Read(t.Context(), &table.Tables); err != nil || s.Damaged != 5 || len(s.Lines) != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, head := range []string{"x", Head{Version: 1 << 62, Oldest: 1 << 62, Hash: Hash(nil)}.Text()} {
		table.head = head
		s, err := Read(t.Context(), &table.Tables)
		if err != nil || !errors.Is(s.Broken, store.ErrForeign) || s.Was != head || s.Head != (Head{}) || s.NextNumber() != 4 {
			t.Errorf("of the head %s: %+v, %v", head, s, err)
		}
	}
}

// Only what decides is published, with its comments: no context, and no prefix.
func TestWhatIsPublished(t *testing.T) {
	const policies = "# The login.\npolicies:\n  login:\n    # why\n    limits: [{name: ip, by: [ip], limit: 5/1m}]\n"
	const jsonPolicies = `{"policies":{"login":{"limits":[{"name":"ip","by":["ip"],"limit":"5/1m"}]}}`
	for name, test := range map[string]struct{ file, want string }{
		"policies alone": {policies, policies},
		"contexts before": {"# hunter2\ncontexts:\n  # hunter2\n  prod: {store: 'redis://:hunter2@h'}\n# hunter2\nprefix: x\n" + policies,
			policies},
		"contexts behind": {policies + "# hunter2\ncontexts:\n  prod:\n    store: 'redis://:hunter2@h'\n# hunter2\n", policies},
		"quoted keys":     {policies + "\"contexts\": {prod: {store: 'redis://:hunter2@h'}}\n'prefix': hunter2\n", policies},
		"in between": {"breaker: {failures: 7}\ncontexts: {p: {store: 'redis://:hunter2@h'}}\n" + policies,
			"breaker: {failures: 7}\n" + policies},
		"Windows' lines":  {"prefix: hunter2\r\n" + strings.ReplaceAll(policies, "\n", "\r\n"), strings.ReplaceAll(policies, "\n", "\r\n")},
		"a document mark": {"---\nprefix: hunter2\n" + policies, "---\n" + policies},
		"JSON":            {jsonPolicies + "}", jsonPolicies + "}"},
		"an alias of a context": {"contexts: {p: {store: &u 'redis://:hunter2@h'}}\n" +
			"policies: {login: {limits: [{name: ip, by: [ip], limit: 5/1m, overrides: [{when: {plan: *u}, limit: 9/1m}]}]}}\n", ""},
		"JSON with contexts": {jsonPolicies + `,"contexts":{"p":{"store":"redis://:hunter2@h"}}}`, ""},
	} {
		text, err := TextOf("x.yaml", []byte(test.file))
		if string(text) != test.want || (test.want == "") != errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: published\n%s\nwant\n%s\n%v", name, text, test.want, err)
		}
		if strings.Contains(string(text)+fmt.Sprint(err), "hunter2") {
			t.Errorf("%s: a secret is shown: %s, %v", name, text, err)
		}
	}
}

// A record and a head, which anybody may have written, are read in bounded memory, and never panic.
func FuzzRecords(f *testing.F) {
	f.Add(Version{Number: 1, Text: limited(1)}.Record())
	f.Add(Head{Version: 2, Oldest: 1, Hash: Hash(nil)}.Text())
	f.Fuzz(func(t *testing.T, record string) {
		if v, err := readVersion(record); err == nil && (v.Number < 1 || len(v.Text) > configfile.MaxSize || v.Hash != Hash(v.Text)) {
			t.Errorf("%+v", v)
		}
		if h, err := readHead(record); err == nil {
			if again, err := readHead(h.Text()); err != nil || again != h {
				t.Errorf("%+v becomes %+v, %v", h, again, err)
			}
		}
	})
}
