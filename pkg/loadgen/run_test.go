package loadgen

import (
	"fmt"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func population(t testing.TB, subjects int, limits ...string) *Population {
	t.Helper()
	parsed := make([]store.Limit, len(limits))
	for i, text := range limits {
		var err error
		if parsed[i], err = store.ParseLimit(text); err != nil {
			t.Fatal(err)
		}
	}
	population, err := NewPopulation(subjects, func(subject int) (requests []store.Request, err error) {
		for _, limit := range parsed {
			requests = append(requests, store.Request{Key: store.Key{Subject: fmt.Sprint("user:", subject)},
				Limit: limit})
		}
		return requests, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return population
}
