package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var minute = limiter.Per("minute", 10, time.Minute)

// faulty is a store whose errors a test decides.
type faulty struct {
	limiter.Store
	instead func(op store.Op) error // an error instead of the call
	after   func(op store.Op) error // an error after the call
	calls   int
	closed  bool
}

func (f *faulty) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	f.calls++
	if f.instead != nil {
		if err := f.instead(op); err != nil {
			return err
		}
	}
	err := f.Store.Decide(ctx, op, reqs, decisions)
	if f.after != nil && err == nil {
		err = f.after(op)
	}
	return err
}

func (f *faulty) Close() error { f.closed = true; return nil }

// plain is a store with no more than the methods of Store.
type plain struct{ inner limiter.Store }

func (p plain) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	return p.inner.Decide(ctx, op, reqs, decisions)
}

func (p plain) Close() error { return nil }

func away(store.Op) error { return store.ErrUnavailable }

func newLimiter(t *testing.T, s limiter.Store, options ...limiter.Option) *limiter.Limiter {
	t.Helper()
	l, err := limiter.New(s, options...)
	tier.Must(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func used(t *testing.T, l *limiter.Limiter, r limiter.Request) int64 {
	t.Helper()
	d, err := l.Peek(t.Context(), r)
	tier.Must(t, err)
	return d.At(0).Used
}

// A caller who ignores an answer or makes a mistake lets nobody in.
func TestMisuseDenies(t *testing.T) {
	ctx := t.Context()
	good := newLimiter(t, memorystore.New())
	closed := newLimiter(t, memorystore.New(), limiter.FailOpen())
	tier.Must(t, closed.Close())
	for name, test := range map[string]struct {
		limiter  *limiter.Limiter
		requests []limiter.Request
		want     error
		text     string
	}{
		"no request":     {good, nil, limiter.ErrInvalid, "no request"},
		"a zero request": {good, []limiter.Request{{}}, limiter.ErrInvalid, "request 1 of 1 is empty"},
		"no name": {good, []limiter.Request{limiter.Per("", 10, time.Minute).For("u")}, limiter.ErrInvalid,
			"has no name"},
		"a cost never fits": {good, []limiter.Request{minute.For("u").N(11)}, limiter.ErrNeverFits,
			"cost 11 can never fit"},
		"the same key twice": {good, []limiter.Request{minute.For("u"), minute.For("u").N(2)}, limiter.ErrInvalid,
			"share the name"},
		"a wrong subject": {good, []limiter.Request{minute.ForSubject("a{b}")}, limiter.ErrInvalid, "subject"},
		"an empty token": {good, []limiter.Request{minute.For("u").Token("", 0)}, limiter.ErrInvalid,
			"the token is empty"},
		"closed": {closed, []limiter.Request{minute.For("u")}, limiter.ErrClosed, "the limiter is closed"},
		"a zero limiter": {new(limiter.Limiter), []limiter.Request{minute.For("u")}, limiter.ErrInvalid,
			"the limiter is not made by New"},
		"a zero store": {newLimiter(t, new(filestore.Store), limiter.FailOpen()), []limiter.Request{minute.For("u")},
			limiter.ErrInvalid, "the file store is not made by New"},
	} {
		for verb, ask := range map[string]func(context.Context, ...limiter.Request) (limiter.Decisions, error){
			"Take": test.limiter.Take, "Peek": test.limiter.Peek,
		} {
			d, err := ask(ctx, test.requests...)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) || d.Allowed() || d.Len() != 0 {
				t.Errorf("%s: %s: %+v, %v; want %v with %q", name, verb, d, err, test.want, test.text)
			}
		}
		if err := test.limiter.Wait(ctx, test.requests...); !errors.Is(err, test.want) {
			t.Errorf("%s: Wait: %v", name, err)
		}
		if r, err := test.limiter.Reserve(ctx, test.requests...); !errors.Is(err, test.want) || r != nil {
			t.Errorf("%s: Reserve: %v, %v", name, r, err)
		}
	}
	if (limiter.Decisions{}).Allowed() {
		t.Error("zero Decisions are allowed")
	}
	if n := used(t, good, minute.For("u")); n != 0 {
		t.Errorf("%d units are in use", n)
	}
}

// Invented keys in an outage fill no memory: beyond 100,000 they get the store's error, and no other key loses its
// usage.
func TestInventedKeysFillNoFallback(t *testing.T) {
	l := newLimiter(t, &faulty{Store: memorystore.New(), instead: away}, limiter.FailLocal(1))
	year := limiter.Per("year", 10, store.MaxPeriod) // of which nothing comes back meanwhile
	for i := range 101_000 {
		_, err := l.Take(t.Context(), year.For(fmt.Sprint(i)))
		if i < 100_000 && err != nil || i >= 100_000 &&
			(!limiter.IsAway(err) || !strings.Contains(err.Error(), "most keys")) {
			t.Fatalf("key %d: %v", i, err)
		}
	}
	if n := used(t, l, year.For("0")); n != 1 {
		t.Errorf("%d units of a key that is held are in use", n)
	}
}

func TestOptionsThatAreWrong(t *testing.T) {
	sound := memorystore.New()
	for name, test := range map[string]struct {
		store   limiter.Store
		options []limiter.Option
		text    string
	}{
		"no store":    {nil, nil, "the store is nil"},
		"no option":   {sound, []limiter.Option{limiter.FailOpen(), nil}, "option 2 of 2 of the limiter is nil"},
		"no function": {sound, []limiter.Option{limiter.Around(nil)}, "the function of Around is nil"},
		"no wrapper": {sound, []limiter.Option{limiter.Around(func(limiter.Store) limiter.Store { return nil })},
			"the function of Around has returned nil"},
		"twice": {sound, []limiter.Option{limiter.Breaker{}, limiter.Leases{}, limiter.Breaker{Failures: 2}},
			"Breaker is given twice"},
		"share 0":         {sound, []limiter.Option{limiter.FailLocal(0)}, "share 0 of FailLocal"},
		"negative leases": {sound, []limiter.Option{limiter.Leases{Max: -2}}, "Leases has the negative number -2"},
		"no unit":         {sound, []limiter.Option{limiter.Timeout(999_999)}, "Timeout 999.999µs is below 1ms"},
		"no overrides": {plain{sound}, []limiter.Option{limiter.Overrides{}},
			"keeps no overrides and denials for the option Overrides"},
	} {
		l, err := limiter.New(test.store, test.options...)
		if l != nil || !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), test.text) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v; want %q", name, l, err, test.text)
		}
	}
	for _, share := range []float64{1e-9, 1} { // at the bounds
		newLimiter(t, sound, limiter.FailLocal(share), limiter.Timeout(time.Millisecond), limiter.Breaker{
			Slow: time.Millisecond})
	}
}

