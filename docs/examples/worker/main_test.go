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

func TestMailsAreSentInTurn(t *testing.T) {
	store, err := filestore.New(t.TempDir() + "/mails.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	var out strings.Builder
	begin := time.Now()
	err = send(context.Background(), store, &out, []string{"a", "b", "c"})
	if err != nil || out.String() != "mail to a\nmail to b\nmail to c\n" {
		t.Errorf("%q, %v", &out, err)
	}
	if took := time.Since(begin); took < 400*time.Millisecond { // a bound of the limit, not of the machine
		t.Errorf("three mails at five a second took %s", took)
	}
}

func TestAWorkerThatIsStoppedTakesNothing(t *testing.T) {
	store, err := filestore.New(t.TempDir() + "/mails.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := send(ctx, store, new(strings.Builder), []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	d, err := limiter.New(store).Peek(context.Background(), limiter.Key{Subject: "mails"},
		limiter.Limit{Algorithm: limiter.LeakyBucket, Count: 5, Period: time.Second, Burst: 1000}, 1)
	if err != nil || d.Used != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}
