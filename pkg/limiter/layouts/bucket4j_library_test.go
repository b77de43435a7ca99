package layouts

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// TestBucket4jLibrary holds what we say of buckets to what bucket4j 8.19.0 itself said of them.
// Each line of the file is a bucket of random bandwidths after random takes, also of more than
// there was: the time in ms, the tokens of each bandwidth then, how many ns until there is one
// in all of them, how many until all are full, and the value that was stored before.
func TestBucket4jLibrary(t *testing.T) {
	file, err := os.ReadFile("testdata/bucket4j.txt")
	if err != nil {
		t.Fatal(err)
	}
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	if len(lines) < 300 {
		t.Fatalf("there are %d lines", len(lines))
	}
	for n, line := range lines {
		fields := strings.Fields(line)
		found := &Found{StoreKey: "user-42", Key: store.Key{Subject: "user-42", Name: "bucket4j"},
			Now: store.Instant(number(fields[0]) * 1000), Values: []Value{text("user-42", string(unhex(fields[4])), -1)}}
		reading, err := decode(bucket4j{}, found)
		if err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		var retry, full time.Duration
		for i, tokens := range strings.Split(fields[1], ",") {
			e := &reading.Entries[i]
			if left, want := number(tokens), max(0, number(tokens)); e.Remaining != want || e.Used != e.Limit.Burst-left {
				t.Errorf("line %d: %d used and %d remain of %s, want %d tokens", n+1, e.Used, e.Remaining, e.LimitText(), left)
			}
			retry, full = max(retry, e.RetryAfter), max(full, e.ResetAfter)
		}
		if retry != time.Duration(number(fields[2])) || full != time.Duration(number(fields[3])) {
			t.Errorf("line %d: retry after %s, full after %s, want %s ns and %s ns", n+1, retry, full, fields[2], fields[3])
		}
	}
}
