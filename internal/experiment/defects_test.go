package experiment

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// plantedStore decides in memory, with answers on their way for a while, and can have a defect.
type plantedStore struct {
	mu     sync.Mutex
	random *rand.Rand
	begin  time.Time
	states map[store.Key]*store.State
	calls  int
	defect *defect
}

// defect is something that is wrong with a store. Each part that is set replaces what is right.
type defect struct {
	// limit is the limit as it is applied.
	limit func(store.Limit) store.Limit
	// clock is what the store's clock shows so long after the beginning.
	clock func(since time.Duration) time.Duration
	// before changes the state of a key, or its requests, before a decision, and after what was decided and told.
	before func(s *plantedStore, r *store.Request, state *store.State, now store.Instant)
	after  func(s *plantedStore, r *store.Request, state *store.State, d *store.Decision, now store.Instant)
	// key is the key that counts for another.
	key func(store.Key) store.Key
	// race is how long others can decide on the same state.
	race time.Duration
	// apart: each of the limits is charged by itself.
	apart bool
	// fails says which calls end in an error, after they were charged or not.
	fails func(s *plantedStore) (err error, charged bool)
}

func newPlantedStore(d *defect) *plantedStore {
	return &plantedStore{random: rand.New(rand.NewPCG(1, 2)), begin: time.Now(), states: map[store.Key]*store.State{},
		defect: d}
}

func (s *plantedStore) Close() error { return nil }

func (s *plantedStore) Decide(_ context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.mu.Lock()
	there, back := s.jitter(), s.jitter()
	s.mu.Unlock()
	time.Sleep(there)
	defer time.Sleep(back)
	return s.decide(op, reqs, decisions)
}

// jitter is how long a request or an answer is on its way: mostly a millisecond, and seldom much more.
func (s *plantedStore) jitter() time.Duration {
	d := time.Duration(s.random.IntN(2000)) * time.Microsecond
	if s.random.IntN(50) == 0 {
		d += time.Duration(s.random.IntN(30)) * time.Millisecond
	}
	return d
}

func (s *plantedStore) now() store.Instant {
	since := time.Since(s.begin)
	if s.defect.clock != nil {
		since = s.defect.clock(since)
	}
	return store.InstantOf(s.begin.Add(since))
}

func (s *plantedStore) decide(op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	d, now := s.defect, s.now()
	normalized, err := store.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	var failure error
	if d.fails != nil && op == store.Take {
		charged := false
		if failure, charged = d.fails(s); failure != nil && !charged {
			return failure
		}
	}
	states, kept := make([]*store.State, len(reqs)), make([]*store.State, len(reqs))
	for i := range normalized {
		r := &normalized[i]
		if d.key != nil {
			r.Key = d.key(r.Key)
		}
		if d.limit != nil {
			r.Limit = d.limit(r.Limit)
		}
		if s.states[r.Key] == nil {
			s.states[r.Key] = new(store.State)
		}
		kept[i], states[i] = s.states[r.Key], s.states[r.Key]
		if d.before != nil {
			d.before(s, r, states[i], now)
		}
		if d.race > 0 {
			states[i] = states[i].Clone()
		}
	}
	if d.apart {
		for i := range normalized {
			_, _ = store.Decide(op, normalized[i:i+1], states[i:i+1], decisions[i:i+1], nil, now)
		}
	} else {
		_, _ = store.Decide(op, normalized, states, decisions, nil, now)
	}
	if d.race > 0 {
		s.mu.Unlock()
		time.Sleep(d.race)
		s.mu.Lock()
		for i := range kept {
			*kept[i] = *states[i]
		}
	}
	for i := range normalized {
		if d.after != nil {
			d.after(s, &reqs[i], states[i], &decisions[i], now)
		}
	}
	return failure
}

// plantedTarget makes a target of a store.
type plantedTarget struct{ store.Store }

func (plantedTarget) Prepare(context.Context, []store.Request, time.Duration) (Description, error) {
	return Description{Name: "planted"}, nil
}
func (plantedTarget) Report(*report.Run)                         {}
func (plantedTarget) CleanUp(context.Context, []store.Key) error { return nil }

// planted is a run against a planted store, in virtual time.
type planted struct {
	name     string
	defect   defect
	limits   []string // one token bucket unless said
	subjects int      // 10 unless said
	costs    loadgen.Costs
	workers  int           // 8 unless said
	duration time.Duration // 5 s unless said
	// words are what the report must say.
	words []string
}

