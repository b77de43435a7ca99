package experiment

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// recorder writes down what an observer is told.
type recorder struct {
	told     []string
	kept     string
	follows  bool
	progress int
}

func (r *recorder) Begin(c *Candidate) time.Duration {
	r.told = append(r.told, "begin "+c.Title())
	if !r.follows {
		return 0
	}
	return loadgen.ProgressEvery
}

func (r *recorder) Progress(soFar *loadgen.Result, length time.Duration) {
	r.progress++
	if soFar.Tally == nil || length <= 0 {
		r.told = append(r.told, "no figures")
	}
}

func (r *recorder) End() { r.told = append(r.told, "end") }

func (r *recorder) Kept(prefix string) { r.kept = prefix }

// opener opens targets in memory, and remembers them.
type opener struct {
	t      *testing.T
	opened []*memoryTarget
	answer func() error // of Decide, instead of the store
}

// memoryTarget is a target in memory that can fail, and remembers what is done with it.
type memoryTarget struct {
	Target
	store   *Store
	opener  *opener
	closed  bool
	cleaned []store.Key
}

func (o *opener) open() (Target, error) {
	backend, err := OpenStore("memory:", connect.Options{Prefix: "rl"})
	if err != nil {
		return nil, err
	}
	target, err := NewStoreTarget(backend, Script)
	if err != nil {
		return nil, err
	}
	o.opened = append(o.opened, &memoryTarget{Target: target, store: backend, opener: o})
	return o.opened[len(o.opened)-1], nil
}

func (m *memoryTarget) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if m.opener.answer != nil {
		if err := m.opener.answer(); err != nil {
			return err
		}
	}
	return m.Target.Decide(ctx, op, reqs, decisions)
}

func (m *memoryTarget) CleanUp(ctx context.Context, keys []store.Key) error {
	if m.closed {
		m.opener.t.Error("it is cleaned up after it was closed")
	}
	m.cleaned = keys
	return m.Target.CleanUp(ctx, keys)
}

func (m *memoryTarget) Close() error {
	m.closed = true
	return nil // the store is looked at afterwards
}

// left returns the keys that are in the store now.
func (m *memoryTarget) left(t *testing.T) (keys []store.Key) {
	t.Helper()
	all, err := store.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	for entry, err := range m.store.Scan(t.Context(), admin.Query{Subjects: all}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, entry.Key)
	}
	return keys
}

// closedLoop is a load of that many requests, whatever time they take.
func closedLoop(subjects int, requests int64) Load {
	return Load{
		Subjects: subjects, Mix: loadgen.Mix{Subjects: loadgen.Evenly(uint32(subjects)), Costs: loadgen.Costs{Least: 1, Most: 1}},
		Workers: 1, Duration: time.Hour, Requests: requests, Words: "one after the other",
	}
}

// plan returns a load test in memory under the limits, one after the other.
func (o *opener) plan(load Load, limits ...string) *LoadTest {
	plan := &LoadTest{Load: load, Open: o.open, Timeout: time.Minute}
	for _, text := range limits {
		plan.Candidates = append(plan.Candidates, Candidate{Limits: []store.Limit{parseLimit(o.t, text)}})
	}
	return plan
}

func TestALoadTestTriesEachCandidateAndLeavesNothing(t *testing.T) {
	o := &opener{t: t}
	observer := new(recorder)
	document, err := o.plan(closedLoop(3, 60), "5/1h", "sliding-counter:5/1h,slices=10").Run(t.Context(), observer)
	if err != nil || len(document.Runs) != 2 || document.Interrupted || document.Kind != report.LoadTest {
		t.Fatalf("%v, %+v", err, document)
	}
	for i, run := range document.Runs {
		if run.Requests != 60 || run.Allowed != 15 || run.Denied != 45 || run.Errors != 0 || run.Keys != 3 || run.KeysDenied != 3 {
			t.Errorf("run %d: %+v", i, run)
		}
		if run.Audit.OverAdmitted != 0 || run.Audit.UnderAdmitted != 0 || run.Audit.WorstUnits != 5 {
			t.Errorf("run %d: %+v", i, run.Audit)
		}
		if run.Load != "one after the other" || run.Store != "memory" || run.Implementation != "" || run.Workers != 1 {
			t.Errorf("run %d: of %q on %q (%q) by %d", i, run.Load, run.Store, run.Implementation, run.Workers)
		}
		if run.Lag != nil || run.Latency == nil || run.Histograms == nil || run.Cost == nil {
			t.Errorf("run %d: lag %v, latency %v, histograms %v, cost %v", i, run.Lag, run.Latency, run.Histograms, run.Cost)
		}
		if target := o.opened[i]; !target.closed || len(target.cleaned) != 3 || len(target.left(t)) != 0 {
			t.Errorf("run %d: closed %t, cleaned up %v, left %v", i, target.closed, target.cleaned, target.left(t))
		}
	}
	want := []string{"begin token-bucket", "end", "begin sliding-counter,slices=10", "end"}
	if !slices.Equal(observer.told, want) || observer.kept != "" {
		t.Errorf("the observer was told %q, and kept %q", observer.told, observer.kept)
	}
	if first, second := o.opened[0].Describe().Prefix, o.opened[1].Describe().Prefix; first == second ||
		!strings.HasPrefix(first, "rl:loadtest:") {
		t.Errorf("the runs' keys begin with %q and %q", first, second)
	}
}

