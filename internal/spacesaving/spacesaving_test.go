package spacesaving

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/internal/tier"
)

// Compared with exact counts: each counter is within its bounds, frequent things have one, and the sum is complete.
func TestCountsAreWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 20).Draw(t, "counters")
		things := rapid.IntRange(1, 40).Draw(t, "things")
		sketch, exact, lastAt, total := New[int, int64](size, same), map[int]int64{}, map[int]int64{}, int64(0)
		for at := range rapid.IntRange(0, 400).Draw(t, "additions") {
			// The square makes some things more frequent than others.
			thing := rapid.IntRange(0, things*things-1).Draw(t, "thing")
			for thing >= things {
				thing /= things
			}
			n := rapid.Int64Range(1, 3).Draw(t, "times")
			*sketch.Add(thing, n, int64(at)) += n
			exact[thing], lastAt[thing], total = exact[thing]+n, int64(at), total+n
		}
		if sketch.Len() > size {
			t.Fatalf("%d counters of %d", sketch.Len(), size)
		}
		counts, lost := sketch.Drain()
		sum, counted := lost, map[int]bool{}
		for _, c := range counts {
			sum, counted[c.Key] = sum+c.N, true
			if n := exact[c.Key]; c.N < 1 || n < c.N || n > c.N+c.Over || c.Last != lastAt[c.Key] || c.Value != c.N {
				t.Fatalf("%+v came %d times, last at %d", c, n, lastAt[c.Key])
			}
			if c.Over > total/int64(size) {
				t.Fatalf("%+v can be wrong by more than %d/%d", c, total, size)
			}
		}
		if sum != total {
			t.Fatalf("the counters and the lost are %d, and %d were added", sum, total)
		}
		for thing, n := range exact {
			if n > total/int64(size) && !counted[thing] {
				t.Fatalf("%d came %d of %d times, and has none of %d counters", thing, n, total, size)
			}
			if len(exact) <= size && !counted[thing] {
				t.Fatalf("%d has no counter, though there are enough", thing)
			}
		}
		if !sketch.IsEmpty() {
			t.Fatal("it is not empty after Drain")
		}
	})
}

func same(n int) int { return n }

// Ten million different names, and some with one occurrence in a thousand each.
func TestTenMillionNamesTakeNoMoreMemoryThanTheCounters(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	const size, names = 1024, 10_000_000
	var sketch *Sketch[string, struct{}]
	memory := func() int64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := memory()
	sketch = New[string, struct{}](size, strings.Clone)
	often := map[string]int64{}
	text := make([]byte, 0, 32)
	for i := range names {
		text = strconv.AppendInt(append(text[:0], "name:"...), int64(i), 10)
		sketch.Add(string(text), 1, int64(i))
		if i%50 == 0 {
			name := fmt.Sprintf("often:%d", i/50%20)
			sketch.Add(name, 1, int64(i))
			often[name]++
		}
	}
	if grown := memory() - before; grown > 1<<20 {
		t.Errorf("it holds %d KB", grown>>10)
	}
	counts, _ := sketch.Drain()
	for _, c := range counts {
		if n, is := often[c.Key]; is {
			if n < c.N || n > c.N+c.Over {
				t.Errorf("%+v came %d times", c, n)
			}
			delete(often, c.Key)
		}
	}
	for name, n := range often {
		if n > names/size {
			t.Errorf("%s came %d times, and has no counter", name, n)
		}
	}
}
