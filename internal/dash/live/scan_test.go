package live

import (
	"context"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// A scan that was given up for another brings nothing more, and no third one follows it.
func TestAScanThatWasGivenUpIsForgotten(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	f := New(t.Context(), Options{Store: memorystore.New(), Query: admin.Query{}, MaxKeys: 20, Now: func() time.Time {
		return now
	},
		Sleep: func(context.Context, time.Duration) error { return context.Canceled }})
	begun, old := f.scan(), f.pass
	f.Coverage.Full, f.Filter.Text = true, "x"
	next := f.SearchStore()
	if next == nil || f.pass != old+1 {
		t.Fatalf("the scan is number %d, and the one before it is %d", f.pass, old)
	}
	for _, msg := range []any{begun(), scanned{Pass: old, Done: true}, f.scanAfter(old)} { // they were on their way
		if f.Update(msg); f.pass != old+1 || f.Coverage.Passes > 0 {
			t.Errorf("after %T of the old scan (%d) number %d is under way, whole %v", msg, old, f.pass,
				f.Coverage.Passes)
		}
	}
	for cmd := next; cmd != nil; {
		cmd = f.Update(cmd())
	}
	if f.Coverage.Passes != 1 {
		t.Error("the new one did not end")
	}
}
