package probe

import (
	"cmp"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
)

// drift is by which part of it two clocks may differ about how long something takes.
const drift = 2000

// moment is the first instant at which a request can have been decided, lo, or the last one, hi, in microseconds.
type moment struct {
	at, lo, hi int64
	outcome    endpoint.Outcome
}

// fitsWindows reports whether all answers fit windows that begin at instants that are not known. The audit takes each
// answer for right that is right wherever windows begin; here they begin at the same instants for all answers to a
// subject, or with its first request when it is unused.
func (e *proof) fitsWindows() bool {
	return !e.isCounter() && !e.isTurned() || !e.canChoose() || !slices.ContainsFunc(e.keys, func(k key) bool {
		return !e.fitsKey(k, false) && !e.fitsKey(k, true)
	})
}

// fitsKey is fitsWindows for one subject, if denied requests are charged, or if they are not.
func (e *proof) fitsKey(k key, charged bool) bool {
	if first := e.limit; e.isTurned() {
		first.FromFirst = true
		if f := e.audit(&first, []key{k}, nil).Finding(); f.OverAdmitted+f.UnderAdmitted == 0 {
			return true
		}
	}
	width := e.limit.Period / time.Duration(max(1, e.limit.Slices))
	var all, since []moment
	var begun time.Time
	fitsFirst := true
	for _, event := range slices.SortedStableFunc(slices.Values(slices.Concat(k.events, k.charged)), bySent) {
		if event.Sent.Sub(begun) >= e.limit.Period+width { // nothing of it can be in use
			fitsFirst, since, begun = fitsFirst && e.fitsFirst(since, charged), nil, event.Sent
		}
		begun = begun.Add(event.Sent.Sub(begun).Truncate(width))
		within := resolution + event.Sent.Sub(k.events[0].Sent)/drift
		lo, hi := event.Sent.Add(-within).UnixMicro(), event.Answered.Add(within).UnixMicro()
		outcome := event.Outcome
		if event.way != "" { // it may have been charged
			outcome = endpoint.Failed
		}
		since = append(since, moment{lo, lo, hi, outcome}, moment{hi, lo, hi, outcome})
		all = append(all, since[len(since)-2:]...)
	}
	inOrder(all)
	return fitsFirst && e.fitsFirst(since, charged) || e.fitsWithin(all, 0, width.Microseconds(), charged)
}

func inOrder(moments []moment) {
	slices.SortStableFunc(moments, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
}

// fitsFirst reports whether answers fit if a window begins with the first of them. Their instants count from then,
// which is not known exactly.
func (e *proof) fitsFirst(since []moment, charged bool) bool {
	if len(since) == 0 {
		return true
	}
	begin, within := since[0].lo, since[0].hi-since[0].lo
	for i := range since {
		m := &since[i]
		isFirst := m.at == m.lo
		if m.lo = max(begin, m.lo-within); isFirst {
			m.at = m.lo
		}
	}
	inOrder(since)
	return e.fits(since, begin, 0, charged)
}

// fitsWithin reports whether answers fit if a window begins between two instants.
func (e *proof) fitsWithin(moments []moment, from, to int64, charged bool) bool {
	middle := (from + to) / 2
	return e.fits(moments, middle, (to-from)/2, charged) && (to-from < resolution.Microseconds() ||
		e.fitsWithin(moments, from, middle, charged) || e.fitsWithin(moments, middle, to, charged))
}

// fits reports whether answers fit if a window begins at an instant, or earlier or later by off. Services round the
// share of the window before in their own ways, so what counts is whether a whole unit is too much or too little.
func (e *proof) fits(moments []moment, begin, off int64, charged bool) bool {
	full, count := max(1, e.limit.Slices), float64(e.limit.Count)
	width := e.limit.Period.Microseconds() / full
	// nothing is used in the windows before the first
	origin := begin + ((moments[0].at-begin)/width-full-2)*width
	n := (moments[len(moments)-1].at+off-origin)/width + 1
	least, most := make([]int64, n), make([]int64, n)
	used := func(units []int64, at int64) float64 {
		now := (at - origin) / width
		sum := 0.0
		if e.isCounter() {
			sum = float64(units[now-full]) * float64(width-(at-origin)%width) / float64(width)
		}
		for _, n := range units[now-full+1:] {
			sum += float64(n)
		}
		return sum
	}
	for _, m := range moments {
		lo, hi, itself := m.lo-off, m.hi+off, 0.0
		if charged && m.outcome == endpoint.Denied {
			itself = 1
		}
		charges := m.outcome == endpoint.Allowed || itself > 0
		switch {
		case m.at == m.lo && m.outcome == endpoint.Allowed && used(least, hi) >= count,
			m.at == m.hi && m.outcome == endpoint.Denied && used(most, lo)-itself <= count-1:
			return false
		case m.at == m.lo && (charges || m.outcome == endpoint.Failed):
			most[(hi-origin)/width]++
		case m.at == m.hi && charges:
			least[(lo-origin)/width]++
		}
	}
	return true
}
