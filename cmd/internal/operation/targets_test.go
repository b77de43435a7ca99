package operation

import (
	"errors"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// What is to remain of a limit that is not known cannot be set. Deleting its key can.
func TestNothingIsLeftRemainingOfAnUnknownLimit(t *testing.T) {
	for _, e := range storetest.NotAllKnown() {
		wanted := &targets{remaining: &Remaining{Units: 3}, dryRun: true}
		err := wanted.add(&e, nil)
		if known := e.Key.Subject == "whole"; known != (err == nil) || known == wanted.failed {
			t.Errorf("%s: %v, failed %v", e.Key.Subject, err, wanted.failed)
		}
		if err != nil && !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v; want an ErrInvalid", e.Key.Subject, err)
		}
		reset := &targets{dryRun: true}
		if err := reset.add(&e, nil); err != nil || reset.count != 1 {
			t.Errorf("a reset of %s: %v", e.Key.Subject, err)
		}
	}
}

// Several limits of one value of another limiter are one key to delete, and several to set.
func TestLimitsOfOneValue(t *testing.T) {
	of := func(name, storeKey, field string) *admin.Entry {
		e := &admin.Entry{Key: store.Key{Subject: "a", Name: name}, Layout: "bucket4j", Limit: tenAnHour}
		e.Record.Members = []admin.Member{{StoreKey: storeKey, Field: field, Type: "hash", Dump: []byte("x")}}
		return e
	}
	entries := []*admin.Entry{of("bucket4j/a", "k", ""), of("bucket4j/b", "k", ""), of("bucket4j/a", "l", "f"), of("bucket4j/a", "l", "g")}
	for _, remaining := range []*Remaining{nil, {Units: 5}} {
		targets := &targets{remaining: remaining}
		for _, e := range entries {
			if err := targets.add(e, nil); err != nil {
				t.Fatal(err)
			}
		}
		want := 3
		if remaining != nil {
			want = 4
		}
		if targets.count != want || len(targets.held.Records) != want {
			t.Errorf("%d keys are to be changed, and %d are held, want %d", targets.count, len(targets.held.Records), want)
		}
	}
}
