package limiter_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
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
