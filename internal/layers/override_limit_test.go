package layers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

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
	if err := f.fails(asks("user:42", 9, 10)); !errors.Is(err, store.ErrNeverFits) {
		t.Errorf("a cost that fits neither: %v", err)
	}
}

// A limit without a name keeps the key of the original limit.
func TestAnOverriddenLimitKeepsItsKey(t *testing.T) {
	f := newOverrideFixture(t)
	key, limit := store.Key{Subject: "user:42"}, store.Limit{Count: 2, Period: time.Hour}
	f.limits.Take(context.Background(), key, limit, 2)
	o := store.Override{Effect: store.OverrideLimit, Names: mustPattern(t, "token-bucket/1h"),
		Limit: store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute}}
	set := f.apply(time.Minute, "user:42", o)
	d, err := f.limits.Take(context.Background(), key, limit, 3)
	if err != nil {
		t.Fatal(err)
	}
	f.wantOf(d, true, 5, 5, &set)
}

// With overrides or without, a decision allocates nothing.
func TestOverridesAllocateNothing(t *testing.T) {
	f := newOverrideFixture(t)
	reqs, decisions := make([]store.Request, 1), make([]store.Decision, 1)
	take := func() {
		reqs[0] = store.Request{Key: store.Key{Subject: "tenant:acme", Name: "api/tenant"}, Cost: 1,
			Limit: store.Limit{Algorithm: store.TokenBucket, Count: 1000, Burst: 1000, Period: time.Second}}
		if err := f.store.Decide(context.Background(), store.Take, reqs, decisions); err != nil {
			t.Fatal(err)
		}
	}
	without := testing.AllocsPerRun(100, take)
	f.apply(time.Hour, "user:*", store.Override{Effect: store.OverrideBlock})
	f.apply(time.Hour, "*", store.Override{Effect: store.OverrideBlock, Attributes: map[string]string{"tenant": "acme2"}})
	others := testing.AllocsPerRun(100, take)
	f.apply(time.Hour, "tenant:*", store.Override{Effect: store.OverrideTimes, Thousandths: 2000})
	under := testing.AllocsPerRun(100, take)
	if without > 0 || others > 0 || under >= 1 || decisions[0].Override == nil { // a pool can be emptied meanwhile
		t.Errorf("%.1f allocations without, %.1f with others, %.1f under one", without, others, under)
	}
}

// An override does not make an invalid limit valid.
func TestALimitOutOfBoundsIsRefusedUnderAnOverride(t *testing.T) {
	f := newOverrideFixture(t)
	another := store.Limit{Algorithm: store.TokenBucket, Count: 5, Period: time.Minute}
	for subject, o := range map[string]store.Override{
		"limit": {Effect: store.OverrideLimit, Limit: another}, "times": {Effect: store.OverrideTimes, Thousandths: 3000},
		"add": {Effect: store.OverrideAdd, Units: 5}, "exempt": {Effect: store.OverrideExempt},
	} {
		f.apply(time.Minute, subject, o)
		for _, count := range []int64{0, -1, store.MaxCount + 1, 1 << 62} {
			if err := f.fails(asks(subject, count, 1)); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%s: a count of %d: %v", subject, count, err)
			}
		}
	}
}

// RetryAfter ends with the last of all blocks of the key, in whatever order they were set.
func TestABlockEndsWithTheLastOfMany(t *testing.T) {
	f := newOverrideFixture(t)
	f.set(time.Hour, "tenant:a", store.Override{Effect: store.OverrideBlock})
	for i := range admin.MaxOverrides - 3 { // with different patterns, since an equal block is the same one
		f.set(time.Hour-time.Duration(1+i)*time.Second, fmt.Sprintf("tenant:[a%c]", '一'+i), store.Override{Effect: store.OverrideBlock})
	}
	f.set(2*time.Hour, "*", store.Override{Effect: store.OverrideBlock, Names: mustPattern(t, "other")})
	f.set(3*time.Hour, "tenant:*", store.Override{Effect: store.OverrideExempt})
	f.pass(time.Second)
	if d := f.take("tenant:a"); d.Allowed || d.RetryAfter != time.Hour-time.Second {
		t.Errorf("%+v", d)
	}
}