func TestKeysThatAreKept(t *testing.T) {
	o := &opener{t: t}
	observer := new(recorder)
	plan := o.plan(closedLoop(2, 4), "5/1h")
	plan.Keep = true
	if _, err := plan.Run(t.Context(), observer); err != nil {
		t.Fatal(err)
	}
	if target := o.opened[0]; len(target.left(t)) != 2 || observer.kept != target.Describe().Prefix || target.cleaned != nil {
		t.Errorf("kept under %q are %v", observer.kept, target.left(t))
	}
}

func TestPlansThatCannotBeCarriedOut(t *testing.T) {
	boundary, err := loadgen.ParseScenario("boundary")
	if err != nil {
		t.Fatal(err)
	}
	costly, warm, crowd, short := closedLoop(1, 1), closedLoop(1, 1), closedLoop(1, 1), closedLoop(1, 1)
	costly.Mix.Costs.Most = 11
	warm.Warmup = time.Hour
	crowd.Scenario, crowd.Subjects = &boundary, 200_000
	short.Scenario, short.Duration = &boundary, time.Nanosecond
	for part, load := range map[PlanField]Load{fieldCost: costly, fieldWarmup: warm, fieldScenario: crowd, fieldDuration: short} {
		o := &opener{t: t}
		document, err := o.plan(load, "10/366d").Run(t.Context(), new(recorder))
		var wrong *PlanError
		if !errors.As(err, &wrong) || wrong.Field != part || !errors.Is(err, store.ErrInvalid) || len(document.Runs) != 0 {
			t.Errorf("%s: %v", part, err)
		}
		if len(o.opened) > 0 && part != fieldDuration {
			t.Errorf("%s: the target was opened", part)
		}
	}
	backend, err := OpenStore("memory:", connect.Options{Prefix: "rl"})
	if err != nil {
		t.Fatal(err)
	}
	var wrong *PlanError
	if _, err := NewStoreTarget(backend, Naive); !errors.As(err, &wrong) || wrong.Field != fieldImplementation {
		t.Errorf("naive in memory: %v", err)
	}
}

// A target that does not answer is not driven, and one that fails each time is reported.
func TestTargetsThatFail(t *testing.T) {
	o := &opener{t: t, answer: func() error { return io.ErrUnexpectedEOF }}
	observer := new(recorder)
	plan := o.plan(closedLoop(1, 3), "5/1h", "6/1h")
	plan.Open = func() (Target, error) { return nil, io.ErrClosedPipe }
	if document, err := plan.Run(t.Context(), observer); err != io.ErrClosedPipe || len(document.Runs)+len(observer.told) != 0 {
		t.Errorf("not opened: %v", err)
	}
	plan.Open = o.open
	document, err := plan.Run(t.Context(), observer)
	if err != io.ErrUnexpectedEOF || len(document.Runs) != 1 || document.Runs[0].Errors != 3 || len(o.opened) != 1 {
		t.Fatalf("failing: %v, %+v", err, document)
	}
	if texts := document.Runs[0].ErrorTexts; len(texts) != 1 ||
		texts[0] != (loadgen.ErrorCount{Text: io.ErrUnexpectedEOF.Error(), Count: 3}) {
		t.Errorf("its errors are %v", texts)
	}
	if !o.opened[0].closed {
		t.Error("the target was not closed")
	}
}

