package operation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// applied is a site whose clock is that of the bubble, and applies plans.
type applied struct {
	*site
	t *testing.T
}

func newApplied(t *testing.T) *applied {
	s := newSite(t)
	s.Now = time.Now
	return &applied{s, t}
}

// wanted doubles the limits of some until so long after now.
func (a *applied) wanted(subjects string, lasts time.Duration) store.Override {
	o := planToTriple(a.t, subjects).Override
	o.ExpiresAt = time.Now().Add(lasts)
	return o
}

// stepTexts are the steps in short.
func stepTexts(steps []ApplyStep) (all []string) {
	for i := range steps {
		all = append(all, steps[i].Do+" "+allowance.Whom(&steps[i].Override))
	}
	return all
}

// apply applies a plan, and returns what it did.
func (a *applied) apply(plan *ApplyPlan) ([]string, *ApplyDifference) {
	a.t.Helper()
	plan.Consent.Yes = true
	d, err := a.Difference(a.t.Context(), plan)
	if err != nil {
		a.t.Fatal(err)
	}
	made, err := a.Apply(a.t.Context(), plan, d, &watcher{})
	if err != nil || !slices.Equal(stepTexts(made), stepTexts(d.Steps)) {
		a.t.Fatalf("made %v of %v, %v", stepTexts(made), stepTexts(d.Steps), err)
	}
	return stepTexts(made), d
}

// inForceNow are the overrides in force, in short.
func (a *applied) inForceNow() (all []string) {
	a.t.Helper()
	overrides, err := a.Overrides(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, o := range overrides {
		all = append(all, fmt.Sprint(o.Subjects, " ", o.Owner, " ", o.Left.Round(time.Second), " ", o.Reason))
	}
	slices.Sort(all)
	return all
}

// The same plan twice is one state, and nothing is removed without being asked for.
func TestAPlanThatIsAppliedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplied(t)
		one, two, over := a.wanted("one", time.Hour), a.wanted("two", 2*time.Hour), a.wanted("over", minApplied-1)
		plan := &ApplyPlan{Owner: "ansible", Overrides: []store.Override{one, two, over}}
		if did, d := a.apply(plan); !slices.Equal(did, []string{"set one", "set two"}) || d.Over != 1 {
			t.Errorf("it did %v, %+v", did, d)
		}
		time.Sleep(time.Minute)
		if did, d := a.apply(plan); len(did) > 0 || d.Same != 2 || d.Over != 1 {
			t.Errorf("the second time it did %v, %+v", did, d)
		}
		if runs := a.ended(); len(runs) != 1 || len(runs[0].Overrides) != 2 || runs[0].Changed != 2 {
			t.Errorf("the audit log has %+v", runs)
		}
		shorter := &ApplyPlan{Owner: "ansible", Overrides: []store.Override{one}}
		if did, d := a.apply(shorter); len(did) > 0 || len(d.Left) != 1 || d.Left[0].Subjects.String() != "two" {
			t.Errorf("without two it did %v, %+v", did, d)
		}
		if _, err := a.SetOverride(t.Context(), planToTriple(t, "theirs"), &watcher{}); err != nil {
			t.Fatal(err)
		}
		a.apply(&ApplyPlan{Owner: "terraform", Overrides: []store.Override{a.wanted("other", time.Hour)}})
		shorter.Prune = true
		if did, _ := a.apply(shorter); !slices.Equal(did, []string{"revoke two"}) {
			t.Errorf("with prune it did %v", did)
		}
		want := []string{"one ansible 59m0s why", "other terraform 1h0m0s why", "theirs  1h0m0s why"}
		if got := a.inForceNow(); !slices.Equal(got, want) {
			t.Errorf("in force are %q, want %q", got, want)
		}
	})
}

// What an operator or another owner has set meanwhile is not undone.
func TestAPlanThatMeetsWhatOthersHaveSet(t *testing.T) {
	for _, test := range []struct {
		name      string
		owner     string        // of what is in force
		lasts     time.Duration // of it; the plan wants an hour
		reason    string
		did, kept int
		refused   bool
		then      string // whose it is afterwards, and for how long
	}{
		{name: "same end", owner: "ansible", lasts: time.Hour, then: "ansible 1h0m0s why"},
		{name: "almost the same end", owner: "ansible", lasts: time.Hour - sameEnd + time.Millisecond, then: "ansible 59m50s why"},
		{name: "an earlier end", owner: "ansible", lasts: time.Hour - sameEnd, did: 1, then: "ansible 1h0m0s why"},
		{name: "a later end", owner: "ansible", lasts: time.Hour + sameEnd, did: 1, then: "ansible 1h0m0s why"},
		{name: "another reason", owner: "ansible", lasts: time.Hour, reason: "other", did: 1, then: "ansible 1h0m0s why"},
		{name: "an operator for longer", lasts: time.Hour + sameEnd, reason: "night", kept: 1, then: " 1h0m10s night"},
		{name: "an operator, a little longer", lasts: time.Hour + sameEnd - time.Millisecond, then: " 1h0m10s why"},
		{name: "an operator for less", lasts: time.Hour - sameEnd, did: 1, then: " 1h0m0s why"},
		{name: "another owner, alike", owner: "terraform", lasts: time.Hour, then: "terraform 1h0m0s why"},
		{name: "another owner, longer", owner: "terraform", lasts: 2 * time.Hour, refused: true, then: "terraform 2h0m0s why"},
		{name: "another owner, another reason", owner: "terraform", lasts: time.Hour, reason: "r", refused: true,
			then: "terraform 1h0m0s r"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newApplied(t)
				there := planToTriple(t, "it")
				there.Lasts, there.Override.Owner = test.lasts, test.owner
				if test.reason != "" {
					there.Override.Reason = test.reason
				}
				if _, err := a.SetOverride(t.Context(), there, &watcher{}); err != nil {
					t.Fatal(err)
				}
				plan := &ApplyPlan{Owner: "ansible", Overrides: []store.Override{a.wanted("it", time.Hour)}, Prune: true}
				if test.refused {
					if _, err := a.Difference(t.Context(), plan); !errors.Is(err, store.ErrRefused) {
						t.Errorf("the error is %v", err)
					}
				} else if did, d := a.apply(plan); len(did) != test.did || len(d.Kept) != test.kept {
					t.Errorf("it did %v, and kept %d", did, len(d.Kept))
				}
				if got := a.inForceNow(); len(got) != 1 || got[0] != "it "+test.then {
					t.Errorf("in force are %q, want %q", got, "it "+test.then)
				}
			})
		})
	}
}

