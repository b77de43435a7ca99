package store

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/internal/tier"
)

// logModel is what unitLog stands for: the time of every unit, oldest first.
type logModel []Instant

func (m *logModel) dropThrough(at Instant) {
	var kept logModel
	for _, taken := range *m {
		if taken > at {
			kept = append(kept, taken)
		}
	}
	*m = kept
}

// distinct counts the instants at which units were taken.
func (m logModel) distinct() (n int) {
	for i := range m {
		if i == 0 || m[i] != m[i-1] {
			n++
		}
	}
	return n
}

func TestUnitLogAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var log unitLog
		var model logModel
		now := Instant(100)
		anInstant := func(t *rapid.T) Instant {
			return Instant(rapid.Int64Range(90, int64(now)+2).Draw(t, "at"))
		}
		add := func(units int64, at Instant) {
			entries := log.length()
			log.add(units, at)
			for range units {
				model = append(model, at)
			}
			// Memory follows what is in use, also when that was more.
			if log.length() > entries && cap(log.entries) > max(minLog, 8*log.length()) {
				t.Fatalf("memory for %d of %d entries", cap(log.entries), log.length())
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				now += Instant(rapid.Int64Range(0, 3).Draw(t, "later"))
				add(rapid.Int64Range(1, 4).Draw(t, "units"), now)
			},
			"add many": func(t *rapid.T) {
				for range rapid.IntRange(1, 60).Draw(t, "entries") {
					now++
					add(1, now)
				}
			},
			"drop": func(t *rapid.T) {
				at := anInstant(t)
				log.dropThrough(at)
				model.dropThrough(at)
			},
			"drop to a few": func(t *rapid.T) {
				at := now - Instant(rapid.Int64Range(0, 5).Draw(t, "kept"))
				log.dropThrough(at)
				model.dropThrough(at)
			},
			"remove newest": func(t *rapid.T) {
				units := rapid.IntRange(0, 12).Draw(t, "units")
				log.removeNewest(int64(units))
				model = model[:max(0, len(model)-units)]
			},
			"": func(t *rapid.T) {
				if got := log.sum() - log.base; got != int64(len(model)) {
					t.Fatalf("%d units, not %d", got, len(model))
				}
				if got, want := log.length(), model.distinct(); got != want {
					t.Fatalf("%d entries for %d instants", got, want)
				}
				for newer := range len(model) {
					i, found := log.indexOfUnitFromNewest(int64(newer))
					if want := model[len(model)-1-newer]; !found || log.entry(i).at != want {
						t.Fatalf("the unit with %d newer ones is of entry %d (%t), not of %d", newer, i, found, want)
					}
				}
				for _, newer := range []int{len(model), len(model) + 1} {
					if at, found := log.indexOfUnitFromNewest(int64(newer)); found {
						t.Fatalf("of %d units, one of entry %d has %d newer ones", len(model), at, newer)
					}
				}
			},
		})
	})
}

// A log in steady use, in which as much is dropped as is added, must keep its
// memory: a decision that copies it each time would take time in proportion.
func TestUnitLogInSteadyUseAllocatesNothing(t *testing.T) {
	for _, kept := range []Instant{0, 1, 100} {
		var log unitLog
		now := Instant(0)
		step := func() {
			now++
			log.dropThrough(now - kept)
			log.add(1, now)
		}
		for range 2 * (kept + 1) {
			step()
		}
		if n := tier.Allocations(1000, step); n != 0 {
			t.Errorf("%v allocations when %d are kept", n, kept)
		}
	}
}
