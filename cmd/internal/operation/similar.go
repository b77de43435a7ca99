package operation

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
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
func Similar(ctx context.Context, store limiter.Keyspace, s *Selection) (patterns []string, filtered bool) {
	words := slices.DeleteFunc(slices.Clone(s.Words), func(w string) bool { return len(w) < 2 })
	if len(words) == 0 {
		return nil, false
	}
	everybody, err := limiter.ParsePattern("*")
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, similarTime)
	defer cancel()
	query := limiter.Query{Subjects: everybody, KeysPerSecond: s.Query.KeysPerSecond,
		Match: func(key limiter.Key) bool {
			return slices.ContainsFunc(words, func(word string) bool { return indexFold(key.Subject, word) >= 0 })
		},
		Progress: func(looked, _ int64) {
			if looked > similarLooked {
				cancel()
			}
		}}
	found := map[string]int{}
	keys := 0
	for entry, err := range store.Scan(ctx, query) {
		if err != nil {
			continue // a foreign value, or the end
		}
		subject := entry.Key.Subject
		if s.Query.Keys == nil && s.Query.Names.IsZero() && s.Query.Subjects.Match(subject) {
			return nil, true
		}
		for _, word := range words {
			if at := indexFold(subject, word); at >= 0 {
				found[similarPattern(subject, at, at+len(word))]++
			}
		}
		if keys++; keys == similarFound {
			break
		}
	}
	patterns = slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(strings.Count(a, "*")-strings.Count(b, "*"), found[b]-found[a], strings.Compare(a, b))
	})
	return patterns[:min(len(patterns), similarShown)], false
}

// similarPattern returns the most exact pattern that says what a subject has from one place to
// another: the subject itself, all that begin so, or all that have it in them.
func similarPattern(subject string, from, to int) string {
	whole := from == 0 || subject[from-1] == ':'
	switch {
	case whole && to == len(subject):
		return limiter.EscapeGlob(subject)
	case whole && subject[to] == ':':
		return limiter.EscapeGlob(subject[:to]) + ":*"
	}
	return "*" + limiter.EscapeGlob(subject[from:to]) + "*"
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
