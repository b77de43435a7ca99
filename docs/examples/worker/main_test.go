package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
)

func newStore(t *testing.T) limiter.Store {
	t.Helper()
	store, err := filestore.New(t.TempDir() + "/mails.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func TestMailsAreSentInTurn(t *testing.T) {
	var out strings.Builder
	begin := time.Now()
	err := send(t.Context(), newStore(t), &out, []string{"a", "b", "c"})
	if err != nil || out.String() != "mail to a\nmail to b\nmail to c\n" {
		t.Errorf("%q, %v", &out, err)
	}
	if took := time.Since(begin); took < 400*time.Millisecond { // a bound of the limit, not of the machine
		t.Errorf("three mails at five a second took %s", took)
	}
}

func TestAWorkerThatIsStoppedTakesNothing(t *testing.T) {
	store := newStore(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := send(ctx, store, new(strings.Builder), []string{"a"}); !errors.Is(err, context.Canceled) ||
		!errors.Is(err, limiter.ErrGaveUp) {
		t.Errorf("%v", err)
	}
	limits, err := limiter.New(store)
	if err != nil {
		t.Fatal(err)
	}
	d, err := limits.Peek(t.Context(), mails.For("all"))
	if err != nil || d.At(0).Used != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}
