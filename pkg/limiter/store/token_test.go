package store_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/recordformat"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestTokenRecordsComeBack(t *testing.T) {
	record := store.TokenRecord{Op: store.TakeUpTo, Settled: true, Expires: 1 << 50, Digest: store.TokenDigest{
		1, 15: 2},
		Attempt: 1<<63 | 5,
		Charges: []store.TokenCharge{{Cost: 1e9, Granted: 7, Real: 8, Turn: 1 << 51}, {Cost: 1}}}
	bytes := record.AppendRecord(nil)
	got, err := store.DecodeTokenRecord(bytes)
	if err != nil || !reflect.DeepEqual(got, record) {
		t.Errorf("it comes back as %+v, %v", got, err)
	}
	for cut := range bytes {
		if _, err := store.DecodeTokenRecord(bytes[:cut]); err == nil &&
			(cut-recordformat.TokenHeaderSize)%recordformat.TokenChargeSize != 0 {
			t.Errorf("its first %d bytes are taken for a record", cut)
		}
	}
	bytes[2]++
	if _, err := store.DecodeTokenRecord(bytes); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("of a later version it says %v", err)
	}
}

// A bucket above its burst has a version of its own, so that older programs refuse it, and
// neither version stands for the other.
func TestRecordOfAnOverfullBucket(t *testing.T) {
	limit, _ := store.Limit{Count: 10, Period: time.Second}.Normalize()
	var full, over, back store.State
	full.Charge(limit, 10, 1e15)
	over.Charge(limit, 11, 1e15)
	if v := full.AppendRecord(nil)[2]; v != recordformat.Version {
		t.Errorf("a full bucket's record has version %d", v)
	}
	record := over.AppendRecord(nil)
	if record[2] != recordformat.OverfullVersion {
		t.Errorf("an overfull bucket's record has version %d", record[2])
	}
	if err := back.DecodeRecord(record); err != nil || back != over {
		t.Errorf("it comes back as %+v, %v", back, err)
	}
	record[2] = recordformat.Version
	if back.DecodeRecord(record) == nil {
		t.Error("a level above the burst is taken in version 1")
	}
	record = full.AppendRecord(nil)
	record[2] = recordformat.OverfullVersion
	if back.DecodeRecord(record) == nil {
		t.Error("a level that is not above the burst is taken in version 3")
	}
}

// What is remembered for an operation is not repeated to another: a peek asks what a take would be answered.
func TestATokenIsForOneOperation(t *testing.T) {
	ops := []store.Op{store.Take, store.Charge, store.TakeUpTo}
	for _, first := range ops {
		for _, second := range append(ops, store.Peek) {
			backend := memorystore.New()
			req := store.Request{Key: store.Key{Subject: "u"}, Limit: store.Limit{Count: 9, Period: time.Hour}, Cost: 2,
				Token: "t"}
			decide(t, backend, first, req)
			d := make([]store.Decision, 1)
			err := backend.Decide(t.Context(), second, []store.Request{req}, d)
			fits := first == second || first == store.Take && second == store.Peek
			if (err == nil) != fits || fits && (!d[0].Repeated || d[0].Used != 2) || err != nil &&
				!errors.Is(err, store.ErrInvalid) {
				t.Errorf("a %s after a %s: %+v, %v", second, first, d[0], err)
			}
		}
	}
}

// A settlement charges only what is missing, so it fits where that fits. What a shadow would have denied was
// not charged and is not settled, also when it is settled again.
func TestASettlementIsOfTheDifference(t *testing.T) {
	backend := memorystore.New()
	most := store.Limit{Algorithm: store.FixedWindow, Count: store.MaxCount, Period: 24 * time.Hour}
	full := store.Request{Key: store.Key{Subject: "full"}, Limit: most, Cost: store.MaxCount - 5}
	decide(t, backend, store.Take, full)
	shadow := store.Request{Key: store.Key{Subject: "shadow"}, Limit: store.Limit{Count: 1, Period: time.Hour}, Cost: 1}
	decide(t, backend, store.Take, shadow)
	full.Cost, shadow.Cost, shadow.Shadow = 3, 3, true
	full.Token, shadow.Token = "t", "t"
	if d := decide(t, backend, store.Take, full, shadow); d[0].Granted != 3 || d[1].Granted != 0 {
		t.Fatalf("%+v", d)
	}
	full.Cost, shadow.Cost = 6, 6
	err := backend.Decide(t.Context(), store.Settle, []store.Request{full, shadow}, make([]store.Decision, 2))
	if !errors.Is(err, store.ErrInvalid) {
		t.Errorf("settled at more than can be in use: %v", err)
	}
	full.Cost, shadow.Cost = 5, 5
	for n := range 2 {
		d := decide(t, backend, store.Settle, full, shadow)
		if d[0].Used != store.MaxCount || d[0].Granted != 5 || d[0].Repeated != (n == 1) || d[1].Used != 1 ||
			d[1].Granted != 0 {
			t.Errorf("settled %d times before: %+v", n, d)
		}
	}
}

func decide(t *testing.T, backend store.Store, op store.Op, reqs ...store.Request) []store.Decision {
	t.Helper()
	decisions := make([]store.Decision, len(reqs))
	must(t, backend.Decide(t.Context(), op, reqs, decisions))
	return decisions
}
