package spacesaving

import (
	"testing"

	"pgregory.net/rapid"
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
			*sketch.Add(thing, n) = int64(at)
			exact[thing], lastAt[thing], total = exact[thing]+n, int64(at), total+n
		}
		if sketch.counters.Len() > size {
			t.Fatalf("%d counters of %d", sketch.counters.Len(), size)
		}
		counts, lost := sketch.Drain(forgotten)
		sum, counted := lost, map[int]bool{}
		for _, c := range counts {
			sum, counted[c.Key] = sum+c.N, true
			if n := exact[c.Key]; c.N < 1 || n < c.N || n > c.N+c.Over || c.Note != lastAt[c.Key] {
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

func forgotten(*Count[int, int64]) (note int64, stays bool) { return 0, false }

// A thing that stays has a note and no count, until it comes again or another one needs its counter.
func TestAThingThatStaysHasItsNoteAndNoCount(t *testing.T) {
	sketch := New[int, int64](2, same)
	*sketch.Add(1, 5) = 10
	*sketch.Add(2, 3) = 20
	stays := func(c *Count[int, int64]) (note int64, yes bool) { return c.Note + 1, c.Key == 1 }
	if counts, lost := sketch.Drain(stays); len(counts) != 2 || lost != 0 || !sketch.IsEmpty() ||
		sketch.counters.Len() != 1 {
		t.Fatalf("%+v, %d lost, %d stay", counts, lost, sketch.counters.Len())
	}
	if note := sketch.Note(1); note == nil || *note != 11 || sketch.Note(2) != nil {
		t.Fatal("its note is gone, or that of another is there")
	}
	if note := sketch.Add(1, 1); *note != 11 {
		t.Errorf("the note is %d", *note)
	}
	sketch.Add(2, 2)
	if note := sketch.Add(3, 1); *note != 0 || sketch.Note(1) != nil {
		t.Errorf("the lowest counter was not taken over: note %d", *note)
	}
	counts, lost := sketch.Drain(stays)
	if len(counts) != 2 || lost != 1 || sketch.counters.Len() != 0 {
		t.Errorf("%+v, %d lost, %d stay", counts, lost, sketch.counters.Len())
	}
	*sketch.Add(1, 1) = 7
	sketch.Drain(stays)
	if counts, _ := sketch.Drain(stays); len(counts) != 0 || *sketch.Note(1) != 9 {
		t.Errorf("%+v are counted without an occurrence", counts)
	}
}
