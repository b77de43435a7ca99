package operation

import (
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestSimilar(t *testing.T) {
	s := newSite(t)
	for _, subject := range []string{"tenant:acme", "tenant:acme:user:7", "tenant:acme:user:8", "tenant:bigacmecorp", "user:Acme",
		"ip:192.0.2.7", "a[b]:x", "a[b]:y"} {
		s.take(t, subject, 1)
	}
	for words, want := range map[string]string{
		"acme":        `tenant:acme user:Acme tenant:acme:*`, // three at most, the most exact first
		"tenant:acme": `tenant:acme tenant:acme:*`,
		"bigacme":     `*bigacme*`,
		"user:7":      `tenant:acme:user:7`,
		"192":         `*192*`,
		"a[b]":        `a\[b\]:*`,
		"other acme":  `tenant:acme user:Acme tenant:acme:*`,
		"other":       ``,
		"a":           ``, // one letter is in too many
		"":            ``,
	} {
		selection := &Selection{Words: strings.Split(words, " "), Query: admin.Query{Keys: []store.Key{key("none")}}}
		got, filtered := Similar(t.Context(), s.memory, selection)
		if strings.Join(got, " ") != want || filtered {
			t.Errorf("for %q: %q, want %q; filtered: %v", words, got, want, filtered)
		}
		for _, pattern := range got {
			parsed, err := store.ParsePattern(pattern)
			if err != nil {
				t.Fatal(err)
			}
			if found, err := Scan(t.Context(), s.memory, &Selection{Query: admin.Query{Subjects: parsed}}, &watcher{},
				func(*admin.Entry, error) error { return nil }); found.Matched == 0 || err != nil {
				t.Errorf("%q, suggested for %q, matches nothing: %v", pattern, words, err)
			}
		}
	}
	selection := everything(t)
	selection.Words = []string{"acme"}
	if got, filtered := Similar(t.Context(), s.memory, &selection); len(got) > 0 || !filtered {
		t.Errorf("what is selected already: %q, filtered: %v", got, filtered)
	}
}
