package loadgen

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// A subject is called what it is, if a store takes that, and else a number, and never
// the same as another one.
func TestTargetsHaveKeysThatStoresTake(t *testing.T) {
	long := strings.Repeat("a", 100_000)
	subjects := []string{"10.0.0.1", "x y", "*", "ünï", "a{b}", "a\x1b[31m", "\xff", "", "#1", "#0", "0", long, long + "b", "a{b}"}
	want := []string{"10.0.0.1", "x y", "*", "ünï", "#0", "#1", "#2", "#3", "#4", "#5", "0", "#6", "#7", "#0"}
	limit := limiter.Limit{Count: 3, Period: time.Second}
	target, err := NewTarget(len(subjects), 2, func(subject, i int) limiter.Request {
		name := []string{"", "name" + subjects[subject]}[i]
		return limiter.Request{Key: limiter.Key{Subject: subjects[subject], Name: name}, Limit: limit}
	})
	if err != nil {
		t.Fatal(err)
	}
	for subject := range uint32(len(subjects)) {
		requests := target.Requests(subject)
		if requests[0].Key.Subject != want[subject] || requests[1].Key.Subject != want[subject] {
			t.Errorf("%.20q is called %.20q and %.20q", subjects[subject], requests[0].Key.Subject, requests[1].Key.Subject)
		}
		for _, r := range requests {
			if err := r.Normalize(limiter.Take); err != nil {
				t.Errorf("%.20q: %v", subjects[subject], err)
			}
		}
	}
	keys := target.AllKeys()
	if len(keys) != 2*(len(subjects)-1) || target.Subjects() != len(subjects) { // one of them asks twice
		t.Errorf("%d keys of %d subjects", len(keys), target.Subjects())
	}
	for i, key := range keys {
		if slices.Contains(keys[:i], key) {
			t.Errorf("two are called %v", key)
		}
	}
}

// What is wrong with a request is its error, and what may have several limits is counted.
func TestTargetsOfUnfitAndMixedRequests(t *testing.T) {
	if _, err := NewTarget(1, 1, func(int, int) limiter.Request { return limiter.Request{Key: limiter.Key{Subject: "a"}} }); err == nil {
		t.Error("a request without a limit is taken")
	}
	target, err := NewTarget(4, 1, func(subject, _ int) limiter.Request {
		return limiter.Request{Key: limiter.Key{Subject: []string{"a", "b"}[subject%2], Name: "n"}, Limit: limiter.Limit{Count: int64(5 + subject/3), Period: time.Second}}
	})
	if err != nil || target.MixedKeys(0) != 1 || target.MostAtOnce() != 5 {
		t.Errorf("%v: %d mixed, %d at once", err, target.MixedKeys(0), target.MostAtOnce())
	}
}
