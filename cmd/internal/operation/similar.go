package operation

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Bounds of a search for what somebody may have meant: it must not take longer than the search
// that found nothing was worth.
const (
	similarTime   = 500 * time.Millisecond
	similarLooked = 100_000 // keys
	similarFound  = 200     // keys
	similarShown  = 3
)

// Similar returns patterns that match keys in use, for a selection that matches none: those
// whose subject has what was asked for in it, however it is written. filtered says that the
// subjects are there, and something else of the selection leaves them out. It looks at a part
// of the keys only, and an error is like finding nothing.
func Similar(ctx context.Context, backend admin.Keyspace, s *Selection) (patterns []string, filtered bool) {
	words := slices.DeleteFunc(slices.Clone(s.Words), func(w string) bool { return len(w) < 2 })
	if len(words) == 0 {
		return nil, false
	}
	everybody, err := store.ParsePattern("*")
	if err != nil {
		return nil, false
	}
	found := map[string]int{}
	filtered = lookAround(ctx, backend, s, everybody, func(subject string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return indexFold(subject, word) >= 0 })
	}, func(subject string) {
		for _, word := range words {
			if at := indexFold(subject, word); at >= 0 {
				found[similarPattern(subject, at, at+len(word))]++
			}
		}
	})
	if filtered {
		return nil, true
	}
	patterns = slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(strings.Count(a, "*")-strings.Count(b, "*"), found[b]-found[a], strings.Compare(a, b))
	})
	return patterns[:min(len(patterns), similarShown)], false
}

// NearestSubject is [Similar] for what deletes. It finds the one subject that is written most like the
// subject asked for, or ends in it, and never a pattern, which could select more than was meant.
func NearestSubject(ctx context.Context, backend admin.Keyspace, s *Selection) (subjects []string, filtered bool) {
	asked, exact := s.Query.Subjects.Exact()
	if !exact || s.Query.Keys != nil {
		return nil, false
	}
	everybody, err := store.ParsePattern("*")
	if err != nil {
		return nil, false
	}
	most := 1
	if len(asked) >= 6 {
		most = 2
	}
	nearest := map[string]bool{}
	filtered = lookAround(ctx, backend, s, everybody, func(subject string) bool {
		begin := len(subject) - len(asked)
		return texts.Nearest(asked, []string{subject}, most) != "" || begin >= 0 && strings.EqualFold(asked, subject[begin:]) &&
			(begin == 0 || subject[begin-1] == ':')
	}, func(subject string) { nearest[subject] = true })
	if filtered || len(nearest) == 0 {
		return nil, filtered
	}
	all := slices.Sorted(maps.Keys(nearest))
	return []string{store.EscapeGlob(cmp.Or(texts.Nearest(asked, all, most), all[0]))}, false
}

// lookAround calls do with the subjects of keys in use that may be meant, for as long as is bearable. It
// stops and reports true at a subject that was asked for, so that something else of the selection
// leaves its keys out.
func lookAround(ctx context.Context, backend admin.Keyspace, s *Selection, subjects store.Pattern, may func(subject string) bool,
	do func(subject string)) (filtered bool) {
	ctx, cancel := context.WithTimeout(ctx, similarTime)
	defer cancel()
	query := admin.Query{Subjects: subjects, KeysPerSecond: s.Query.KeysPerSecond,
		Match: func(key store.Key) bool { return may(key.Subject) },
		Progress: func(looked, _ int64) {
			if looked > similarLooked {
				cancel()
			}
		}}
	keys := 0
	for entry, err := range backend.Scan(ctx, query) {
		if err != nil {
			continue // a foreign value, or the end
		}
		q := &s.Query
		if q.Has(entry.Key) || q.Keys == nil && q.Names.IsZero() && q.Subjects.Match(entry.Key.Subject) { // the name of a limit is a filter
			return true
		}
		do(entry.Key.Subject)
		if keys++; keys == similarFound {
			break
		}
	}
	return false
}

// similarPattern returns the most exact pattern that says what a subject has from one place to
// another: the subject itself, all that begin so, or all that have it in them.
func similarPattern(subject string, from, to int) string {
	whole := from == 0 || subject[from-1] == ':'
	switch {
	case whole && to == len(subject):
		return store.EscapeGlob(subject)
	case whole && subject[to] == ':':
		return store.EscapeGlob(subject[:to]) + ":*"
	}
	return "*" + store.EscapeGlob(subject[from:to]) + "*"
}

// indexFold returns where text has word in it, in capitals or not, or -1.
func indexFold(text, word string) int {
	for i := 0; i+len(word) <= len(text); i++ {
		if strings.EqualFold(text[i:i+len(word)], word) {
			return i
		}
	}
	return -1
}
