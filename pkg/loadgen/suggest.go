package loadgen

import (
	"context"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// Suggestion is the lowest count that fulfils a condition.
type Suggestion struct {
	// Limit is the limit with that count, and Tally its result.
	Limit store.Limit
	Tally *Tally
	// Kept is false if no count fulfils the condition; Limit then has the highest possible count.
	Kept bool
	// Below is the result for one unit less, which does not fulfil it. It is nil if there is no such limit.
	Below *Tally
}

// Suggest searches the lowest count, for the limit's algorithm, period and burst, that fulfils a condition on a
// trace with the fields as the subject; kept reports whether the result of a count fulfils it. Without a burst in
// limit, the burst is the count.
//
// It doubles the count until the condition is fulfilled, and then halves the distance to a count that failed, so
// one unit less fails. Lower counts fail, too, as long as a higher count never denies more. Requests of different
// costs and the edges of windows can break that rule in places.
func Suggest(ctx context.Context, t *trace.Trace, limit store.Limit, kept func(*Tally) bool, fields ...int) (Suggestion, error) {
	greatest := limit.Algorithm.MaxCount()
	asking := UnderLimits(fields, withCount(limit, greatest))
	a, err := newApart(t, &asking)
	if err != nil {
		return Suggestion{}, err
	}
	var tally, below *Tally
	try := func(count int64) (keeps bool, err error) {
		tally, err = tallyOf(ctx, a, withCount(limit, count))
		return err == nil && tally != nil && kept(tally), err
	}
	broken, count := int64(0), int64(1)
	for {
		keeps, err := try(count)
		if err != nil {
			return Suggestion{}, err
		}
		if keeps {
			break
		}
		if count == greatest {
			return Suggestion{Limit: withCount(limit, count), Tally: tally}, nil
		}
		broken, below, count = count, tally, min(2*count, greatest)
	}
	best := tally
	for count-broken > 1 {
		middle := broken + (count-broken)/2
		keeps, err := try(middle)
		if err != nil {
			return Suggestion{}, err
		}
		if keeps {
			count, best = middle, tally
		} else {
			broken, below = middle, tally
		}
	}
	return Suggestion{Limit: withCount(limit, count), Tally: best, Kept: true, Below: below}, nil
}

func withCount(limit store.Limit, count int64) store.Limit {
	limit.Count = count
	return limit
}

// tallyOf decides a trace whose subjects all have one limit, and counts only allowed and denied. It is nil if there
// is no such limit: a burst can be too high for a low count.
func tallyOf(ctx context.Context, a *apart, limit store.Limit) (*Tally, error) {
	normalized, err := limit.Normalize()
	if err != nil {
		return nil, nil
	}
	return a.tally(ctx, normalized)
}
