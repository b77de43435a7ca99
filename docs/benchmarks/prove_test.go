package main

import (
	"context"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// later is a store whose answers say a retry that is a microsecond late.
type later struct{ store.Store }

func (s later) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	err := s.Store.Decide(ctx, op, reqs, decisions)
	if decisions[0].RetryAfter > 0 {
		decisions[0].RetryAfter += time.Microsecond
	}
	return err
}

func TestTheModelFindsAMicrosecond(t *testing.T) {
	for _, kind := range store.Kinds() {
		if kind.InCalendar() {
			continue
		}
		var now time.Time
		right := memorystore.New(memorystore.WithClock(func() time.Time { return now }))
		answers, wrong, err := compare(t.Context(), right, &now, kind, 20, 1)
		if wrong != "" || err != nil || answers != 400 {
			t.Errorf("%d answers, %s, %v", answers, wrong, err)
		}
		wrongStore := later{memorystore.New(memorystore.WithClock(func() time.Time { return now }))}
		if _, wrong, err = compare(t.Context(), wrongStore, &now, kind, 20, 1); wrong == "" || err != nil {
			t.Errorf("%s: nothing is wrong, %v", kind, err)
		}
	}
}
