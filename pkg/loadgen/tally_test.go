package loadgen

import (
	"fmt"
	"testing"
)

func TestTally(t *testing.T) {
	var tally Tally
	for subject, counts := range map[uint32][2]int{9: {1, 2}, 2: {3, 2}, 4: {5, 0}, 7: {1, 2}, 3: {0, 1}} {
		for range counts[0] {
			tally.Add(subject, true)
		}
		for range counts[1] {
			tally.Add(subject, false)
		}
	}
	if text := fmt.Sprint(tally.Allowed+tally.Denied, tally.Allowed, tally.Denied, tally.Keys,
		tally.KeysDenied); text != "17 10 7 5 4" {
		t.Error(text)
	}
	// Among equally many denials: first the one with more requests, then the lower number.
	if text := fmt.Sprint(tally.MostDenied(3)); text != "[{2 3 2} {7 1 2} {9 1 2}]" {
		t.Error(text)
	}
}
