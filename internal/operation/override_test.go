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

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// pattern reads a pattern that is right.
func pattern(t *testing.T, text string) store.Pattern {
	t.Helper()
	return must(store.ParsePattern(text))
}

// planToTriple triples the limits of some for an hour.
func planToTriple(t *testing.T, subjects string) *OverridePlan {
	t.Helper()
	return &OverridePlan{Text: subjects + " --times 3", Lasts: time.Hour,
		Override: store.Override{Subjects: pattern(t, subjects), Effect: store.OverrideTimes, Thousandths: 3000,
			Reason: "why"}}
}

// ended are the entries of runs that have ended.
func (s *site) ended() []auditlog.Entry {
	return slices.DeleteFunc(slices.Clone(s.log.entries), func(e auditlog.Entry) bool {
		return e.Outcome == auditlog.Begun
	})
}

// An override that ends at an instant ends then, however long the question takes.
func TestAnOverrideUntilAnInstant(t *testing.T) {
	s := newSite(t)
	plan := planToTriple(t, "a")
	plan.Until = s.now.Add(time.Hour)
	set, err := s.SetOverride(t.Context(), plan, &watcher{onConfirm: func() { s.now = s.now.Add(10 * time.Minute) }})
	if err != nil || set.Left > 50*time.Minute || set.Left < 50*time.Minute-time.Second {
		t.Errorf("set is %+v, %v", set, err)
	}
}

// If one of several is not in force, none is revoked.
func TestRevokingWhatIsNotInForce(t *testing.T) {
	s := newSite(t)
	kept := must(s.SetOverride(t.Context(), planToTriple(t, "kept"), &watcher{}))
	_, err := s.RevokeOverrides(t.Context(), []string{kept.ID, "nosuch"}, Consent{Yes: true}, &watcher{})
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
	broken := &brokenOverrides{s.memory, admin.Tables{SideTable: unsettable{s.memory.SideTable, second.ID}}}
	s.Store = broken
	revoked, err := s.RevokeOverrides(t.Context(), []string{first.ID, second.ID}, Consent{}, &watcher{})
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

// A limit that an override has changed already is that of the configuration, if that has it, else of the record.
func TestWhatAnOverrideWouldChangeOfAnOverride(t *testing.T) {
	s := newSite(t)
	if _, err := s.SetOverride(t.Context(), planToTriple(t, "a:*"), &watcher{}); err != nil {
		t.Fatal(err)
	}
	tripled := tenAnHour
	tripled.Count = 30
	if _, err := storecall.New(s.memory).Take(t.Context(), key("a:1"), tripled, 1); err != nil {
		t.Fatal(err)
	}
	double := planToTriple(t, "a:*").Override
	double.Thousandths = 2000
	c, err := s.PreviewOverride(t.Context(), &OverridePlan{Override: double, Selection: everything(t)}, &watcher{})
	if err != nil || len(c.Limits) != 1 || !strings.HasPrefix(c.Limits[0].Now, "token-bucket:30/1h") ||
		c.Limits[0].Then != "×2" {
		t.Fatalf("it concerns %+v, %v", c, err)
	}
	configured := func(store.Key) (store.Limit, bool) {
		return store.Limit{Algorithm: store.TokenBucket, Count: 100, Burst: 100, Period: time.Hour}, true
	}
	c, err = s.PreviewOverride(t.Context(), &OverridePlan{
		Override: double, Selection: everything(t), Configured: configured}, &watcher{})
	if err != nil || !strings.HasPrefix(c.Limits[0].Now, "token-bucket:300/1h") ||
		!strings.HasPrefix(c.Limits[0].Then, "token-bucket:200/1h") {
		t.Fatalf("by the configuration it concerns %+v, %v", c, err)
	}
}

// crowded is a store with more keys than can be looked at in time.
type crowded struct{ connect.Store }

func (c crowded) Unwrap() store.Store { return c.Store }

func (c crowded) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		for i := range 3 {
			if !yield(admin.Entry{Key: key(fmt.Sprintf("a:%d", i))}, nil) {
				return
			}
			q.Progress(81_000, 2_750_000)
		}
		<-ctx.Done()
		yield(admin.Entry{}, ctx.Err())
	}
}

// Whom an override concerns is told also where not all keys can be looked at in time, with how many were.
func TestWhatAnOverrideWouldChangeInACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		tables, _ := admin.TablesOf(s.Store)
		now := store.InstantOf(time.Now())
		denied := admin.Denials{Now: now}
		for _, subject := range []string{"a:9", "b:9"} {
			denied.Rows = append(denied.Rows, admin.Denied{Key: key(subject), Count: 1, LastAt: now, Since: now})
		}
		if err := tables.AddDenials(t.Context(), denied); err != nil {
			t.Fatal(err)
		}
		s.Store = crowded{s.Store}
		plan := &OverridePlan{Override: planToTriple(t, "a:*").Override, Selection: everything(t),
			Most: 2 * time.Second}
		begin := time.Now()
		c, err := s.PreviewOverride(t.Context(), plan, &watcher{})
		if err != nil || c.Complete || c.Keys != 3 || c.Denied != 1 || c.DeniedOf != 2 ||
			c.Incomplete.Error() != "the time was over (81,000 of about 2,750,000 keys looked at, 3 matched)" {
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
