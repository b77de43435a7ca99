package loadgen

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// A simulation in parts has the same results as one that decides all subjects together.
func TestPartsAreAsTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var log strings.Builder
	log.WriteString("time,key,user,cost\n")
	for i := range 20_000 {
		fmt.Fprintf(&log, "%d.%03d,k%d,u%d,%d\n", 1_700_000_000+i/20, i%1000, random.IntN(1+i/50), random.IntN(3), 1+random.IntN(5))
	}
	recorded := readLog(t, []byte(log.String()), trace.Options{Further: []trace.Field{{Name: "user"}}})
	for _, fields := range [][]int{{0}, {1}, {0, 1}, {1, 0}} {
		for _, algorithm := range store.Algorithms() {
			first := store.Limit{Algorithm: algorithm, Count: 4, Period: 30 * 1e9}
			second := store.Limit{Algorithm: store.FixedWindow, Count: 9, Period: 90 * 1e9}
			candidate := UnderLimits(fields, first, second)
			parts := simulate(t, recorded, candidate, SimulateOptions{})
			candidate.limits = nil
			whole := simulate(t, recorded, candidate, SimulateOptions{})
			for i := range whole.Subjects.Len() {
				if got, want := parts.Subjects.At(uint32(i)), whole.Subjects.At(uint32(i)); !slices.Equal(got, want) {
					t.Fatalf("subject %d is %q, not %q", i, got, want)
				}
			}
			if got, want := allOf(t, parts), allOf(t, whole); got != want {
				t.Errorf("%s by %v:\n%.600s\n%.600s", algorithm, fields, got, want)
			}
			if whole.Denied == 0 || whole.NeverFits == 0 || whole.Limits[1].Denied == 0 {
				t.Errorf("%s by %v: too little is denied for a test: %+v", algorithm, fields, whole.Limits)
			}
		}
	}
}

// allOf writes everything that a simulation found.
func allOf(t *testing.T, s *Simulation) string {
	t.Helper()
	text, err := json.Marshal(s.Result)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %+v %+v %d from %d to %d", text, s.tally, s.findings, s.NeverFits, s.Begin, s.End)
}
