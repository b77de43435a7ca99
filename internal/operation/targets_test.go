package operation

import (
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Several limits of one value of another limiter are one key to delete.
func TestLimitsOfOneValue(t *testing.T) {
	targets := &targets{}
	for _, of := range [][2]string{{"bucket4j/a", "k"}, {"bucket4j/b", "k"}, {"bucket4j/a", "l"}} {
		e := &admin.Entry{Key: store.Key{Subject: "a", Name: of[0]}, Layout: "bucket4j", Limit: tenAnHour}
		e.Record.Members = []admin.Member{{StoreKey: of[1], Type: "hash", Dump: []byte("x")}}
		if err := targets.add(e, nil); err != nil {
			t.Fatal(err)
		}
	}
	if targets.count != 2 || len(targets.held.Records) != 2 {
		t.Errorf("%d keys are to be deleted, and %d are held, want 2", targets.count, len(targets.held.Records))
	}
}
