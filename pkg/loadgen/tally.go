// Package loadgen sends recorded or generated load to rate limits, and counts the results. It prints nothing, and
// works with any [store.Store].
package loadgen

import (
	"cmp"
	"slices"
)

// Tally counts allowed and denied requests of each subject. The zero Tally is empty. It is for one goroutine.
type Tally struct {
	counts            []tallied // by subject
	keys, deniedKeys  int64
	allowed, requests int64
}

type tallied struct{ allowed, denied int64 }

func (c tallied) requests() int64 { return c.allowed + c.denied }

// Add counts a request of a subject. Subjects are small numbers, since the Tally has memory for each up to the
// highest.
func (t *Tally) Add(subject uint32, allowed bool) {
	if int(subject) >= len(t.counts) {
		t.counts = append(t.counts, make([]tallied, int(subject)+1-len(t.counts))...)
	}
	c := &t.counts[subject]
	if c.requests() == 0 {
		t.keys++
	}
	t.requests++
	if allowed {
		t.allowed++
		c.allowed++
		return
	}
	if c.denied == 0 {
		t.deniedKeys++
	}
	c.denied++
}

// addAll adds the counts of other subjects; subject converts their numbers to the numbers here.
func (t *Tally) addAll(others *Tally, subject func(uint32) uint32) {
	if last := len(others.counts) - 1; last >= 0 {
		if missing := int(subject(uint32(last))) + 1 - len(t.counts); missing > 0 {
			t.counts = append(t.counts, make([]tallied, missing)...)
		}
	}
	for i, c := range others.counts {
		t.counts[subject(uint32(i))] = c
	}
	t.keys += others.keys
	t.deniedKeys += others.deniedKeys
	t.allowed += others.allowed
	t.requests += others.requests
}

// Allowed returns the number of allowed requests of all subjects.
func (t *Tally) Allowed() int64 { return t.allowed }

// Denied returns the number of denied requests of all subjects.
func (t *Tally) Denied() int64 { return t.requests - t.allowed }

// Requests returns the number of requests.
func (t *Tally) Requests() int64 { return t.requests }

// Keys returns the number of subjects with a request.
func (t *Tally) Keys() int64 { return t.keys }

// KeysDenied returns the number of subjects that were denied at least once.
func (t *Tally) KeysDenied() int64 { return t.deniedKeys }

// SubjectCount is the counts of one subject.
type SubjectCount struct {
	Subject         uint32
	Allowed, Denied int64
}

// Of returns the counts of one subject.
func (t *Tally) Of(subject uint32) SubjectCount {
	if int(subject) >= len(t.counts) {
		return SubjectCount{Subject: subject}
	}
	return SubjectCount{subject, t.counts[subject].allowed, t.counts[subject].denied}
}

// MostDenied returns the n subjects with the most denials, or fewer if not that many were denied. Among equals the
// one with more requests comes first, then the lower number.
func (t *Tally) MostDenied(n int) []SubjectCount {
	var denied []SubjectCount
	for i, c := range t.counts {
		if c.denied > 0 {
			denied = append(denied, SubjectCount{uint32(i), c.allowed, c.denied})
		}
	}
	slices.SortFunc(denied, func(a, b SubjectCount) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Allowed, a.Allowed), cmp.Compare(a.Subject, b.Subject))
	})
	return slices.Clip(denied[:min(n, len(denied))])
}

// Busiest returns how many requests the subject sent that sent most.
func (t *Tally) Busiest() (most int64) {
	for _, c := range t.counts {
		most = max(most, c.requests())
	}
	return most
}
