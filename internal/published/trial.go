package published

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/spacesaving"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Trial is the next version as a process tries it beside the one in force: which requests it decides, and what it would
// have decided. It is safe for concurrent use.
type Trial struct {
	Plan Canary
	now  func() time.Time
	// ends is the instant of the process's clock at which it ends; nil for never.
	ends atomic.Pointer[time.Time]
	// until is the same instant by the store's clock, 0 for never.
	until atomic.Int64

	figures counters
	limits  map[LimitName]*limitCounters // of both versions; it is not changed any more once the trial decides
	mu      sync.Mutex
	anew    *spacesaving.Sketch[Subject, struct{}]
	noMore  *spacesaving.Sketch[Subject, struct{}]
}

// counters are the figures of a trial that are changed by takes.
type counters struct{ judged, unjudged, denied, anew, noMore, byNext, byNextDenied atomic.Int64 }

type limitCounters struct{ anew, noMore atomic.Int64 }

// LimitName names a limit of a policy.
type LimitName struct{ Policy, Limit string }

// Subject is a subject under a limit.
type Subject struct{ Limit, Subject string } // the name of the limit as "policy/limit"

// subjectsKept is how many subjects have a counter.
const subjectsKept = 100

func newTrial(plan Canary, now func() time.Time) *Trial {
	keep := func(s Subject) Subject { return Subject{strings.Clone(s.Limit), strings.Clone(s.Subject)} }
	t := &Trial{Plan: plan, now: now, limits: map[LimitName]*limitCounters{},
		anew: spacesaving.New[Subject, struct{}](subjectsKept, keep), noMore: spacesaving.New[Subject, struct{}](subjectsKept, keep)}
	t.until.Store(int64(plan.Until))
	return t
}

// Ended reports whether the trial is over, so that the version in force is alone.
func (t *Trial) Ended() bool {
	ends := t.ends.Load()
	return ends != nil && !t.now().Before(*ends)
}

// Policies returns the policies in force, those that the next version changes with that version beside them. A policy that
// one of them lacks stays as it is: it comes or goes when the next version is promoted.
func (t *Trial) Policies(inForce, next []*policy.Policy) []*policy.Policy {
	policies := slices.Clone(inForce)
	for i, p := range policies {
		at := slices.IndexFunc(next, func(other *policy.Policy) bool { return other.Name == p.Name })
		if at < 0 || sameLimits(p, next[at]) {
			continue
		}
		c := policy.Canary{Next: next[at], Share: t.Plan.Share, By: t.Plan.By, Ended: t.Ended,
			Unfit: func() { t.figures.unjudged.Add(1) }}
		if t.Plan.Share == 0 {
			c.Judged = func(trial *store.Trial, reqs []store.Request, decisions []store.Decision, next []bool) {
				reqs, decisions = ofPolicy(p.Name, reqs, decisions)
				t.judged(trial, reqs, decisions, next)
			}
		} else {
			c.Decided = func(byNext bool, reqs []store.Request, decisions []store.Decision) {
				reqs, decisions = ofPolicy(p.Name, reqs, decisions)
				t.decided(byNext, reqs, decisions)
			}
		}
		policies[i] = p.WithCanary(c)
		for _, version := range []*policy.Policy{p, policies[i].Next()} {
			for j := range version.Limits {
				name := LimitName{p.Name, store.WithoutNext(version.Limits[j].Name)}
				if t.limits[name] == nil {
					t.limits[name] = new(limitCounters)
				}
			}
		}
	}
	return policies
}

// ofPolicy returns the part of a call that is of a policy, whose versions are compared: a call can be of several policies.
func ofPolicy(name string, reqs []store.Request, decisions []store.Decision) ([]store.Request, []store.Decision) {
	isOther := func(r store.Request) bool { return !strings.HasPrefix(r.Key.Name, name+"/") }
	if !slices.ContainsFunc(reqs, isOther) {
		return reqs, decisions
	}
	var ownReqs []store.Request
	var own []store.Decision
	for i := range reqs {
		if !isOther(reqs[i]) {
			ownReqs, own = append(ownReqs, reqs[i]), append(own, decisions[i])
		}
	}
	return ownReqs, own
}

// sameLimits reports whether two versions of a policy have the same limits.
func sameLimits(a, b *policy.Policy) bool {
	return slices.Equal(a.HashBy, b.HashBy) && reflect.DeepEqual(a.Limits, b.Limits)
}

// judged counts a take that the next version judged; see [store.Trial].
func (t *Trial) judged(trial *store.Trial, reqs []store.Request, decisions []store.Decision, next []bool) {
	if next == nil || len(decisions) == 0 {
		t.figures.unjudged.Add(1)
		return
	}
	allowed, would := store.AllAllowed(decisions), true
	for i, yes := range next {
		would = would && (yes || trial.Requests[i].Shadow)
	}
	t.figures.judged.Add(1)
	if !allowed {
		t.figures.denied.Add(1)
	}
	switch {
	case allowed && !would:
		t.figures.anew.Add(1)
		for i, yes := range next {
			if r := &trial.Requests[i]; !yes && !r.Shadow {
				t.count(t.anew, r.Key, func(c *limitCounters) { c.anew.Add(1) })
			}
		}
	case !allowed && would:
		t.figures.noMore.Add(1)
		for i := range decisions {
			if d := &decisions[i]; !d.Allowed && !d.Shadow {
				t.count(t.noMore, reqs[i].Key, func(c *limitCounters) { c.noMore.Add(1) })
			}
		}
	}
}

