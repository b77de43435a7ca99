package redisserver

import (
	"fmt"
	"hash/maphash"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/internal/tier"
)

// What was added was seen, and nothing else, whatever part of the table it falls in.
func TestSeenKeysAreAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen, want := newSeenKeys(maphash.MakeSeed()), map[string]bool{}
		key := rapid.OneOf(rapid.StringN(0, 3, -1), rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("rl:{user:%d}:limit", rapid.IntRange(0, 3000).Draw(t, "user"))
		}))
		for range rapid.IntRange(0, 2000).Draw(t, "steps") {
			k := key.Draw(t, "key")
			if first := seen.First(k); first == want[k] {
				t.Fatalf("%q: it comes for the first time: %v, want %v", k, first, !want[k])
			}
			want[k] = true
		}
		if seen.count != len(want) {
			t.Fatalf("it counts %d keys of %d", seen.count, len(want))
		}
	})
}

// So many that each part has grown many times.
func TestSeenKeysOfAFullTable(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	seen := newSeenKeys(maphash.MakeSeed())
	const keys = 300_000 // some hundreds for each part
	for i := range keys {
		seen.add(seen.hash(fmt.Sprint("in", i)))
	}
	for i := range keys {
		if !seen.has(seen.hash(fmt.Sprint("in", i))) {
			t.Fatalf("key %d was forgotten", i)
		}
		if seen.has(seen.hash(fmt.Sprint("out", i))) {
			t.Fatalf("key %d was never there", i)
		}
	}
	bytes := int(unsafe.Sizeof(*seen))
	longest := 0
	for i := range seen.tables {
		slots := seen.tables[i].slots
		bytes += 8 * cap(slots)
		for run, j := 0, 0; j < len(slots); j++ {
			if run++; slots[j] == 0 {
				run = 0
			}
			longest = max(longest, run)
		}
	}
	if perKey := float64(bytes) / keys; perKey > 13 {
		t.Errorf("%.1f bytes a key", perKey)
	}
	if longest > 400 {
		t.Errorf("a search can look at %d slots", longest)
	}
}

// The last generation is remembered whole, and what is older than two is not.
func TestSeenLatelyRemembersAGeneration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := newSeenLately(rapid.IntRange(1, 50).Draw(t, "generation"))
		n := rapid.IntRange(0, 300).Draw(t, "keys")
		for i := range n {
			if !seen.First(fmt.Sprint(i)) {
				t.Fatalf("number %d was there before it came", i)
			}
			if oldest := max(0, i+1-seen.generation); seen.First(fmt.Sprint(oldest)) {
				t.Fatalf("after number %d, number %d comes for the first time again", i, oldest)
			}
		}
		has := func(i int) bool { return seen.Has(fmt.Sprint(i)) }
		for i := range n {
			switch age := n - i; { // 1 is the last
			case age <= seen.generation && !has(i):
				t.Fatalf("of the last %d, number %d is forgotten", seen.generation, age)
			case age > 2*seen.generation && has(i):
				t.Fatalf("number %d is still there with generations of %d", age, seen.generation)
			}
		}
	})
}
