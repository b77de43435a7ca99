package published

import (
	"errors"
	"math/rand/v2"
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
					t.Fatalf("after version %d, %d are kept with %d bytes, want %d", i+1, len(table.versions), bytes,
						want)
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
				if kept != (err == nil) || kept != s.Kept(number) || kept != sound.Kept(number) || kept &&
					v.Number != number ||
					!kept && !errors.Is(err, store.ErrInvalid) {
					t.Errorf("version %d: %v", number, err)
				}
			}
			clear(table.versions)
			if _, err := s.Fetch(t.Context(), &table.Tables, int64(test.published)); !errors.Is(err, store.ErrForeign) {
				t.Errorf("a version that has to be kept is gone: %v", err)
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
	table.lines = append(table.lines, "x", "{}", `{"version":-1}`, `{"version":9,"bytes":-1}`,
		`{"version":9223372036854775807}`)
	if s, err := Read(t.Context(), &table.Tables); err != nil || len(s.Lines) != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, head := range []string{"x", Head{Version: 1 << 62, Oldest: 1 << 62, Hash: Hash(nil)}.Text()} {
		table.head = head
		s, err := Read(t.Context(), &table.Tables)
		if err != nil || !errors.Is(s.Broken, store.ErrForeign) || s.Was != head || s.Head != (Head{}) ||
			s.NextNumber() != 4 {
			t.Errorf("of the head %s: %+v, %v", head, s, err)
		}
	}
}

// A record and a head, which anybody may have written, are read in bounded memory, and never panic.
func FuzzRecords(f *testing.F) {
	f.Add(Version{Number: 1, Text: limited(1)}.Record())
	f.Add(Head{Version: 2, Oldest: 1, Hash: Hash(nil)}.Text())
	f.Fuzz(func(t *testing.T, record string) {
		if v, err := readVersion(record); err == nil &&
			(v.Number < 1 || len(v.Text) > configfile.MaxSize || v.Hash != Hash(v.Text)) {
			t.Errorf("%+v", v)
		}
		if h, err := readHead(record); err == nil {
			if again, err := readHead(h.Text()); err != nil || again != h {
				t.Errorf("%+v becomes %+v, %v", h, again, err)
			}
		}
	})
}
