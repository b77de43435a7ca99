package loadgen

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A subject keeps its name if a store accepts it, and otherwise becomes a number. Two subjects never become the same.
func TestPopulationsHaveKeysThatStoresTake(t *testing.T) {
	long := strings.Repeat("a", 100_000)
	subjects := []string{"10.0.0.1", "x y", "*", "ünï", "a{b}", "a\x1b[31m", "\xff", "", "#1", "#0", "0", long,
		long + "b", "a{b}"}
	want := []string{"10.0.0.1", "x y", "*", "ünï", "#0", "#1", "#2", "#3", "#4", "#5", "0", "#6", "#7", "#0"}
	limit := store.Limit{Count: 3, Period: time.Second}
	population, err := NewPopulation(len(subjects), func(subject int) ([]store.Request, error) {
		unnamed := store.Request{Key: store.Key{Subject: subjects[subject]}, Limit: limit}
		named := unnamed
		named.Key.Name = "name" + subjects[subject]
		return []store.Request{unnamed, named}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for subject := range uint32(len(subjects)) {
		requests := population.Requests(subject)
		if requests[0].Key.Subject != want[subject] || requests[1].Key.Subject != want[subject] {
			t.Errorf("%.20q is called %.20q and %.20q", subjects[subject], requests[0].Key.Subject,
				requests[1].Key.Subject)
		}
		for _, r := range requests {
			if err := r.Normalize(store.Take); err != nil {
				t.Errorf("%.20q: %v", subjects[subject], err)
			}
		}
	}
	keys := population.AllKeys()
	if len(keys) != 2*(len(subjects)-1) || population.Size() != len(subjects) { // one of them comes twice
		t.Errorf("%d keys of %d subjects", len(keys), population.Size())
	}
	for i, key := range keys {
		if slices.Contains(keys[:i], key) {
			t.Errorf("two are called %v", key)
		}
	}
}

// A wrong request is an error, and keys with several limits are counted.
func TestPopulationsOfUnfitAndMixedRequests(t *testing.T) {
	var request store.Request
	ask := func(int) ([]store.Request, error) { return []store.Request{request}, nil }
	request.Key.Subject = "a"
	if _, err := NewPopulation(1, ask); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a request without a limit: %v", err)
	}
	if _, err := NewPopulation(1, func(int) ([]store.Request, error) { return nil, io.EOF }); err != io.EOF {
		t.Errorf("an error of who is asked: %v", err)
	}
	population, err := NewPopulation(4, func(subject int) ([]store.Request, error) {
		request.Key = store.Key{Subject: []string{"a", "b"}[subject%2], Name: "n"}
		request.Limit = store.Limit{Count: int64(5 + subject/3), Period: time.Second}
		return ask(subject)
	})
	if err != nil || population.MixedKeys(0) != 1 || population.MostAtOnce() != 5 {
		t.Errorf("%v: %d mixed, %d at once", err, population.MixedKeys(0), population.MostAtOnce())
	}
}

// A Cluster decides limits of different subjects one after the other.
func TestSubjectsThatSpread(t *testing.T) {
	limit := store.Limit{Count: 1, Period: time.Second}
	for second, want := range map[string]bool{"a": false, "b": true} {
		p, err := NewPopulation(1, func(int) ([]store.Request, error) {
			return []store.Request{
				{Key: store.Key{Subject: "a", Name: "x"}, Limit: limit},
				{Key: store.Key{Subject: second, Name: "y"}, Limit: limit},
			}, nil
		})
		if err != nil || p.spreads() != want {
			t.Errorf("a and %s: %t, %v", second, p.spreads(), err)
		}
	}
}