func TestDecisionsOfSeveral(t *testing.T) {
	l := newLimiter(t, memorystore.New())
	hour := limiter.Per("hour", 3, time.Hour)
	trial := limiter.Limit{Name: "trial", Count: 1, Period: time.Hour, Shadow: true}
	asked := []limiter.Request{minute.For("user", "1").N(2), hour.For("user", "1").N(2), trial.For("user", "1")}
	d, err := l.Take(t.Context(), asked...)
	if err != nil || !d.Allowed() || d.Len() != 3 || d.Remaining() != 1 || d.Granted() != 2 || d.DeniedBy() != nil ||
		d.RetryAfter() != 0 {
		t.Fatalf("%+v, %v", d.All(), err)
	}
	d, err = l.Take(t.Context(), asked...)
	if err != nil || d.Allowed() || len(d.DeniedBy()) != 1 || d.DeniedBy()[0] != 1 ||
		d.RetryAfter() != d.At(1).RetryAfter ||
		d.RetryAfter() <= 0 {
		t.Fatalf("%+v, %v", d.All(), err)
	}
	if one, other, shadow := d.At(0), d.At(1), d.At(2); !one.Allowed || one.Used != 2 || other.Allowed ||
		other.Used != 2 ||
		!shadow.Shadow || shadow.Allowed || one.DecidedBy != limiter.DecidedByStore || one.At.IsZero() {
		t.Errorf("%+v", d.All())
	}
	if l := asked[2].Limit(); l.Name != "trial" || !l.Shadow || l.Count != 1 || asked[0].Subject() != "user:1" ||
		asked[0].Cost() != 2 {
		t.Errorf("%v %v", l, asked[0])
	}
	// alone it denies nothing
	if d, err := l.Take(t.Context(), trial.For("user", "1")); err != nil || !d.Allowed() || d.At(0).Allowed {
		t.Errorf("%+v, %v", d.All(), err)
	}
}

