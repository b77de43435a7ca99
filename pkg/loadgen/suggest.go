package loadgen

import (
	"context"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// Promise is how much may be denied at most, such as "denied_keys<1%" or "denied<=20".
type Promise struct {
	text    string
	keys    bool // it is about keys, not requests
	share   bool // of all that asked, in percent; else a number
	orEqual bool
	bound   float64
}

// ParsePromise reads a promise: "denied", of requests, or "denied_keys", of subjects
// denied at least once, then "<" or "<=", and a share in percent or a number. The
// error is a [limiter.ErrInvalid].
func ParsePromise(text string) (Promise, error) {
	wrong := limiter.Invalidf("promise %q is unfit; write it like denied_keys<1%%, denied<=0.5%% or denied<20", text)
	what, bound, found := strings.Cut(text, "<")
	if !found {
		return Promise{}, wrong
	}
	p := Promise{text: text}
	switch strings.TrimSpace(what) {
	case "denied":
	case "denied_keys":
		p.keys = true
	default:
		return Promise{}, wrong
	}
	bound, p.orEqual = strings.CutPrefix(bound, "=")
	bound, p.share = strings.CutSuffix(strings.TrimSpace(bound), "%")
	var err error
	if p.bound, err = strconv.ParseFloat(strings.TrimSpace(bound), 64); err != nil || !(p.bound >= 0) || p.bound > 1e15 {
		return Promise{}, wrong
	}
	if p.bound == 0 && !p.orEqual {
		return Promise{}, limiter.Invalidf("promise %q cannot be kept, nothing being less than 0; write <=0", text)
	}
	return p, nil
}

// String returns the promise as it was written.
func (p Promise) String() string { return p.text }

// Kept reports whether what was tallied keeps the promise.
func (p Promise) Kept(t *Tally) bool {
	denied, all := p.figures(t)
	value, bound := float64(denied), p.bound
	if p.share {
		value, bound = 100*value, bound*float64(all)
	}
	// Nothing denied of nothing asked is as good as it gets.
	return value < bound || p.orEqual && value == bound || denied == 0
}

func (p Promise) figures(t *Tally) (denied, all int64) {
	if p.keys {
		return t.KeysDenied(), t.Keys()
	}
	return t.Denied(), t.Requests()
}

// Actual returns the tally's own figure, in the unit of the promise, such as "1.25%".
func (p Promise) Actual(t *Tally) string {
	denied, all := p.figures(t)
	if !p.share {
		return strconv.FormatInt(denied, 10)
	}
	return strconv.FormatFloat(100*float64(denied)/float64(max(1, all)), 'g', 4, 64) + "%"
}

// Suggestion is the least count that keeps a promise.
type Suggestion struct {
	// Limit is the limit that was asked about with that count, and Tally what comes
	// of it.
	Limit limiter.Limit
	Tally *Tally
	// Kept is false if no count keeps the promise; Limit then has the greatest one
	// that there is.
	Kept bool
	// Below is what comes of one unit less, which breaks the promise. It is nil if
	// there is no limit of one unit less.
	Below *Tally
}

// Suggest searches the least count, for the limit's algorithm, period and burst, that
// keeps a promise on a trace whose requests are by the fields. A burst that the limit
// does not give follows the count.
//
// It doubles the count until the promise is kept, and then halves the distance to one
// that broke it; so one unit less breaks it. That no still lesser count keeps it, too,
// is so where a greater count denies less, which requests of different costs and a
// limit's edges can make untrue in places.
func Suggest(ctx context.Context, t *trace.Trace, limit limiter.Limit, promise Promise, fields ...int) (Suggestion, error) {
	greatest := int64(limiter.MaxCount)
	if limit.Algorithm == limiter.SlidingLog {
		greatest = limiter.MaxSlidingLogCount
	}
	var tally, below *Tally
	try := func(count int64) (kept bool, err error) {
		tally, err = tallyOf(ctx, t, withCount(limit, count), fields)
		return err == nil && tally != nil && promise.Kept(tally), err
	}
	broken, count := int64(0), int64(1)
	for {
		kept, err := try(count)
		if err != nil {
			return Suggestion{}, err
		}
		if kept {
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
		kept, err := try(middle)
		if err != nil {
			return Suggestion{}, err
		}
		if kept {
			count, best = middle, tally
		} else {
			broken, below = middle, tally
		}
	}
	return Suggestion{Limit: withCount(limit, count), Tally: best, Kept: true, Below: below}, nil
}

func withCount(limit limiter.Limit, count int64) limiter.Limit {
	limit.Count = count
	return limit
}

// tallyOf decides a trace under a limit and counts no more than is denied. It is nil
// if there is no such limit: a burst can be too great for a small count.
func tallyOf(ctx context.Context, t *trace.Trace, limit limiter.Limit, fields []int) (*Tally, error) {
	if _, err := limit.Normalize(); err != nil {
		return nil, nil
	}
	s, err := newSimulator(t, UnderLimit(limit, fields...))
	if err != nil {
		return nil, err
	}
	err = s.run(ctx, t)
	return &s.result.Tally, err
}