// run returns the report and what it prints.
func (p *planted) run(t *testing.T) (document *report.Document, printed string) {
	t.Helper()
	if p.limits == nil {
		p.limits = []string{"token-bucket:20/1s"}
	}
	if p.costs == (loadgen.Costs{}) {
		p.costs = loadgen.Costs{Least: 1, Most: 1}
	}
	pick := func(n, otherwise int) int {
		if n == 0 {
			return otherwise
		}
		return n
	}
	duration := time.Duration(pick(int(p.duration), int(5*time.Second)))
	candidate := Candidate{}
	for _, text := range p.limits {
		candidate.Limits = append(candidate.Limits, parseLimit(t, text))
	}
	synctest.Test(t, func(t *testing.T) {
		backend := newPlantedStore(&p.defect)
		plan := &LoadTest{
			Candidates: []Candidate{candidate}, Timeout: 100 * time.Millisecond,
			Load: Load{
				Subjects: pick(p.subjects, 10), Workers: pick(p.workers, 8), Duration: duration, Seed: 1,
				Words: "planted",
				Mix:   loadgen.Mix{Subjects: loadgen.Evenly(uint32(pick(p.subjects, 10))), Costs: p.costs},
			},
			Open: func() (Target, error) { return plantedTarget{backend}, nil },
		}
		var err error
		if document, err = plan.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		(report.Answer{Report: document, Verbose: true}).Print(&output.Printer{Out: &out})
		printed = out.String()
	})
	return document, printed
}

// always is a defect in what is told.
func told(change func(d *store.Decision)) defect {
	return defect{after: func(_ *plantedStore, _ *store.Request, _ *store.State, d *store.Decision, _ store.Instant) {
		change(d)
	}}
}

func applied(change func(l *store.Limit)) defect {
	return defect{limit: func(l store.Limit) store.Limit { change(&l); return l }}
}

var errUnsure = errors.Join(store.ErrOutcomeUnknown, errors.New("the connection was lost"))

// Each of these defects of a store is found, and told in the right words.
func TestPlantedDefectsOfStoresAreFound(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	const log = "sliding-log:20/1s"
	everyFifth := func(do func(s *plantedStore, state *store.State, r *store.Request, now store.Instant)) defect {
		return defect{after: func(s *plantedStore, r *store.Request, state *store.State, d *store.Decision,
			now store.Instant) {
			if d.Allowed && s.calls%5 == 0 {
				do(s, state, r, now)
			}
		}}
	}
	for _, p := range []planted{
		{name: "off by one", defect: applied(func(l *store.Limit) { l.Burst++ }),
			words: []string{"FAIL", "admitted 10 units too many on 10 keys"}},
		{name: "one too few", defect: applied(func(l *store.Limit) { l.Burst-- }),
			words: []string{"FAIL", "denied 10 units that fitted on 10 keys", "0 units over"}},
		{name: "loses charges", defect: everyFifth(
			func(_ *plantedStore, state *store.State, r *store.Request, now store.Instant) {
				state.Refund(r.Cost, now)
			}), words: []string{"FAIL", "units too many", "used was told as"}},
		{name: "charges what it denies", defect: defect{
			after: func(_ *plantedStore, r *store.Request, state *store.State, d *store.Decision, now store.Instant) {
				if !d.Allowed {
					state.Charge(r.Limit, r.Cost, now)
				}
			}}, words: []string{"FAIL", "units that fitted", "retry-after was told as"}},
		{name: "ignores costs", costs: loadgen.Costs{Least: 1, Most: 5},
			defect: defect{before: func(_ *plantedStore, r *store.Request, _ *store.State, _ store.Instant) {
				r.Cost = 1
			}},
			words: []string{"FAIL", "units too many", "used was told as"}},
		{name: "two keys share a bucket", defect: defect{key: func(k store.Key) store.Key {
			if k.Subject == "user:1" {
				k.Subject = "user:2"
			}
			return k
		}}, words: []string{"FAIL", "units that fitted on 2 keys", "used was told as"}},
		{name: "a race", limits: []string{log}, subjects: 1, workers: 32, defect: defect{race: time.Millisecond},
			words: []string{"FAIL", "units too many on 1 key"}},
		{name: "limits are not decided together", limits: []string{"fixed-window:10/1s", "fixed-window:100/1m"},
			defect: defect{apart: true}, words: []string{"FAIL", "fixed-window/1m: used was told as"}},
		{name: "forgets in a restart", defect: defect{
			before: func(s *plantedStore, _ *store.Request, _ *store.State, _ store.Instant) {
				if s.calls == 3000 {
					for _, state := range s.states {
						*state = store.State{}
					}
				}
			}}, words: []string{"FAIL", "units too many on", "used was told as"}},
		{name: "remaining one too many", defect: told(func(d *store.Decision) { d.Remaining++ }),
			words: []string{"FAIL", "0 units over", "remaining was told as"}},
		{name: "retry-after 5 ms short", defect: told(func(d *store.Decision) {
			d.RetryAfter = max(0, d.RetryAfter-5*time.Millisecond)
		}), words: []string{"FAIL", "0 units over", "retry-after was told as"}},
		{name: "reset-after wrong", defect: told(func(d *store.Decision) { d.ResetAfter += time.Microsecond }),
			words: []string{"FAIL", "reset-after was told as"}},
		{name: "delay wrong", limits: []string{"leaky-bucket:20/1s"}, defect: told(func(d *store.Decision) {
			if d.Delay > 0 {
				d.Delay -= time.Millisecond
			}
		}), words: []string{"FAIL", "delay was told as"}},
		{name: "the clock runs 2% fast", defect: defect{
			clock: func(since time.Duration) time.Duration { return since * 102 / 100 }},
			words: []string{"FAIL", "the store's clock was", "× wrong by up to"}},
		{name: "the clock jumps", defect: defect{clock: func(since time.Duration) time.Duration {
			if since > 2*time.Second {
				since += time.Hour
			}
			return since
		}}, words: []string{"FAIL", "× wrong by up to 1h"}},
		{name: "instants an hour apart", defect: defect{
			after: func(s *plantedStore, _ *store.Request, _ *store.State, d *store.Decision, _ store.Instant) {
				if s.calls%100 == 0 {
					d.At += store.Instant(time.Hour.Microseconds())
				}
			}}, words: []string{"FAIL", "× wrong by up to 1h"}},
		{name: "instants untold", defect: told(func(d *store.Decision) { d.At = 0 }),
			words: []string{"answers did not say when they were decided"}},
	} {
		t.Run(p.name, func(t *testing.T) {
			_, printed := p.run(t)
			for _, words := range p.words {
				if !strings.Contains(printed, words) {
					t.Errorf("%q is not in\n%s", words, printed)
				}
			}
		})
	}
}

