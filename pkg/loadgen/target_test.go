package loadgen

import (
	"fmt"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Keys that are shared count as one, and those under several limits as mixed.
func TestMixedKeys(t *testing.T) {
	target, err := NewTarget(9, 2, func(subject, limit int) limiter.Request {
		r := limiter.Request{Limit: limiter.Limit{Algorithm: limiter.TokenBucket, Count: 10, Period: limiter.MinPeriod}}
		if limit == 0 {
			r.Key = limiter.Key{Subject: fmt.Sprint("shared:", subject%3), Name: "limit"}
		} else {
			r.Key = limiter.Key{Subject: fmt.Sprint("own:", subject), Name: "limit"}
		}
		if subject%3 == 1 && subject > 1 || subject == 8 {
			r.Limit.Count = 20
		}
		return r
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(target.Keys(0)) != 3 || target.MixedKeys(0) != 2 || len(target.Keys(1)) != 9 || target.MixedKeys(1) != 0 {
		t.Errorf("%d keys, %d mixed, and %d, %d mixed", len(target.Keys(0)), target.MixedKeys(0), len(target.Keys(1)), target.MixedKeys(1))
	}
}
