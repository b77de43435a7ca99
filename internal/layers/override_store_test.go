package layers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// watchedTable counts the reads of a table, and fails them while err is set.
type watchedTable struct {
	*memorystore.Store
	admin.Tables
	err          error
	looks, lists int
	takes        int
	slow         atomic.Int64 // in nanoseconds, for each look, which ignores its context
}

// watched gives s its table.
func watched(s *watchedTable) *watchedTable {
	s.SideTable = watchedSide{s.Store.SideTable, s}
	return s
}

type watchedSide struct {
	admin.SideTable
	table *watchedTable
}

func (s watchedSide) Get(ctx context.Context, t admin.Table, names ...string) ([]admin.TableRecord, store.Instant,
	error) {
	if len(names) == 1 && names[0] == "" {
		time.Sleep(time.Duration(s.table.slow.Load()))
		s.table.looks++
		if s.table.err != nil {
			return nil, 0, s.table.err
		}
	} else {
		s.table.lists++
	}
	return s.SideTable.Get(ctx, t, names...)
}

func (s *watchedTable) Decide(ctx context.Context, op store.Op, reqs []store.Request,
	decisions []store.Decision) error {
	s.takes++
	if s.err != nil {
		return s.err
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// overrideFixture is a store under overrides in virtual time.
type overrideFixture struct {
	*testing.T
	*agenda
	table *watchedTable
	store store.Store
	errs  []error
	ahead time.Duration // of the store's clock
}

func newOverrideFixture(t *testing.T) *overrideFixture {
	f := &overrideFixture{T: t, agenda: &agenda{virtualTime: new(virtualTime)}}
	f.table = watched(&watchedTable{Store: memorystore.New(memorystore.WithClock(func() time.Time {
		return f.local().Add(f.ahead)
	}))})
	f.store = layers.Stack(f.table, layers.Layers{Overrides: layers.WatchOverrides(f.table, layers.Env{
		Clock: f.local, Background: f.background, Observer: &layers.Observer{OnOverrides: func(err error) {
			if err != nil {
				f.errs = append(f.errs, err)
			}
		}}})})
	return f
}

func (f *overrideFixture) set(lasts time.Duration, subjects string, o store.Override) store.Override {
	f.Helper()
	o.Subjects = mustPattern(f, subjects)
	set, err := f.table.SetOverride(context.Background(), o, lasts)
	tier.Must(f, err)
	return set
}

// apply sets an override and lets it take effect.
func (f *overrideFixture) apply(lasts time.Duration, subjects string, o store.Override) store.Override {
	f.Helper()
	set := f.set(lasts, subjects, o)
	f.pass(time.Second)
	return set
}

func (f *overrideFixture) decide(op store.Op, reqs ...store.Request) []store.Decision {
	f.Helper()
	return decide(f, f.store, op, reqs...)
}

// fails returns the error of a take.
func (f *overrideFixture) fails(req store.Request) error {
	return f.store.Decide(context.Background(), store.Take, []store.Request{req}, make([]store.Decision, 1))
}

func asks(subject string, count, cost int64) store.Request {
	return store.Request{Key: store.Key{Subject: subject, Name: "n"}, Cost: cost,
		Limit: store.Limit{Algorithm: store.SlidingLog, Count: count, Period: time.Hour}}
}

// decides checks the decisions of a call, by what they allow, the used and remaining units, and whatever else they
// have.
func (f *overrideFixture) decides(what string, op store.Op, want string, reqs ...store.Request) {
	f.Helper()
	var all []string
	for _, d := range f.decide(op, reqs...) {
		text := fmt.Sprintf("%s %d+%d", map[bool]string{true: "allowed", false: "denied"}[d.Allowed], d.Used,
			d.Remaining)
		for _, more := range []struct {
			is   bool
			text string
		}{{d.Granted != 0, fmt.Sprint("granted ", d.Granted)}, {d.RetryAfter != 0, "after " + d.RetryAfter.String()},
			{d.Delay != 0, "with a delay"}, {d.Shadow, "shadow"}, {d.Repeated, "repeated"}, {d.Unguarded, "unguarded"},
			{d.Override != nil, "overridden"}, {d.DecidedBy == store.DecidedByOverride, "by it"}} {
			if more.is {
				text += " " + more.text
			}
		}
		all = append(all, text)
	}
	if got := strings.Join(all, ", "); got != want {
		f.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (f *overrideFixture) take(subject string) store.Decision {
	f.Helper()
	return f.decide(store.Take, asks(subject, 2, 1))[0]
}

// wantOf checks a decision by used and remaining units, and its override.
func (f *overrideFixture) wantOf(d store.Decision, allowed bool, used, remaining int64, o *store.Override) {
	f.Helper()
	id, of := "", ""
	if o != nil {
		id = o.ID
	}
	if d.Override != nil {
		of = d.Override.ID
	}
	if d.Allowed != allowed || d.Used != used || d.Remaining != remaining || id != of {
		f.Errorf("%+v, under %q; want allowed %v, used %d, remaining %d, under %q", d, of, allowed, used, remaining, id)
	}
}

// An override applies a second after it was set, and ends by itself; a decision does not call the store for it.
// There is one check a second.
func TestAnOverrideAppliesWithinASecondAndEndsByItself(t *testing.T) {
	f := newOverrideFixture(t)
	f.wantOf(f.take("user:42"), true, 1, 1, nil)
	f.wantOf(f.take("user:42"), true, 2, 0, nil)
	f.wantOf(f.take("user:42"), false, 2, 0, nil)
	set := f.set(9500*time.Millisecond, "user:42", store.Override{Effect: store.OverrideTimes, Thousandths: 2500})
	f.pass(time.Second)
	f.wantOf(f.take("user:42"), true, 3, 2, &set) // usage is kept
	f.wantOf(f.take("user:7"), true, 1, 1, nil)
	f.pass(8500*time.Millisecond - time.Microsecond) // between two checks
	f.wantOf(f.take("user:42"), true, 4, 1, &set)
	f.pass(time.Microsecond)
	f.wantOf(f.take("user:42"), false, 4, 0, nil)
	f.pass(9500 * time.Millisecond)
	if f.table.lists != 2 || f.table.looks < 19 || f.table.looks > 21 { // one list was to set it
		t.Errorf("%d lists and %d looks in 19 s", f.table.lists, f.table.looks)
	}
	f.set(2*time.Hour, "another", store.Override{Effect: store.OverrideBlock})
	f.apply(time.Hour, "user:7", store.Override{Effect: store.OverrideBlock})
	f.ahead = time.Hour // as if this machine had slept
	f.pass(time.Minute)
	f.wantOf(f.take("user:7"), true, 1, 1, nil)
	if err := f.store.Close(); err != nil {
		t.Error(err)
	}
	before := f.table.looks
	f.pass(time.Minute)
	if f.table.looks != before {
		t.Error("it looks after Close")
	}
}

// While the store is away the known overrides apply until they end, and one error is reported.
func TestOverridesOutliveAnOutage(t *testing.T) {
	f := newOverrideFixture(t)
	set := f.apply(time.Minute, "user:42", store.Override{Effect: store.OverrideBlock})
	f.table.err = fmt.Errorf("%w: away", store.ErrUnavailable)
	before := f.table.looks
	for range 50 {
		f.wantOf(f.take("user:42"), false, 0, 0, &set)
		f.pass(time.Second)
	}
	if looks := f.table.looks - before; looks > 11 {
		t.Errorf("%d looks in 50 s without an answer", looks)
	}
	if err := f.fails(asks("user:7", 2, 1)); !store.IsAway(err) {
		t.Errorf("somebody else: %v", err)
	}
	both := f.decide(store.Take, asks("user:42", 2, 1), asks("tenant:a", 2, 1))
	if sum := store.Summarize(both); sum.Allowed || len(sum.DeniedBy) != 1 || !both[1].Unguarded {
		t.Errorf("a block beside a limit that nobody knows: %+v", both)
	}
	f.decide(store.Peek, asks("user:42", 2, 1))
	if len(f.errs) != 1 || !errors.Is(f.errs[0], store.ErrUnavailable) {
		t.Errorf("told %v", f.errs)
	}
	f.pass(10 * time.Second)
	if err := f.fails(asks("user:42", 2, 1)); !store.IsAway(err) {
		t.Errorf("after its end: %v", err)
	}
	other := f.set(time.Hour, "user:7", store.Override{Effect: store.OverrideBlock})
	f.table.err = nil
	f.pass(5 * time.Second)
	f.wantOf(f.take("user:7"), false, 0, 0, &other)
	f.wantOf(f.take("user:42"), true, 1, 1, nil)
}

func TestLoadedOverridesApplyToTheFirstDecision(t *testing.T) {
	table := watched(&watchedTable{Store: memorystore.New()})
	if _, err := table.SetOverride(context.Background(), store.Override{Effect: store.OverrideBlock},
		time.Hour); err != nil {
		t.Fatal(err)
	}
	watch := layers.WatchOverrides(table, layers.Env{})
	defer watch.Close()
	tier.Must(t, watch.Load(context.Background()))
	d := decide(t, layers.Stack(table, layers.Layers{Overrides: watch}), store.Take, asking("u", "1/1m", 1))[0]
	if d.Allowed || d.DecidedBy != store.DecidedByOverride || table.looks != 1 || table.takes != 0 {
		t.Errorf("%+v, %d looks, %d takes", d, table.looks, table.takes)
	}
	table.err = store.ErrUnavailable
	away := layers.WatchOverrides(table, layers.Env{})
	defer away.Close()
	if err := away.Load(context.Background()); !store.IsAway(err) {
		t.Errorf("loaded: %v", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	slow := layers.WatchOverrides(table, layers.Env{Background: func(time.Duration, func()) {}})
	if err := slow.Load(ended); !errors.Is(err, store.ErrGaveUp) {
		t.Errorf("loaded by a caller who has left: %v", err)
	}
}

// A block denies all takes until the last block ends, charges nothing, and lets other operations through. A limit that
// is full for longer has the last word on when to try again, and one that cannot be is not asked.
func TestABlockDeniesUntilItsEnd(t *testing.T) {
	f := newOverrideFixture(t)
	f.take("user:42")
	first := f.set(time.Minute, "user:*", store.Override{Effect: store.OverrideBlock})
	f.set(30*time.Second, "user:42", store.Override{Effect: store.OverrideBlock})
	f.set(time.Hour, "user:42", store.Override{Effect: store.OverrideExempt})
	f.pass(time.Second)
	before := f.table.takes
	short := asks("user:42", 2, 1)
	short.Limit.Period = 59 * time.Second
	d := f.decide(store.Take, short)[0]
	if d.Allowed || d.RetryAfter != 59*time.Second || d.ResetAfter != d.RetryAfter ||
		d.DecidedBy != store.DecidedByOverride ||
		d.At != store.InstantOf(f.local()) || f.table.takes != before {
		t.Errorf("%+v, %d calls", d, f.table.takes-before)
	}
	shadow := asks("user:42", 2, 1)
	shadow.Shadow = true
	f.decides("what fits", store.TakeUpTo, "denied 1+0 after 59s overridden by it", asks("user:42", 2, 5))
	f.decides("a peek", store.Peek, "denied 1+0 after 59s overridden by it", asks("user:42", 2, 1))
	f.decides("with a blocked shadow", store.Take,
		"denied 2+0 granted 1 after 59s shadow overridden by it, allowed 1+1 granted 1",
		shadow, asks("tenant:a", 2, 1))
	f.decides("with another", store.Take, "allowed 1+1, denied 2+0 after 59m59s overridden by it",
		asks("tenant:a", 2, 1), asks("user:42", 2, 1))
	f.decides("full", store.Take, "denied 2+0 after 59m59s overridden by it", asks("user:42", 2, 1))
	f.decides("a charge, after the shadow's", store.Charge, "allowed 5+0 granted 3 overridden", asks("user:42", 2, 3))
	f.decides("a refund", store.Refund, "allowed 1+1 overridden", asks("user:42", 2, 4))
	f.decides("an adjustment", store.Adjust, "allowed 0+2 overridden", asks("user:42", 2, 0))
	for _, wrong := range []store.Request{asks("user:42", 0, 1), asks("user:42", 2, 0), asks("user:42", 2, 3)} {
		if err := f.fails(wrong); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	f.pass(59*time.Second - time.Microsecond)
	if d := f.take("user:42"); d.Allowed || d.RetryAfter != time.Microsecond || d.Override.ID != first.ID {
		t.Errorf("%+v", d)
	}
	f.pass(time.Microsecond)
	if d := f.take("user:42"); !d.Allowed || d.Override == nil || d.Override.Effect != store.OverrideExempt {
		t.Errorf("after the block: %+v", d)
	}
}

// An exempt subject is counted up to its limit and never denied.
func TestAnExemptionCountsAndNeverDenies(t *testing.T) {
	f := newOverrideFixture(t)
	set := f.apply(time.Minute, "user:4*", store.Override{Effect: store.OverrideExempt})
	f.wantOf(f.take("user:42"), true, 1, 1, &set)
	f.wantOf(f.take("user:42"), true, 2, 0, &set)
	leaky := asks("user:42", 2, 1)
	leaky.Key.Name, leaky.Limit = "queue", store.Limit{Algorithm: store.LeakyBucket, Count: 2, Period: time.Hour}
	f.decides("beyond the limit", store.Take, "allowed 2+0 overridden by it", asks("user:42", 2, 1))
	f.decides("a cost that never fits", store.Take, "allowed 2+0 overridden by it", asks("user:42", 2, 1000))
	f.decides("a peek", store.Peek, "allowed 2+0 overridden by it", asks("user:42", 2, 1))
	// A caller that gives back unused units has to know that fewer were charged.
	f.decides("what fits, of none", store.TakeUpTo, "allowed 2+0 granted 7 overridden by it", asks("user:42", 2, 7))
	f.decides("what fits, of some", store.TakeUpTo, "allowed 2+0 granted 7 overridden by it", asks("user:43", 2, 7))
	f.decides("all of it fits", store.TakeUpTo, "allowed 7+2 granted 7 overridden", asks("user:44", 9, 7))
	f.decides("what fits others", store.TakeUpTo, "allowed 2+0 granted 3 overridden by it, allowed 3+0 granted 3",
		asks("user:42", 2, 7), asks("tenant:a", 3, 7))
	f.decides("beside one that is denied", store.Take, "allowed 2+0 overridden by it, denied 3+0 after 1h0m0s",
		asks("user:42", 2, 1), asks("tenant:a", 3, 1))
	f.decides("beside one that is allowed", store.Take, "allowed 2+0 overridden by it, allowed 1+2 granted 1",
		asks("user:42", 2, 1), asks("tenant:b", 3, 1))
	f.decides("a turn", store.Take, "allowed 1+1 granted 1 overridden", leaky)
	f.decides("a turn beyond the limit", store.Take, "allowed 2+0 granted 1 overridden", leaky)
	f.pass(time.Minute)
	f.wantOf(f.take("user:42"), false, 2, 0, nil)
}

// A token belongs to the same call, whatever overrides begin and end.
func TestTokensOutliveOverrides(t *testing.T) {
	f := newOverrideFixture(t)
	with := func(token string, cost int64, more ...store.Request) []store.Request {
		req := asks("user:42", 5, cost)
		req.Token = token
		for i := range more {
			more[i].Token = token
		}
		return append([]store.Request{req}, more...)
	}
	times := f.apply(10*time.Second, "user:42", store.Override{Effect: store.OverrideTimes, Thousandths: 2000})
	f.wantOf(f.decide(store.Take, with("a", 4)...)[0], true, 4, 6, &times)
	f.decide(store.Take, with("b", 4, asks("tenant:a", 9, 4))...)
	f.pass(10 * time.Second)
	f.decides("repeated after the end", store.Take, "allowed 8+0 granted 4 repeated", with("a", 4)...)
	f.decides("settled after the end", store.Settle, "allowed 5+0 granted 1", with("a", 1)...)
	f.apply(10*time.Second, "user:42", store.Override{Effect: store.OverrideExempt})
	f.decides("settled under an exemption", store.Settle, "allowed 3+2 granted 2 overridden, allowed 2+7 granted 2",
		with("b", 2, asks("tenant:a", 9, 2))...)
	f.decides("what does not fit", store.Take, "allowed 3+2 overridden by it", with("c", 5)...)
	f.decides("settled what did not fit", store.Settle, "allowed 3+2 overridden by it", with("c", 9)...)
	f.decide(store.Take, with("d", 2)...)
	f.apply(time.Hour, "user:42", store.Override{Effect: store.OverrideBlock})
	f.decides("repeated under a block", store.Take, "allowed 5+0 granted 2 repeated overridden", with("d", 2)...)
	f.decides("a new token under a block", store.Take, "denied 5+0 after 59m59s overridden by it", with("e", 1)...)
	f.decides("settled under a block", store.Settle, "allowed 3+2 overridden", with("d", 0)...)
}

func mustPattern(tb testing.TB, text string) store.Pattern {
	tb.Helper()
	p, err := store.ParsePattern(text)
	tier.Must(tb, err)
	return p
}

// A smaller limit denies what does not fit it. That is no error for a caller who knows only the original limit.
func TestACostThatFitsOnlyTheLimitAskedIsDenied(t *testing.T) {
	f := newOverrideFixture(t)
	set := f.apply(time.Minute, "user:42", store.Override{Effect: store.OverrideLimit,
		Limit: store.Limit{Algorithm: store.TokenBucket, Count: 1, Period: store.MaxPeriod}})
	d := f.decide(store.Take, asks("user:42", 9, 5))[0]
	if d.Allowed || d.RetryAfter != 59*time.Second || d.Override == nil || d.Override.ID != set.ID {
		t.Errorf("%+v", d)
	}
	if d := f.decide(store.TakeUpTo, asks("user:42", 9, 5))[0]; !d.Allowed || d.Granted != 1 {
		t.Errorf("what fits: %+v", d)
	}
	if d := f.decide(store.Charge, asks("user:42", 900, 500))[0]; d.Used != 501 { // it would be in use for 500 years
		t.Errorf("a charge: %+v", d)
	}
	f.decide(store.Adjust, asks("user:42", 9, 5))
	if err := f.fails(asks("user:42", 0, 1)); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a limit that is none: %v", err)
	}
	if err := f.fails(asks("user:42", 9, 10)); !errors.Is(err, store.ErrNeverFits) {
		t.Errorf("a cost that fits neither: %v", err)
	}
}

// The first decisions wait for the overrides; no other one does. None waits longer than its caller.
func TestTheFirstDecisionsWaitForOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 100 * time.Millisecond
		table := watched(&watchedTable{Store: memorystore.New()})
		table.slow.Store(int64(slow))
		backend := withOverrides(table)
		limits := storecall.New(backend)
		wants := func(when string, blocked bool, within, takes time.Duration) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			begin := time.Now()
			d, err := limits.Peek(ctx, store.Key{Subject: "u"}, store.Limit{Count: 1, Period: time.Hour}, 1)
			if took := time.Since(begin); err != nil || d.Allowed == blocked || took != takes {
				t.Errorf("%s: %+v, %v after %s; want blocked %v after %s", when, d, err, took, blocked, takes)
			}
		}
		block := func() (id string) {
			t.Helper()
			set, err := table.SetOverride(t.Context(), store.Override{Effect: store.OverrideBlock}, 24*time.Hour)
			tier.Must(t, err)
			return set.ID
		}
		unblock := func(id string) {
			t.Helper()
			if _, found, err := table.RevokeOverride(t.Context(), id); !found || err != nil {
				t.Fatal(found, err)
			}
		}
		id := block()
		ctx, cancel := context.WithTimeout(t.Context(), slow/4)
		defer cancel()
		begin := time.Now()
		_, err := limits.Peek(ctx, store.Key{Subject: "u"}, store.Limit{Count: 1, Period: time.Hour}, 1)
		if took := time.Since(begin); !errors.Is(err, store.ErrGaveUp) || took != slow/4 {
			t.Errorf("with less time: %v after %s", err, took)
		}
		wants("the next after it", true, time.Hour, slow-slow/4)
		unblock(id)
		wants("the second", true, time.Hour, 0) // until the next read
		time.Sleep(2 * time.Second)
		wants("two seconds later", false, time.Hour, 0)
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Overrides scale what is left with the limit, and an exemption leaves nothing.
func TestOverridesScaleWhatIsLeft(t *testing.T) {
	f := newOverrideFixture(t)
	f.set(time.Minute, "doubled", store.Override{Effect: store.OverrideTimes, Thousandths: 2000})
	f.set(time.Minute, "third", store.Override{Effect: store.OverrideLimit,
		Limit: store.Limit{Algorithm: store.TokenBucket, Count: 3, Period: time.Hour}})
	one := f.set(time.Minute, "one", store.Override{Effect: store.OverrideLimit,
		Limit: store.Limit{Algorithm: store.TokenBucket, Count: 1, Period: time.Hour}})
	f.apply(time.Minute, "exempt", store.Override{Effect: store.OverrideExempt})
	ask := func(subject string) store.Request {
		req := asks(subject, 10, 1)
		req.Leave = 4
		return req
	}
	for subject, remaining := range map[string]int64{"plain": 5, "doubled": 11, "third": 0, "exempt": 9} {
		// 4 of 10 are 8 of 20 and, rounded up, 2 of 3.
		if d := f.decide(store.Take, ask(subject))[0]; !d.Allowed || d.Remaining != remaining || d.Granted != 1 {
			t.Errorf("%s: %+v", subject, d)
		}
	}
	// 4 of 10 are 1 of 1, so nothing is left for the request. That is no error for a caller who knows only the original
	// limit.
	for _, op := range []store.Op{store.Take, store.Peek, store.TakeUpTo} {
		if d := f.decide(op, ask("one"))[0]; d.Allowed || d.Override == nil || d.Override.ID != one.ID ||
			d.RetryAfter <= 0 {
			t.Errorf("a %s: %+v", op, d)
		}
	}
	large := ask("exempt")
	large.Cost = 7 // which the limit allows, and not to one who leaves 4
	if d := f.decide(store.Take, large)[0]; !d.Allowed || d.Granted != 7 {
		t.Errorf("a large cost of the exempt one: %+v", d)
	}
}