// unsure fails while is says so, and charges a share of what fails: one of so many.
func unsure(is func(s *plantedStore) bool, one int) defect {
	return defect{fails: func(s *plantedStore) (error, bool) {
		if !is(s) {
			return nil, false
		}
		return errUnsure, s.random.IntN(one) == 0
	}}
}

// Nothing is called wrong that is right.
func TestCorrectStoresRaiseNoAlarm(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	limits := []string{"sliding-counter:20/1s,slices=10", "sliding-counter:7/250ms,slices=50",
		"token-bucket:7/300ms,burst=31"}
	for _, name := range store.AlgorithmNames() {
		limits = append(limits, name+":20/1s")
	}
	for _, limit := range limits {
		for _, p := range []planted{
			{name: "with costs", costs: loadgen.Costs{Least: 1, Most: 7}},
			{name: "by many at once", workers: 64, subjects: 3},
			{name: "with others", limits: []string{"sliding-log:30/2s", limit, "token-bucket:60/5s,burst=40"}},
			{name: "unknown at times", defect: unsure(func(s *plantedStore) bool { return s.random.IntN(100) == 0 }, 2)},
			{name: "in an outage", defect: unsure(func(s *plantedStore) bool {
				since := time.Since(s.begin)
				return since > time.Second && since < 1500*time.Millisecond
			}, 4)},
			{name: "an hour ahead", defect: defect{clock: func(since time.Duration) time.Duration {
				return since + time.Hour
			}}},
			{name: "a clock of 10 ms that drifts", defect: defect{clock: func(since time.Duration) time.Duration {
				return (since + since/10_000).Truncate(10 * time.Millisecond)
			}}},
		} {
			if p.limits == nil {
				p.limits = []string{limit}
			}
			p.duration = 3 * time.Second
			t.Run(limit+" "+p.name, func(t *testing.T) {
				t.Parallel()
				document, printed := p.run(t)
				run := &document.Runs[0]
				document.Judge()
				lies := run.Audit.Lies
				if document.Verdict == report.Fail || run.Audit.OverAdmitted+run.Audit.UnderAdmitted != 0 ||
					run.Denied == 0 || len(p.limits) == 1 && *run.Audit.LimitReached < 1 ||
					lies == nil || lies.Checked < run.Requests/10 {
					t.Error(printed)
				}
			})
		}
	}
}
