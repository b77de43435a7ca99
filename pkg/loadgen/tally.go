package loadgen

type Tally struct{ counts [][2]int64 }

func NewTally(n int) *Tally { return &Tally{make([][2]int64, n)} }

func (t *Tally) Add(subject uint32, allowed bool) {
	if allowed {
		t.counts[subject][0]++
	} else {
		t.counts[subject][1]++
	}
}