// decided counts a take that one of the versions decided.
func (t *Trial) decided(byNext bool, reqs []store.Request, decisions []store.Decision) {
	denied := !store.AllAllowed(decisions)
	if !byNext {
		t.figures.judged.Add(1)
		if denied {
			t.figures.denied.Add(1)
		}
		return
	}
	t.figures.byNext.Add(1)
	if !denied {
		return
	}
	t.figures.byNextDenied.Add(1)
	for i := range decisions {
		if d := &decisions[i]; !d.Allowed && !d.Shadow {
			t.count(t.anew, reqs[i].Key, func(c *limitCounters) { c.anew.Add(1) })
		}
	}
}

// count counts a denial of a key.
func (t *Trial) count(sketch *spacesaving.Sketch[Subject, struct{}], key store.Key, add func(*limitCounters)) {
	name := store.WithoutNext(key.Name)
	if parts, is := policy.ParseKey(store.Key{Subject: key.Subject, Name: name}); is {
		name = parts.LimitName()
		if c := t.limits[LimitName{parts.Policy, parts.Limit}]; c != nil {
			add(c)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sketch.Add(Subject{name, key.Subject}, 1)
}

// Figures are what a process has counted since it began to try a version. A take counts once, under however many
// limits.
type Figures struct {
	// Judged are the takes that both versions judged (shadow), or that the version in force decided (share). Denied are those of
	// them that the version in force denied.
	Judged int64 `json:"judged"`
	Denied int64 `json:"denied"`
	// Anew are those that it allowed and the next version would have denied, and NoMore those that it denied and the next
	// version would have allowed.
	Anew   int64 `json:"anew,omitempty"`
	NoMore int64 `json:"no_more,omitempty"` // takes that were denied and that the next version would have allowed
	// ByNext are those that the next version decided, and ByNextDenied those of them that it denied.
	ByNext       int64 `json:"by_next,omitempty"`
	ByNextDenied int64 `json:"by_next_denied,omitempty"` // takes that the next version denied
	// Unjudged are those that lacked what the next version needs, or that were not decided in the store.
	Unjudged int64 `json:"unjudged,omitempty"`
	// TopAnew are the subjects that the next version would have denied, or has denied, most often, and TopNoMore those
	// that it would no longer deny. The first have the highest counts. A count can be too low, but not too high.
	TopAnew   []SubjectCount `json:"top_anew,omitempty"`
	TopNoMore []SubjectCount `json:"top_no_more,omitempty"` // the subjects that would no longer be denied most often
}

// SubjectCount is how often a subject was denied under a limit.
type SubjectCount struct {
	Limit   string `json:"limit"` // "policy/limit"
	Subject string `json:"subject"`
	N       int64  `json:"n"`
}

// LimitFigures are the denials of the next version under a limit, and those that it would take back.
type LimitFigures struct{ Anew, NoMore int64 }

// Figures returns what was counted, with the first top subjects.
func (t *Trial) Figures(top int) Figures {
	f := Figures{Judged: t.figures.judged.Load(), Denied: t.figures.denied.Load(), Anew: t.figures.anew.Load(),
		NoMore: t.figures.noMore.Load(), ByNext: t.figures.byNext.Load(), ByNextDenied: t.figures.byNextDenied.Load(),
		Unjudged: t.figures.unjudged.Load()}
	t.mu.Lock()
	defer t.mu.Unlock()
	f.TopAnew, f.TopNoMore = topOf(t.anew, top), topOf(t.noMore, top)
	return f
}

func topOf(sketch *spacesaving.Sketch[Subject, struct{}], top int) []SubjectCount {
	var all []SubjectCount
	for _, c := range sketch.Counts() {
		all = append(all, SubjectCount{c.Key.Limit, c.Key.Subject, c.N})
	}
	return topCounts(all, top)
}

// topCounts returns the highest counts, the highest first.
func topCounts(all []SubjectCount, top int) []SubjectCount {
	slices.SortFunc(all, func(a, b SubjectCount) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Limit, b.Limit))
	})
	return all[:min(len(all), top)]
}

// Limits returns what was counted for each limit of the policies that differ.
func (t *Trial) Limits() map[LimitName]LimitFigures {
	all := make(map[LimitName]LimitFigures, len(t.limits))
	for name, c := range t.limits {
		all[name] = LimitFigures{c.anew.Load(), c.noMore.Load()}
	}
	return all
}

// Add adds the figures of another process, and keeps the first top subjects.
func (f *Figures) Add(other *Figures, top int) {
	for _, each := range []struct{ to, from *int64 }{{&f.Judged, &other.Judged}, {&f.Denied, &other.Denied}, {&f.Anew, &other.Anew},
		{&f.NoMore, &other.NoMore}, {&f.ByNext, &other.ByNext}, {&f.ByNextDenied, &other.ByNextDenied}, {&f.Unjudged, &other.Unjudged}} {
		*each.to += max(0, min(*each.from, maxNumber))
	}
	f.TopAnew, f.TopNoMore = sum(f.TopAnew, other.TopAnew, top), sum(f.TopNoMore, other.TopNoMore, top)
}

func sum(all, more []SubjectCount, top int) []SubjectCount {
	for _, c := range more {
		if c.N < 1 || c.N > maxNumber {
			continue
		}
		at := slices.IndexFunc(all, func(known SubjectCount) bool { return known.Limit == c.Limit && known.Subject == c.Subject })
		if at < 0 {
			all = append(all, c)
		} else {
			all[at].N += c.N
		}
	}
	return topCounts(all, top)
}