// What a log shows of requests, decisions and errors names the limit and the subject, and not the token.
func TestTexts(t *testing.T) {
	ctx, kept := t.Context(), memorystore.New(
		memorystore.WithClock(func() time.Time { return time.Unix(1_800_000_000, 0) }))
	l, down := newLimiter(t, kept), newLimiter(t, &faulty{Store: kept, instead: away}, limiter.FailClosed())
	a, b, queue := minute.For("user", "1"), limiter.Per("hour", 5, time.Hour).For("b"),
		limiter.Per("queue", 1, time.Hour).Leaky(2).For("u")
	trial := limiter.Limit{Name: "trial", Count: 1, Period: time.Hour, Shadow: true}.For("u")
	take := func(requests ...limiter.Request) any {
		d, err := l.Take(ctx, requests...)
		if err != nil {
			return err
		}
		return d
	}
	reserve := func(l *limiter.Limiter, requests ...limiter.Request) error {
		_, err := l.Reserve(ctx, requests...)
		return err
	}
	soon, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, text := range []struct {
		of   any
		want string
	}{
		{b.N(3).Token("secret", 0), `limit "hour" of "b", cost 3, token-bucket:5/1h`},
		{take(a.N(11).Token("secret", 0)),
			`cost 11 can never fit limit "minute" of "user:1": token-bucket:10/1m allows at most 10 at once`},
		{take(b, a.Leave(10)), `cost 1 can never fit limit "minute" of "user:1": token-bucket:10/1m allows at most 10 at once, ` +
			`of which 10 must stay free`},
		{take(b, a.N(-1)), `limit "minute": cost -1 is not positive; it must be 1 or more`},
		{take(a.N(10), b.N(4), trial),
			"allowed (allowed, 10 used, 0 remaining; allowed, 4 used, 1 remaining; allowed in shadow, 1 used, 0 " +
				"remaining)"},
		{take(queue), "allowed, 1 used, 1 remaining"},
		{take(queue), "allowed, 2 used, 0 remaining, its turn is in 1h"},
		{take(queue), "denied, 2 used, 0 remaining, try again in 1h"},
		{reserve(l, a), `denied by limit "minute" of "user:1"; try again in 6s`},
		{reserve(l, b.N(2), trial, a), `denied by limit "hour" of "b", limit "minute" of "user:1"; try again in 12m`},
		{l.Wait(soon, b.N(2)), `denied by limit "hour" of "b": the turn did not come in time; try again in 12m`},
		{reserve(down, a, b), "denied, because the store is away; try again in 1s"},
		{down.Wait(ctx, a), "denied, because the store is away; try again in 1s"},
		{limiter.Decisions{}, "denied"},
	} {
		if got := fmt.Sprint(text.of); got != text.want {
			t.Errorf("%s\nwant %s", got, text.want)
		}
	}
	blocked := newLimiter(t, overriding(t, kept, kept, "b", store.OverrideBlock), limiter.Overrides{})
	denied, _ := errors.AsType[*limiter.DeniedError](reserve(blocked, b))
	want := "denied by override " + denied.At(0).Override.ID + ` of limit "hour" of "b"; try again in `
	if !strings.HasPrefix(denied.Error(), want) || denied.Requests[denied.DeniedBy()[0]] != b {
		t.Errorf("%v of %v, want %s", denied, denied.Requests, want)
	}
}

func TestTheOtherVerbs(t *testing.T) {
	l := newLimiter(t, memorystore.New())
	r := minute.For("u")
	if d, err := l.TakeUpTo(t.Context(), r.N(12)); err != nil || !d.Allowed() || d.Granted() != 10 {
		t.Errorf("TakeUpTo: %+v, %v", d.All(), err)
	}
	if d, err := l.Charge(t.Context(), r.N(5)); err != nil || d.At(0).Used != 15 {
		t.Errorf("Charge: %+v, %v", d.All(), err)
	}
	if d, err := l.Refund(t.Context(), r.N(9)); err != nil || d.At(0).Refunded != 9 || d.At(0).Used != 6 {
		t.Errorf("Refund: %+v, %v", d.All(), err)
	}
	if d, err := l.Take(t.Context(), r.N(0)); err != nil || d.Granted() != 1 {
		t.Errorf("a cost of 0: %+v, %v", d.All(), err)
	}
	if err := l.Reset(t.Context(), r); err != nil || used(t, l, r) != 0 {
		t.Errorf("Reset: %v, %d in use", err, used(t, l, r))
	}
	token := r.N(2).Token("t", time.Minute)
	for _, repeated := range []bool{false, true} {
		if d, err := l.Take(t.Context(), token); err != nil || d.At(0).Repeated != repeated || d.At(0).Used != 2 {
			t.Errorf("with a token: %+v, %v", d.All(), err)
		}
	}
}

