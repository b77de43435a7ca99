package layouts

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// bucket4jThree is what bucket4j 8.19.0 wrote of 10 a minute greedily with the id "per-min", and 100 an hour
// intervally, after three were taken.
const bucket4jThree = "00000002000000010000000200000001000000000000000a000000000000000a0000000df8475800000000000000000a" +
	"008000000000000000000100077065722d6d696e00000001000000000000006400000000000000640000034630b8a00000000000000000640180000000" +
	"00000000000000000003000000010000000618ea2aaebd5982800000000000000007000000000000000018ea2aaebd59828000000000000000610000" +
	"000000000000000000010000000000000003010000000000000007"

// bucket4jWith is bucket4jThree with the numbers of its state put in, those of the first bandwidth first.
func bucket4jWith(numbers ...int64) string {
	value := unhex(bucket4jThree)
	for i, number := range numbers {
		binary.BigEndian.PutUint64(value[len(value)-69+8*i:], uint64(number))
	}
	return string(value)
}

// TestBucket4jLibrary holds what we say of buckets to what bucket4j 8.19.0 itself said of them. Each line of the file
// is a bucket of random bandwidths after random takes, also of more than there was: the time in ms, the tokens of
// each bandwidth then, how many ns until there is one in all of them, how many until all are full, and the value that
// was stored before.
func TestBucket4jLibrary(t *testing.T) {
	number := func(text string) int64 { return must(strconv.ParseInt(text, 10, 64)) }
	lines := strings.Split(strings.TrimSpace(string(must(os.ReadFile("testdata/bucket4j.txt")))), "\n")
	if len(lines) < 300 {
		t.Fatalf("there are %d lines", len(lines))
	}
	for n, line := range lines {
		fields := strings.Fields(line)
		found := &Found{StoreKey: "user-42", Key: store.Key{Subject: "user-42", Name: "bucket4j"},
			Now: store.Instant(number(fields[0]) * 1000), Values: []Value{
				text("user-42", string(unhex(fields[4])), -1)}}
		reading, err := decode(named("bucket4j"), found)
		if err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		var retry, full time.Duration
		for i, tokens := range strings.Split(fields[1], ",") {
			e := &reading.Entries[i]
			if left, want := number(tokens), max(0, number(tokens)); e.Remaining != want ||
				e.Used != e.Limit.Burst-left {
				t.Errorf("line %d: %d used and %d remain of %s, want %d tokens", n+1, e.Used, e.Remaining,
					e.LimitText(), left)
			}
			retry, full = max(retry, e.RetryAfter), max(full, e.ResetAfter)
		}
		if retry != time.Duration(number(fields[2])) || full != time.Duration(number(fields[3])) {
			t.Errorf("line %d: retry after %s, full after %s, want %s ns and %s ns", n+1, retry, full, fields[2],
				fields[3])
		}
	}
}