// An interrupt before the load leaves no report, and one during it a report of what was.
func TestInterrupts(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	o := &opener{t: t}
	interrupt()
	document, err := o.plan(closedLoop(1, 9), "5/1h", "6/1h").Run(ctx, new(recorder))
	if !errors.Is(err, context.Canceled) || len(document.Runs) != 0 || o.opened[0].cleaned != nil || !o.opened[0].closed {
		t.Errorf("before: %v, %d runs", err, len(document.Runs))
	}

	ctx, interrupt = context.WithCancel(t.Context())
	n := 0
	o.answer = func() error {
		if n++; n == 5 {
			interrupt()
		}
		return nil
	}
	o.opened = nil
	document, err = o.plan(closedLoop(1, 0), "5/1h", "6/1h").Run(ctx, new(recorder))
	if err != nil || !document.Interrupted || len(document.Runs) != 1 || document.Runs[0].Requests != 5 {
		t.Errorf("during: %v, %+v", err, document)
	}
	if left := o.opened[0].left(t); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
}

func TestAPolicyWithMadeUpSubjects(t *testing.T) {
	tenants := policy.Limit{Limit: limiter.LimitOf("tenant", parseLimit(t, "20/1h")), By: []string{"tenant"}}
	perUser := limiter.LimitOf("user", parseLimit(t, "sliding-log:3/1h"))
	users := policy.Limit{Limit: perUser, By: []string{"tenant", "user"}}
	shadow := policy.Limit{Limit: limiter.LimitOf("first", parseLimit(t, "1/1h")), By: []string{"tenant", "user"}}
	shadow.Shadow = true
	api := &policy.Policy{Name: "api", Limits: []policy.Limit{tenants, users, shadow}}
	o := &opener{t: t}
	plan := o.plan(closedLoop(4, 40))
	plan.Candidates = []Candidate{{Policy: api, Fixed: policy.Attributes{"tenant": "acme"}}}
	document, err := plan.Run(t.Context(), new(recorder))
	if err != nil {
		t.Fatal(err)
	}
	run := document.Runs[0]
	if run.Allowed != 12 || run.Policy != "api" || !strings.HasPrefix(run.MostDenied[0].Key, "tenant=acme user=user-") || run.Audit.OverAdmitted != 0 {
		t.Errorf("%+v", run)
	}
	if want := "token-bucket:20/1h and sliding-log:3/1h and token-bucket:1/1h (shadow)"; run.Limit != want || !run.Limits[2].Shadow {
		t.Errorf("the limits are %q", run.Limit)
	}
}

// It is said when there were too few workers, and only when that made a difference.
func TestTooFewWorkers(t *testing.T) {
	open := make([]loadgen.Stage, 1)
	for _, test := range []struct {
		requests, waited int64
		stages           []loadgen.Stage
		limited          bool
		want             string
	}{
		{50, 1, open, false, "1 request found no worker free; the latency includes the wait. Either the store is at its " +
			"limit, or 3 workers are too few"},
		{1000, 20, open, true, ""}, {1000, 10, open, false, ""}, {50, 1, nil, false, ""},
	} {
		r := &loadRun{LoadTest: &LoadTest{Load: Load{Workers: 3, Stages: test.stages}}}
		result := &loadgen.Result{Requests: test.requests, Waited: test.waited, GeneratorLimited: test.limited}
		if text := r.tooFewWorkers(result); text != test.want {
			t.Errorf("%d of %d waited: %q", test.waited, test.requests, text)
		}
	}
}

// The words that a command has for a limit that is not decided at one instant.
func TestWarningsOfARun(t *testing.T) {
	r := &loadRun{LoadTest: &LoadTest{Load: closedLoop(1, 0)}}
	population, err := (&Candidate{Limits: []store.Limit{parseLimit(t, "5/1h"), parseLimit(t, "5/1d")}}).madeUp(1)
	if err != nil {
		t.Fatal(err)
	}
	l := &workload{limits: make([]namedLimit, 2), population: population}
	run := &report.Run{Result: loadgen.Result{Audit: loadgen.Audit{Totals: audit.Totals{UnderAdmitted: 1}}, ClockWentBack: 7}}
	for divided, want := range map[bool][]string{
		true:  {"limits of different subjects lie in different slots", "the store's clock went back: 7 answers "},
		false: {"the store's clock went back: 7 answers "},
	} {
		warnings := r.warnings(run, Description{Divided: divided}, l)
		if !slices.EqualFunc(warnings, want, strings.HasPrefix) {
			t.Errorf("divided %t: it warns of %q", divided, warnings)
		}
	}
}
