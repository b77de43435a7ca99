package operation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// pattern reads a pattern that is right.
func pattern(t *testing.T, text string) store.Pattern {
	t.Helper()
	p, err := store.ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// planToTriple triples the limits of some for an hour.
func planToTriple(t *testing.T, subjects string) *OverridePlan {
	t.Helper()
	return &OverridePlan{Text: subjects + " --times 3", Lasts: time.Hour,
		Override: store.Override{Subjects: pattern(t, subjects), Effect: store.OverrideTimes, Thousandths: 3000, Reason: "why"}}
}

// ended are the entries of runs that have ended.
func (s *site) ended() []auditlog.Entry {
	return slices.DeleteFunc(slices.Clone(s.log.entries), func(e auditlog.Entry) bool { return e.Outcome == auditlog.Begun })
}

func TestAnOverrideIsAskedForSetAndWrittenDown(t *testing.T) {
	s := newSite(t)
	w := &watcher{}
	set, err := s.SetOverride(t.Context(), planToTriple(t, "a"), w)
	if err != nil || set.ID == "" || set.By != "night" || len(w.questions) != 1 {
		t.Fatalf("set was %+v, %v, after %+v", set, err, w.questions)
	}
	e := s.ended()[0]
	if e.Command != "override set" || e.Selection != "a --times 3 ("+set.ID+")" || e.Reason != "why" || e.Outcome != auditlog.Done ||
		e.Changed != 1 {
		t.Errorf("the audit log says %+v", e)
	}
	inForce, err := s.Overrides(t.Context())
	if err != nil || len(inForce) != 1 || inForce[0].ID != set.ID {
		t.Errorf("in force are %+v, %v", inForce, err)
	}

	revoked, err := s.RevokeOverrides(t.Context(), &RevokePlan{IDs: []string{set.ID}, Consent: Consent{Reason: "over"}}, w)
	if err != nil || len(revoked) != 1 || revoked[0].ID != set.ID || len(w.questions) != 2 {
		t.Fatalf("revoked were %+v, %v, after %+v", revoked, err, w.questions)
	}
	if e := s.ended()[1]; e.Command != "override revoke" || e.Selection != set.ID+" (a, ×3)" || e.Reason != "over" ||
		e.Outcome != auditlog.Done {
		t.Errorf("the audit log says %+v", e)
	}
	if inForce, _ = s.Overrides(t.Context()); len(inForce) != 0 {
		t.Errorf("in force are %+v", inForce)
	}
}

// An override that is revoked while the question stands is not brought back, and an end that is not later changes nothing.
func TestAnOverrideIsExtendedOnlyWhileInForce(t *testing.T) {
	s := newSite(t)
	set, err := s.SetOverride(t.Context(), planToTriple(t, "a"), &watcher{})
	if err != nil {
		t.Fatal(err)
	}
	for _, lasts := range []time.Duration{time.Minute, set.Left - time.Second} {
		w := &watcher{}
		if _, err := s.ExtendOverride(t.Context(), &ExtendPlan{ID: set.ID, Lasts: lasts}, w); !errors.Is(err, store.ErrInvalid) ||
			len(w.questions) > 0 {
			t.Errorf("to %s: %v, after %+v", lasts, err, w.questions)
		}
	}
	extended, err := s.ExtendOverride(t.Context(), &ExtendPlan{ID: set.ID, Lasts: time.Hour + time.Second, Ends: "--for 3601s"}, &watcher{})
	if err != nil || extended.ID != set.ID || extended.Reason != "why" || !extended.ExpiresAt.After(set.ExpiresAt) {
		t.Fatalf("extended was %+v, %v", extended, err)
	}
	if e := s.ended()[1]; e.Command != "override extend" || e.Selection != set.ID+" (a, ×3) --for 3601s" || e.Reason != "why" {
		t.Errorf("the audit log says %+v", e)
	}
	w := &watcher{onConfirm: func() { s.RevokeOverrides(t.Context(), &RevokePlan{IDs: []string{set.ID}}, &watcher{}) }}
	if _, err := s.ExtendOverride(t.Context(), &ExtendPlan{ID: set.ID, Lasts: 2 * time.Hour}, w); !errors.Is(err, ErrNoOverride) {
		t.Errorf("a revoked one: %v", err)
	}
	if inForce, _ := s.Overrides(t.Context()); len(inForce) != 0 {
		t.Errorf("in force are %+v", inForce)
	}
}

// What ended, how and when, comes from the audit log alone.
func TestWhichOverridesHaveEnded(t *testing.T) {
	s := newSite(t)
	set := func(subjects string) *store.Override {
		o, err := s.SetOverride(t.Context(), planToTriple(t, subjects), &watcher{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	over, revoked, again, kept := set("over"), set("revoked:*"), set("again"), set("kept")
	_, err := s.RevokeOverrides(t.Context(), &RevokePlan{IDs: []string{revoked.ID, again.ID}, Consent: Consent{Reason: "done"}}, &watcher{})
	if err != nil {
		t.Fatal(err)
	}
	set("again")
	inForce, _ := s.Overrides(t.Context())
	var runs []*auditlog.Entry
	for _, e := range s.ended() {
		runs = append(runs, &e)
	}
	runs = append(runs, &auditlog.Entry{
		Overrides: []auditlog.Override{{ID: "nonsense", Override: []byte("[1]")}, {Override: []byte("{}")}}})
	none := slices.DeleteFunc(slices.Clone(inForce), func(o store.Override) bool {
		return o.ID != kept.ID && o.Subjects.String() != "again"
	})
	texts := func(ended []Ended) (all []string) {
		for _, e := range ended {
			all = append(all, fmt.Sprint(e.Subjects, " ", e.At.IsZero(), " ", e.At.Equal(e.ExpiresAt), " ", e.RevokedBy, " ",
				e.Why, " ", e.Reason))
		}
		slices.Sort(all)
		return all
	}
	for _, test := range []struct {
		now  time.Time
		want []string
	}{
		{over.ExpiresAt, []string{"over false true   why", "revoked:* false false night done why"}},
		{over.ExpiresAt.Add(-clockDifference), []string{"over false true   why", "revoked:* false false night done why"}},
		{over.ExpiresAt.Add(-clockDifference - time.Millisecond), []string{
			"over true false   why", "revoked:* false false night done why"}},
	} {
		if got := texts(EndedOverrides(runs, none, test.now)); !slices.Equal(got, test.want) {
			t.Errorf("at %s ended are %q, want %q", test.now, got, test.want)
		}
	}
}

// Nothing is set or revoked that nobody agreed to.
func TestAnOverrideThatNobodyAgreedTo(t *testing.T) {
	s := newSite(t)
	kept, err := s.SetOverride(t.Context(), planToTriple(t, "kept"), &watcher{})
	if err != nil {
		t.Fatal(err)
	}
	no := &watcher{answer: errNo}
	if set, err := s.SetOverride(t.Context(), planToTriple(t, "a"), no); set != nil || !errors.Is(err, errNo) {
		t.Errorf("after a no was set %+v, %v", set, err)
	}
	revoke := &RevokePlan{IDs: []string{kept.ID}}
	if revoked, err := s.RevokeOverrides(t.Context(), revoke, no); len(revoked) > 0 || !errors.Is(err, errNo) {
		t.Errorf("after a no was revoked %+v, %v", revoked, err)
	}
	s.Place.Access = Access{Context: "prod", Protected: true}
	plan := planToTriple(t, "a")
	plan.Consent.Yes = true
	if _, err := s.SetOverride(t.Context(), plan, no); !errors.Is(err, errNo) || no.questions[len(no.questions)-1].Context != "prod" {
		t.Errorf("in a protected context it asked %+v, %v", no.questions, err)
	}
	s.Place.Access = Access{Context: "look", ReadOnly: true}
	var readOnly *connect.ReadOnlyError
	if _, err := s.SetOverride(t.Context(), plan, no); !errors.As(err, &readOnly) {
		t.Errorf("in a read-only context: %v", err)
	}
	if _, err := s.RevokeOverrides(t.Context(), revoke, no); !errors.As(err, &readOnly) {
		t.Errorf("in a read-only context: %v", err)
	}
	if inForce, _ := s.Overrides(t.Context()); len(inForce) != 1 || len(s.ended()) != 1 {
		t.Errorf("in force are %+v, and the audit log has %+v", inForce, s.ended())
	}
}

// If one of several is not in force, none is revoked.
func TestRevokingWhatIsNotInForce(t *testing.T) {
	s := newSite(t)
	kept, err := s.SetOverride(t.Context(), planToTriple(t, "kept"), &watcher{})
	if err != nil {
		t.Fatal(err)
	}
	plan := &RevokePlan{IDs: []string{kept.ID, "nosuch"}, Consent: Consent{Yes: true}}
	_, err = s.RevokeOverrides(t.Context(), plan, &watcher{})
	if !errors.Is(err, ErrNoOverride) || !strings.Contains(err.Error(), `"nosuch"`) {
		t.Errorf("it says %v", err)
	}
	if inForce, _ := s.Overrides(t.Context()); len(inForce) != 1 || len(s.ended()) != 1 {
		t.Errorf("in force are %+v, and the audit log has %+v", inForce, s.ended())
	}
}

// A failure is written down, and is partly done if something was.
func TestAnOverrideThatFails(t *testing.T) {
	s := newSite(t)
	first, _ := s.SetOverride(t.Context(), planToTriple(t, "a"), &watcher{})
	second, _ := s.SetOverride(t.Context(), planToTriple(t, "b"), &watcher{})
	broken := &brokenOverrides{Store: s.memory, table: s.memory, fails: second.ID}
	s.Store = broken
	revoked, err := s.RevokeOverrides(t.Context(), &RevokePlan{IDs: []string{first.ID, second.ID}}, &watcher{})
	if len(revoked) != 1 || !errors.Is(err, outcome.ErrPartly) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("revoked were %+v, %v", revoked, err)
	}
	if e := s.ended()[2]; e.Outcome != auditlog.Partly || e.Matched != 2 || e.Changed != 1 {
		t.Errorf("the audit log says %+v", e)
	}
	if _, err := s.SetOverride(t.Context(), planToTriple(t, "c"), &watcher{}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("it says %v", err)
	}
	if e := s.ended()[3]; e.Outcome != auditlog.Failed || e.Changed != 0 || e.Error == "" {
		t.Errorf("the audit log says %+v", e)
	}
}

// What an override would change, key by key.
func TestWhatAnOverrideWouldChange(t *testing.T) {
	s := newSite(t)
	for _, subject := range []string{"a:1", "a:2", "a:3", "b:1"} {
		s.take(t, subject, 1)
	}
	block := planToTriple(t, "a:2")
	block.Override.Effect = store.OverrideBlock
	blocked, err := s.SetOverride(t.Context(), block, &watcher{})
	if err != nil {
		t.Fatal(err)
	}
	preview := func(o store.Override) *Concerned {
		t.Helper()
		c, err := s.PreviewOverride(t.Context(), &PreviewPlan{Override: o, Selection: everything(t)}, &watcher{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	limit := func(count int64, period time.Duration) store.Override {
		return store.Override{Subjects: pattern(t, "a:*"), Effect: store.OverrideLimit,
			Limit: store.Limit{Algorithm: store.TokenBucket, Count: count, Burst: count, Period: period}}
	}
	for name, test := range map[string]struct {
		override store.Override
		want     Change
	}{
		"more":           {planToTriple(t, "a:*").Override, Loosened},
		"another limit":  {limit(5, time.Hour), Tightened},
		"the same":       {limit(10, time.Hour), Unchanged},
		"the same rate":  {limit(20, 2*time.Hour), Loosened},
		"mixed":          {limit(20, 20*time.Hour), Mixed},
		"exempt":         {store.Override{Subjects: pattern(t, "a:*"), Effect: store.OverrideExempt}, Loosened},
		"fewer units":    {store.Override{Subjects: pattern(t, "a:*"), Effect: store.OverrideAdd, Units: -3}, Tightened},
		"another's name": {store.Override{Subjects: pattern(t, "a:*"), Effect: store.OverrideBlock, Names: pattern(t, "x")}, changes},
	} {
		c := preview(test.override)
		if test.want == changes {
			if c.Keys != 0 {
				t.Errorf("%s: it concerns %+v", name, c)
			}
			continue
		}
		// a:2 stays blocked.
		var want [changes]int64
		want[test.want] += 2
		want[Unchanged]++
		if c.Keys != 3 || c.Counts != want || len(c.Examples) != 3 || len(c.Winning) != 1 || c.Winning[0].Override.ID != blocked.ID ||
			c.Winning[0].Keys != 1 {
			t.Errorf("%s: it concerns %+v", name, c)
		}
	}
	if c := preview(store.Override{Subjects: pattern(t, "*"), Effect: store.OverrideBlock}); c.Counts[Tightened] != 3 || c.Keys != 4 {
		t.Errorf("a block of all concerns %+v", c)
	}
	if len(s.ended()) != 1 {
		t.Errorf("the audit log has %+v", s.ended())
	}
}

// A limit that an override has changed already is compared by what it was without it.
func TestWhatAnOverrideWouldChangeOfAnOverride(t *testing.T) {
	s := newSite(t)
	if _, err := s.SetOverride(t.Context(), planToTriple(t, "a:*"), &watcher{}); err != nil {
		t.Fatal(err)
	}
	s.take(t, "a:before", 1) // as by a service that does not know of it yet
	tripled := tenAnHour
	tripled.Count = 30
	if _, err := storecall.New(s.memory).Take(t.Context(), key("a:after"), tripled, 1); err != nil {
		t.Fatal(err)
	}
	double := planToTriple(t, "a:*").Override
	double.Thousandths = 2000
	c, err := s.PreviewOverride(t.Context(), &PreviewPlan{Override: double, Selection: everything(t)}, &watcher{})
	if err != nil || c.Counts[Tightened] != 2 {
		t.Fatalf("it concerns %+v, %v", c, err)
	}
	for _, e := range c.Examples {
		if e.Now.Limit.Count != 30 || e.Then.Limit.Count != 20 {
			t.Errorf("%s goes from %v to %v", e.Key.Subject, e.Now.Limit, e.Then.Limit)
		}
	}
	configured := func(store.Key) (store.Limit, bool) {
		return store.Limit{Algorithm: store.TokenBucket, Count: 100, Burst: 100, Period: time.Hour}, true
	}
	c, err = s.PreviewOverride(t.Context(), &PreviewPlan{Override: double, Selection: everything(t), Configured: configured}, &watcher{})
	if err != nil || c.Examples[0].Now.Limit.Count != 300 || c.Examples[0].Then.Limit.Count != 200 {
		t.Fatalf("by the configuration it concerns %+v, %v", c, err)
	}
}

// crowded is a store with more keys than can be looked at in time.
type crowded struct{ connect.Store }

func (c crowded) Unwrap() store.Store { return c.Store }

func (crowded) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		for _, named := range q.Keys {
			if named != key("a:idle") && !yield(admin.Entry{Key: named}, nil) {
				return
			}
		}
		for i := 0; q.Keys == nil && i < 3; i++ {
			if !yield(admin.Entry{Key: key(fmt.Sprintf("a:%d", i))}, nil) {
				return
			}
		}
		if q.Keys != nil {
			return
		}
		q.Progress(81_000, 2_750_000)
		<-ctx.Done()
		yield(admin.Entry{}, ctx.Err())
	}
}

// Whom an override concerns is told also where not all keys can be looked at in time, with how many were,
// and with how many of the keys that were denied lately.
func TestWhatAnOverrideWouldChangeInACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.Store = crowded{s.Store}
		table, _ := admin.DenialTableOf(s.Store)
		denied := []admin.Denied{{Key: key("a:7"), Count: 1}, {Key: key("b:7"), Count: 9}}
		if err := table.AddDenials(t.Context(), admin.Denials{Rows: denied}); err != nil {
			t.Fatal(err)
		}
		// Those that have a name are looked at first, each once.
		plan := &PreviewPlan{Override: planToTriple(t, "a:*").Override, Selection: everything(t), Most: 2 * time.Second,
			Named: []store.Key{key("a:7"), key("a:1"), key("b:1"), key("a:idle")}}
		begin := time.Now()
		c, err := s.PreviewOverride(t.Context(), plan, &watcher{})
		if err != nil || !c.Cut || c.Incomplete != nil || c.Keys != 4 || c.Looked != 81_000 || c.Total != 2_750_000 || c.Denied != 1 ||
			c.DeniedOf != 2 {
			t.Errorf("it concerns %+v, %v", c, err)
		}
		if took := time.Since(begin); took != plan.Most {
			t.Errorf("it looked for %s", took)
		}
		interrupted, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.PreviewOverride(interrupted, plan, &watcher{}); err == nil {
			t.Error("an interrupted look is taken for one that was cut")
		}
	})
}
