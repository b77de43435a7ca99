package limiter_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

func TestTokenRecordsComeBack(t *testing.T) {
	record := limiter.TokenRecord{Op: limiter.TakeUpTo, Settled: true, Expires: 1 << 50, Digest: limiter.TokenDigest{1, 15: 2},
		Attempt: 1<<63 | 5,
		Parts:   []limiter.TokenPart{{Cost: 1e9, Granted: 7, Real: 8, Turn: 1 << 51}, {Cost: 1}}}
	bytes := record.AppendRecord(nil)
	got, err := limiter.DecodeTokenRecord(bytes)
	if err != nil || !reflect.DeepEqual(got, record) {
		t.Errorf("it comes back as %+v, %v", got, err)
	}
	for cut := range bytes {
		if _, err := limiter.DecodeTokenRecord(bytes[:cut]); err == nil && (cut-limiter.TokenHeaderSize)%limiter.TokenPartSize != 0 {
			t.Errorf("its first %d bytes are taken for a record", cut)
		}
	}
	bytes[2]++
	if _, err := limiter.DecodeTokenRecord(bytes); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("of a later version it says %v", err)
	}
}

// A bucket above its burst has a version of its own, so that older programs refuse it, and
// neither version stands for the other.
func TestRecordOfAnOverfullBucket(t *testing.T) {
	limit, _ := limiter.Limit{Count: 10, Period: time.Second}.Normalize()
	var full, over, back limiter.State
	full.Charge(limit, 10, 1e15)
	over.Charge(limit, 11, 1e15)
	if v := full.AppendRecord(nil)[2]; v != limiter.RecordVersion {
		t.Errorf("a full bucket's record has version %d", v)
	}
	record := over.AppendRecord(nil)
	if record[2] != limiter.OverfullVersion {
		t.Errorf("an overfull bucket's record has version %d", record[2])
	}
	if err := back.DecodeRecord(record); err != nil || back != over {
		t.Errorf("it comes back as %+v, %v", back, err)
	}
	record[2] = limiter.RecordVersion
	if back.DecodeRecord(record) == nil {
		t.Error("a level above the burst is taken in version 1")
	}
	record = full.AppendRecord(nil)
	record[2] = limiter.OverfullVersion
	if back.DecodeRecord(record) == nil {
		t.Error("a level that is not above the burst is taken in version 3")
	}
}

// What is remembered for an operation is not repeated to another: a peek asks what a take would be answered.
func TestATokenIsForOneOperation(t *testing.T) {
	ops := []limiter.Op{limiter.Take, limiter.Charge, limiter.TakeUpTo}
	for _, first := range ops {
		for _, second := range append(ops, limiter.Peek) {
			store := memorystore.New()
			req := limiter.Request{Key: limiter.Key{Subject: "u"}, Limit: limiter.Limit{Count: 9, Period: time.Hour}, Cost: 2, Token: "t"}
			decide(t, store, first, req)
			d := make([]limiter.Decision, 1)
			err := store.Decide(t.Context(), second, []limiter.Request{req}, d)
			fits := first == second || first == limiter.Take && second == limiter.Peek
			if (err == nil) != fits || fits && (!d[0].Repeated || d[0].Used != 2) || err != nil && !errors.Is(err, limiter.ErrInvalid) {
				t.Errorf("a %s after a %s: %+v, %v", second, first, d[0], err)
			}
		}
	}
}

// A settlement charges only what is missing, so it fits where that fits. What a shadow would have denied was
// not charged and is not settled, also when it is settled again.
func TestASettlementIsOfTheDifference(t *testing.T) {
	store := memorystore.New()
	most := limiter.Limit{Algorithm: limiter.FixedWindow, Count: limiter.MaxCount, Period: 24 * time.Hour}
	full := limiter.Request{Key: limiter.Key{Subject: "full"}, Limit: most, Cost: limiter.MaxCount - 5}
	decide(t, store, limiter.Take, full)
	shadow := limiter.Request{Key: limiter.Key{Subject: "shadow"}, Limit: limiter.Limit{Count: 1, Period: time.Hour}, Cost: 1}
	decide(t, store, limiter.Take, shadow)
	full.Cost, shadow.Cost, shadow.Shadow = 3, 3, true
	full.Token, shadow.Token = "t", "t"
	if d := decide(t, store, limiter.Take, full, shadow); d[0].Granted != 3 || d[1].Granted != 0 {
		t.Fatalf("%+v", d)
	}
	full.Cost, shadow.Cost = 6, 6
	err := store.Decide(t.Context(), limiter.Settle, []limiter.Request{full, shadow}, make([]limiter.Decision, 2))
	if !errors.Is(err, limiter.ErrInvalid) {
		t.Errorf("settled at more than can be in use: %v", err)
	}
	full.Cost, shadow.Cost = 5, 5
	for n := range 2 {
		d := decide(t, store, limiter.Settle, full, shadow)
		if d[0].Used != limiter.MaxCount || d[0].Granted != 5 || d[0].Repeated != (n == 1) || d[1].Used != 1 || d[1].Granted != 0 {
			t.Errorf("settled %d times before: %+v", n, d)
		}
	}
}

func TestWhatATokenMayBe(t *testing.T) {
	req := limiter.Request{Key: limiter.Key{Subject: "a"}, Limit: limiter.Limit{Count: 1, Period: time.Second}, Cost: 1}
	for _, c := range []struct {
		op    limiter.Op
		token string
		ttl   time.Duration
		fine  bool
	}{
		{limiter.Take, strings.Repeat("x", limiter.MaxTokenLength), 0, true},
		{limiter.Take, strings.Repeat("x", limiter.MaxTokenLength+1), 0, false},
		{limiter.Take, "a{b", 0, false}, {limiter.Take, "a\nb", 0, false}, {limiter.Take, "\xff", 0, false},
		{limiter.Take, "t", limiter.MaxTokenTTL, true}, {limiter.Take, "t", limiter.MaxTokenTTL + 1, false}, {limiter.Take, "t", -1, false},
		{limiter.Settle, "", 0, false}, {limiter.Settle, "t", 0, true}, {limiter.Adjust, "t", 0, false},
		{limiter.Peek, "t", 0, true}, {limiter.Refund, "t", 0, true},
	} {
		req.Token, req.TokenTTL = c.token, c.ttl
		if _, err := limiter.NormalizeAll(nil, c.op, []limiter.Request{req}); (err == nil) != c.fine {
			t.Errorf("a %s with token %.10q for %v: %v", c.op, c.token, c.ttl, err)
		}
	}
	if limiter.ValidatePrefix("rl!") == nil {
		t.Error("a prefix may hold !")
	}
}