// Ends are by the clock of the store, also if that of the machine differs.
func TestAPlanOnAMachineWhoseClockIsWrong(t *testing.T) {
	for _, wrong := range []time.Duration{-20 * time.Minute, 20 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			a := newApplied(t)
			a.Now = func() time.Time { return time.Now().Add(wrong) }
			over := &ApplyPlan{Owner: "ansible", Overrides: []store.Override{a.wanted("over", -time.Minute)}, Consent: Consent{Yes: true}}
			if d, err := a.Difference(t.Context(), over); err != nil {
				t.Fatal(err)
			} else if made, err := a.Apply(t.Context(), over, d, &watcher{}); err != nil || len(made) > 0 || len(a.inForceNow()) > 0 {
				t.Errorf("one that is over: made %v, %v; in force are %q", made, err, a.inForceNow())
			}
			plan := &ApplyPlan{Owner: "ansible", Overrides: []store.Override{a.wanted("one", time.Hour), a.wanted("two", time.Hour)}}
			a.apply(plan)
			if got := a.inForceNow(); !slices.Equal(got, []string{"one ansible 1h0m0s why", "two ansible 1h0m0s why"}) {
				t.Errorf("with a clock that is %s wrong, in force are %q", wrong, got)
			}
			if did, d := a.apply(plan); len(did) > 0 || d.Same != 2 {
				t.Errorf("the second time it did %v, %+v", did, d)
			}
		})
	}
}

// failsAfter opens audit logs until it has opened so many.
func failsAfter(open func() (auditlog.Writer, error), most int) func() (auditlog.Writer, error) {
	return func() (auditlog.Writer, error) {
		if most--; most < 0 {
			return nil, errors.New("no space left")
		}
		return open()
	}
}

// A plan that cannot be made changes nothing; what is made of one that breaks off is known.
func TestAPlanThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplied(t)
		plan := &ApplyPlan{Owner: "ansible",
			Overrides: []store.Override{a.wanted("one", time.Hour), a.wanted("late", store.MaxOverrideTime+1)}}
		if _, err := a.Difference(t.Context(), plan); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "late, ×3") {
			t.Errorf("the error is %v", err)
		}
		plan.Overrides[1] = a.wanted("two", store.MaxOverrideTime)
		d, err := a.Difference(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{answer: errNo}
		if made, err := a.Apply(t.Context(), plan, d, w); !errors.Is(err, errNo) || len(made) > 0 || len(w.questions) != 1 ||
			w.questions[0].Text != "Make these 2 changes" {
			t.Errorf("made %v, %v, after %+v", made, err, w.questions)
		}
		w = &watcher{onConfirm: func() {
			if _, err := a.SetOverride(t.Context(), planToTriple(t, "one"), &watcher{}); err != nil {
				t.Fatal(err)
			}
		}}
		if made, err := a.Apply(t.Context(), plan, d, w); !errors.Is(err, store.ErrRefused) || len(made) > 0 {
			t.Errorf("after another change made %v, %v", made, err)
		}
		if got := a.inForceNow(); !slices.Equal(got, []string{"one  1h0m0s why"}) {
			t.Errorf("in force are %q", got)
		}
		plan.Overrides = nil
		for i := range mostOfRun + 1 {
			plan.Overrides = append(plan.Overrides, a.wanted(fmt.Sprint("n", i), time.Hour))
		}
		plan.Consent.Yes = true
		if d, err = a.Difference(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		a.log.beginFail = errors.New("full")
		if made, err := a.Apply(t.Context(), plan, d, w); err == nil || errors.Is(err, outcome.ErrPartly) || len(made) > 0 {
			t.Errorf("with a full disk made %v, %v", made, err)
		}
		a.log.beginFail = nil
		a.OpenAuditLog = failsAfter(a.OpenAuditLog, 1)
		made, err := a.Apply(t.Context(), plan, d, w)
		if !errors.Is(err, outcome.ErrPartly) || !strings.Contains(fmt.Sprint(err), "8 of 9 changes made") || len(made) != mostOfRun ||
			made[0].Override.ID == "" || len(a.inForceNow()) != mostOfRun+1 {
			t.Errorf("made %v, %v", stepTexts(made), err)
		}
	})
}
