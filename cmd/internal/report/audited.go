package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// inWords tells of the lie with its first evidence.
func (l *Lie) inWords() string {
	text := fmt.Sprintf("%s was told as %s and is %s", strings.ReplaceAll(l.Field, "_", "-"), l.Told, l.True)
	if !l.At.IsZero() {
		text += ", at " + l.At.UTC().Format("15:04:05.000000")
	}
	if l.Key != "" {
		text += " of " + l.Key
	}
	if l.Answers > 1 {
		text += fmt.Sprintf("; %s told it wrong", plural(l.Answers, "answer"))
	}
	return text
}

// lied reports whether answers told something wrong.
func (a *Audit) lied() bool { return a.Lies != nil && a.Lies.Wrong > 0 }

// lies tells of each field that answers told wrong.
func (a *Audit) lies() []string {
	var all []string
	if a.lied() {
		for i := range a.Lies.Fields {
			all = append(all, a.Lies.Fields[i].inWords())
		}
	}
	return all
}

// reached is how much of the limit was in use at most: 1 is a limit that was reached. A
// limit that denied was reached, since a request may ask for more than is left.
func (l *Limit) reached() float64 {
	switch {
	case l.Denied > 0:
		return 1
	case l.LimitReached != nil:
		return *l.LimitReached
	}
	return l.WorstWindowRatio // of a document of a version that did not have it
}

// isUntested reports whether the limit of a run was never reached. A simulation without a
// store is right by construction.
func (l *Limit) isUntested(kind Kind, r *Run) bool {
	return l.reached() < 1 && !(kind == Simulation && r.Store == NoStore)
}

// untested says which limit was never reached, so that its audit could not find what it
// admits too many; empty if all were.
func (r *Run) untested(kind Kind) string {
	if r.Requests == 0 {
		return "nothing was sent, so nothing is known"
	}
	limits := r.judged()
	var least *Limit
	for i := range limits {
		if limits[i].isUntested(kind, r) && (least == nil || limits[i].reached() < least.reached()) {
			least = &limits[i]
		}
	}
	if least == nil {
		return ""
	}
	name := ""
	if len(r.Limits) > 1 {
		name = least.Name + " was "
	}
	text := fmt.Sprintf("%snever above %s of the limit, so over-admission was not tested", name, percentUp(least.reached()))
	if rate := r.rateToReach(least); rate > 0 && kind == LoadTest {
		return text + "; try " + shell.Command("--rate", whole(rate))
	}
	return text + "; ask for more, or let fewer keys ask"
}

// percentUp writes a share that is below 1 and not known to be less than shown.
func percentUp(f float64) string {
	const rounding = 1e-9 // of a float
	percent := math.Ceil(100*f - rounding)
	return fmt.Sprintf("%.0f%%", math.Min(percent, 99))
}

// rateToReach is a rate at which the load would have reached the limit in its time, with
// a fifth to spare; 0 if none can be named. The busiest key has to ask for what the limit
// allows at once, and for what becomes free meanwhile.
func (r *Run) rateToReach(l *Limit) int64 {
	seconds := float64(r.countedMS()) / 1000
	limit, err := store.ParseLimit(l.Limit)
	if err == nil {
		limit, err = limit.Normalize()
	}
	if err != nil || r.Rate <= 0 || r.Scenario != "" || r.Policy != "" || len(r.Heat) == 0 || seconds <= 0 || r.Allowed == 0 {
		return 0
	}
	busiest := float64(r.Heat[0].Allowed+r.Heat[0].Denied) / float64(max(r.Heat[0].Keys, 1)) / seconds
	if sums := r.Audit.KeySums; sums != nil && sums.Sum > 0 {
		busiest *= sums.Sum / float64(r.Allowed) // requests may cost more than a unit
	}
	needed := float64(limit.Count)/limit.Period.Seconds() + float64(limit.Capacity())/seconds
	const spare = 1.2
	if busiest <= 0 {
		return 0
	}
	rate := spare * r.Rate * needed / busiest
	step := math.Pow(10, math.Floor(math.Log10(rate))-1)
	if rounded := math.Ceil(rate/step) * step; rounded < mostOfAnything {
		return int64(math.Ceil(rounded))
	}
	return 0
}