func TestParseLimit(t *testing.T) {
	l, err := limiter.ParseLimit("a", "leaky-bucket:5/1s,burst=7")
	if want := limiter.Per("a", 5, time.Second).Leaky(7); err != nil || l != want ||
		l.String() != "a leaky-bucket:5/1s,burst=7" {
		t.Errorf("%v, %v", l, err)
	}
	for _, test := range []struct{ name, text string }{
		{"", "10/1m"}, {"a", "10/x"}, {"a", "fixed-window:10/1m,from=first"}} {
		if l, err := limiter.ParseLimit(test.name, test.text); !errors.Is(err, limiter.ErrInvalid) ||
			l != (limiter.Limit{}) {
			t.Errorf("%q: %v, %v", test, l, err)
		}
	}
}

// What a store's limit has more than limiter.Limit would be dropped without a word.
func TestLimitOfKeepsEveryField(t *testing.T) {
	want := store.Limit{Calendar: new(store.Calendar)}
	fields := reflect.ValueOf(&want).Elem()
	for i := range fields.NumField() {
		f := fields.Field(i)
		switch {
		case f.CanInt():
			f.SetInt(7)
		case f.CanUint():
			f.SetUint(7)
		}
	}
	want.Phase = 0 // which only the limit of a record has
	if got := limiter.LimitOf("a", want).Stored(); got != want {
		t.Errorf("%#v becomes %#v", want, got)
	}
}

