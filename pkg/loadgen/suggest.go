package loadgen

import (
	"context"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// Suggestion is the least count that keeps a promise.
type Suggestion struct {
	// Limit is the limit that was asked about, with that count, and Tally is its result.
	Limit store.Limit
	Tally *Tally
	// Kept is false if no count keeps the promise; Limit then has the greatest possible
	// count.
	Kept bool
	// Below is the result of one unit less, which breaks the promise. It is nil if there
	// is no such limit.
	Below *Tally
}

// Suggest searches the least count, for the limit's algorithm, period and burst, that
// keeps a promise on a trace whose requests are by the fields; kept says whether the
// result of a count keeps it. A burst that the limit does not give follows the count.
//
// It doubles the count until the promise is kept, and then halves the distance to one
// that broke it; so one unit less breaks it. Smaller counts do not keep the promise
// either, as long as a greater count never denies more. Requests of different costs and
// the edges of windows can break that rule in places.
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

// tallyOf decides a trace whose subjects all ask for one limit, and counts no more than
// is denied. It is nil if there is no such limit: a burst can be too great for a small
// count.
func tallyOf(ctx context.Context, a *apart, limit store.Limit) (*Tally, error) {
	normalized, err := limit.Normalize()
	if err != nil {
		return nil, nil
	}
	return a.tally(ctx, normalized)
}