func TestWaitReturnsNilOnlyWhenItIsGranted(t *testing.T) {
	l := newLimiter(t, memorystore.New())
	hour := limiter.Per("hour", 1, time.Hour)
	tier.Must(t, l.Wait(t.Context(), hour.For("u")))
	late, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var denied *limiter.DeniedError
	if err := l.Wait(late, hour.For("u")); !errors.As(err, &denied) || !errors.Is(err, context.DeadlineExceeded) ||
		denied.RetryAfter() < 59*time.Minute || !strings.Contains(err.Error(), "in time; try again in ") {
		t.Errorf("a turn that comes too late: %v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := l.Wait(gone, hour.For("v")); !errors.Is(err, limiter.ErrGaveUp) || !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
	if err := newLimiter(t, l.Store()).Wait(t.Context(), hour.For("w")); err != nil {
		t.Error(err)
	}
	down := newLimiter(t, &faulty{Store: memorystore.New(), instead: away}, limiter.FailClosed())
	if d, err := down.Take(t.Context(), hour.For("u"), minute.For("u")); err != nil || d.Allowed() ||
		d.RetryAfter() != time.Second ||
		len(d.DeniedBy()) != 2 || (limiter.Decisions{}).RetryAfter() != time.Second {
		t.Errorf("a denial by FailClosed that looks like none: %+v, %v", d.All(), err)
	}
	if err := down.Wait(t.Context(), hour.For("u")); !errors.As(err, &denied) {
		t.Errorf("denied by FailClosed: %v", err)
	}
}

func TestCloseEndsWaits(t *testing.T) {
	l, err := limiter.New(memorystore.New(), limiter.FailOpen())
	tier.Must(t, err)
	hour := limiter.Per("hour", 1, time.Hour)
	tier.Must(t, l.Wait(t.Context(), hour.For("u")))
	ended := make(chan error)
	go func() { ended <- l.Wait(context.Background(), hour.For("u")) }()
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, limiter.ErrClosed) {
		t.Errorf("the wait ended with %v", err)
	}
}

// The work in the background ends with the limiter, and its store stays open.
func TestCloseLeavesTheStoreOpen(t *testing.T) {
	kept := memorystore.New()
	f := &faulty{Store: kept}
	l, err := limiter.New(store.Wrap(f, kept), limiter.Leases{}, limiter.Overrides{}, limiter.DenialLog{},
		limiter.Breaker{},
		limiter.FailOpen())
	tier.Must(t, err)
	for range 12 {
		if _, err := l.Take(t.Context(), minute.For("u")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil || f.closed {
		t.Errorf("%v, the store is closed: %v", err, f.closed)
	}
	if d, err := kept.Denials(t.Context(), time.Minute); err != nil || len(d.Rows) != 1 || d.Rows[0].Count != 2 {
		t.Errorf("the denials written are %+v, %v", d, err)
	}
}

func TestObserverSeesWhatCallersSee(t *testing.T) {
	f := &faulty{Store: memorystore.New()}
	var calls, below []limiter.Call
	var failures []error
	var changes []limiter.BreakerChange
	l := newLimiter(t, f, limiter.FailClosed(), limiter.Breaker{Failures: 1}, limiter.Observer{
		OnCall:      func(_ context.Context, c limiter.Call) { calls = append(calls, c) },
		OnStoreCall: func(_ context.Context, c limiter.Call) { below = append(below, c) },
		OnFailure:   func(err error) { failures = append(failures, err) },
		OnBreaker:   func(c limiter.BreakerChange) { changes = append(changes, c) },
	})
	for _, instead := range []func(store.Op) error{nil, away, nil} { // the breaker is open the third time
		f.instead = instead
		if _, err := l.Take(t.Context(), minute.For("u").N(3)); err != nil {
			t.Fatal(err)
		}
	}
	if len(calls) != 3 || calls[0].Operation != "take" || calls[0].Outcome != "allowed" ||
		calls[0].Requests[0] != minute.For("u").N(3) ||
		!calls[0].Decisions.Allowed() || calls[1].Err != nil || calls[1].Decisions.Allowed() ||
		!calls[2].Decisions.Unguarded() {
		t.Errorf("callers saw %+v", calls)
	}
	if len(below) != 2 || !errors.Is(below[1].Err, limiter.ErrUnavailable) || len(failures) != 2 ||
		!limiter.IsAway(failures[1]) {
		t.Errorf("the store saw %+v and failed with %v", below, failures)
	}
	if len(changes) != 1 || changes[0].From != limiter.BreakerClosed || changes[0].To != limiter.BreakerOpen ||
		changes[0].To.String() != "open" || !limiter.IsAway(changes[0].Reason) {
		t.Errorf("the breaker changed: %+v", changes)
	}
}

// overriding is a store whose overrides are known: those in kept, of which one is for a subject.
func overriding(t *testing.T, kept *memorystore.Store, below store.Store, subject string,
	effect store.OverrideEffect) store.Store {
	t.Helper()
	subjects, err := store.ExactPattern(subject)
	tier.Must(t, err)
	override := store.Override{Subjects: subjects, Effect: effect, Reason: "test", By: "me"}
	if _, err := kept.SetOverride(t.Context(), override, time.Hour); err != nil {
		t.Fatal(err)
	}
	watch := layers.WatchOverrides(below, layers.Env{})
	t.Cleanup(watch.Close)
	tier.Must(t, watch.Load(t.Context()))
	return &layers.Shared{Store: below, Watch: watch}
}

// A reset counts at once, also if a denial is remembered, and for a store of two methods.
func TestResetForgetsDenials(t *testing.T) {
	kept := memorystore.New()
	l := newLimiter(t, plain{kept}, limiter.DenialMemory{})
	for _, r := range []limiter.Request{
		minute.For("u"),
		limiter.Limit{Name: "log", Count: 2, Period: time.Hour, Algorithm: limiter.SlidingLog}.For("u"),
	} {
		if _, err := l.Charge(t.Context(), r.N(12)); err != nil {
			t.Fatal(err)
		}
		for _, allowed := range []bool{false, true} {
			if d, err := l.Take(t.Context(), r); err != nil || d.Allowed() != allowed {
				t.Fatalf("%v: %+v, %v", r.Limit(), d.All(), err)
			}
			tier.Must(t, l.Reset(t.Context(), r.N(3).Token("t", 0)))
		}
	}
	if n := kept.Len(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// A take allocates nothing, allowed or denied, also through the layers.
func TestATakeAllocatesNothing(t *testing.T) {
	layered := []limiter.Option{limiter.Overrides{}, limiter.DenialLog{}, limiter.DenialMemory{}, limiter.FailOpen(),
		limiter.Leases{}, limiter.Breaker{}}
	for _, algorithm := range store.Algorithms() {
		for _, count := range []int64{1, store.MaxSlidingLogCount} {
			for _, options := range [][]limiter.Option{nil, layered} {
				l := newLimiter(t, memorystore.New(), options...)
				r := limiter.Limit{Name: "a", Algorithm: algorithm, Count: count, Period: time.Hour}.For("u")
				take := func() { l.Take(context.Background(), r) }
				for range 2000 { // so that units are leased, and a log has grown
					take()
				}
				if n := tier.Allocations(1000, take); n != 0 {
					t.Errorf("%s, %d options: %v allocations", r.Limit(), len(options), n)
				}
			}
		}
	}
}
