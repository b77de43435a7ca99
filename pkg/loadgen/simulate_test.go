package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// logOf writes an access log of some clients that come in bursts, with some lines out of order and some bad. The
// bytes of an answer, from 1 to 6, can serve as costs.
func logOf(lines int) string {
	random := rand.New(rand.NewPCG(2015, 5))
	var b strings.Builder
	now := time.Date(2015, time.May, 17, 10, 4, 50, 0, time.UTC)
	client, left := 0, 0
	for i := range lines {
		if left == 0 {
			client, left = random.IntN(20), 1+random.IntN(60)*random.IntN(2)
			now = now.Add(time.Duration(random.IntN(40)) * time.Second)
		}
		left--
		if random.IntN(3) == 0 {
			now = now.Add(time.Second)
		}
		at := now.Add(-time.Duration(random.IntN(20)/19*30) * time.Second)
		if i%500 == 77 {
			b.WriteString("203.0.113.1 - - [what?] broken\n")
		}
		fmt.Fprintf(&b, "203.0.113.%d - - [%s] \"GET /%d HTTP/1.1\" 200 %d \"-\" \"agent [%d]\"\n",
			client, at.Format("02/Jan/2006:15:04:05 -0700"), i, 1+random.IntN(6)*random.IntN(2), i)
	}
	return b.String()
}

func readLog(t testing.TB, log []byte, options trace.Options) *trace.Trace {
	t.Helper()
	got, err := trace.Read(context.Background(), bytes.NewReader(log), options)
	tier.Must(t, err)
	return got
}

func parseLimit(t testing.TB, text string) store.Limit {
	t.Helper()
	limit, err := store.ParseLimit(text)
	tier.Must(t, err)
	return limit
}

func simulate(t testing.TB, log *trace.Trace, c Candidate, options SimulateOptions) *Simulation {
	t.Helper()
	s, err := Simulate(context.Background(), log, c, options)
	tier.Must(t, err)
	return s
}

// A policy's limits are decided together. Subjects with the same key share its state, an override applies to its
// subjects, and a shadow limit denies nothing.
func TestPolicyInASimulation(t *testing.T) {
	limit := func(name string, count int64) limiter.Limit {
		return limiter.Limit{Name: name, Algorithm: limiter.FixedWindow, Count: count, Period: time.Hour}
	}
	p := &policy.Policy{Name: "api", Limits: []policy.Limit{
		{Limit: limit("tenant", 4), By: []string{"tenant"}, Exceptions: []policy.Exception{
			{When: policy.Attributes{"tenant": "big"}, Limit: limit("", 6)},
			{When: policy.Attributes{"plan": "gold"}, Limit: limit("", 5)}}},
		{Limit: limit("user", 3), By: []string{"tenant", "user"}},
		{Limit: limit("trial", 1), By: []string{"user"}},
	}}
	p.Limits[2].Shadow = true
	const log = "time,tenant,user,plan\n" +
		// the user's fourth is denied, and charges the tenant nothing
		"1,small,a,\n2,small,a,\n3,small,a,\n4,small,a,\n" +
		"5,small,b,\n6,small,b,\n" + // the tenant's fifth is denied
		"7,big,a,\n7,big,b,\n7,big,a,\n7,big,b,\n7,big,a,\n7,big,b,\n7,big,c,\n" +
		"8,mixed,a,gold\n8,mixed,b,\n"
	recorded := readLog(t, []byte(log), trace.Options{Key: []string{"tenant", "user"},
		Further: []trace.Field{{Name: "plan", Optional: true}}})
	clock := new(Clock)
	backend := memorystore.New(memorystore.WithClock(clock.Now))
	s := simulate(t, recorded, UnderPolicy([]int{0, 1, 2}, []string{"tenant", "user", "plan"}, p,
		&httplimit.Settings{}),
		SimulateOptions{Store: backend, Clock: clock})
	if s.Denied != 3 || s.Keys != 7 || s.KeysDenied != 3 {
		t.Errorf("%d denied, %d of %d keys", s.Denied, s.KeysDenied, s.Keys)
	}
	inGo := simulate(t, recorded, UnderPolicy([]int{0, 1, 2}, []string{"tenant", "user", "plan"}, p,
		&httplimit.Settings{}), SimulateOptions{})
	if got, want := allOf(t, inGo), allOf(t, s); got != want {
		t.Errorf("without a store:\n%.600s\n%.600s", got, want)
	}
	if text := fmt.Sprint(s.Limits[0].Denied, s.Limits[1].Denied, s.Limits[2].Denied); text != "2 1 12" {
		t.Errorf("the limits denied %s", text)
	}
	if s.MixedKeys[0] != 1 || s.MixedKeys[1] != 0 {
		t.Errorf("%d and %d keys under several limits", s.MixedKeys[0], s.MixedKeys[1])
	}
	// Addresses of one client are one subject.
	clients := &httplimit.Settings{Rules: map[string]httplimit.Rule{"api": {Attributes: map[string]httplimit.Source{
		"tenant": httplimit.MustSource("client")}}}}
	addresses := readLog(t, []byte("time,tenant,user,plan\n1,2001:db8::1,a,x\n2,2001:db8::2,a,x\n3,2001:db8::3,b,x\n"+
		"3,2001:db8:0:1::,a,x\n4,2001:DB8::1,b,x\n5,[2001:db8::9],b,x\n"), trace.Options{
		Key: []string{"tenant", "user", "plan"}})
	of := UnderPolicy([]int{0, 1, 2}, []string{"tenant", "user", "plan"}, p, clients)
	if s := simulate(t, addresses, of, SimulateOptions{}); s.Keys != 3 || s.Denied != 1 ||
		s.Subjects.At(0)[0] != "2001:db8::/64" {
		t.Errorf("by client: %d keys, %d denied, first %q", s.Keys, s.Denied, s.Subjects.At(0))
	}
	// By one of the trace's fields there are fewer subjects than in the trace.
	if s := simulate(t, recorded, UnderLimits([]int{0}, parseLimit(t, "fixed-window:6/1h")),
		SimulateOptions{}); s.Keys != 3 ||
		s.Denied != 1 {
		t.Errorf("by tenant alone: %d keys, %d denied", s.Keys, s.Denied)
	}
}

func TestTimeline(t *testing.T) {
	for span, want := range map[time.Duration]time.Duration{
		0: time.Millisecond, 199 * time.Millisecond: time.Millisecond, 200 * time.Millisecond: 2 * time.Millisecond,
		3 * time.Minute: time.Second, 83 * time.Hour: 30 * time.Minute, 365 * 24 * time.Hour: 2 * 24 * time.Hour,
		100 * 365 * 24 * time.Hour: 183 * 24 * time.Hour,
	} {
		if got := timelineInterval(span); got != want || span/got >= maxIntervals {
			t.Errorf("for %s it is %s, want %s", span, got, want)
		}
	}
	recorded := readLog(t, []byte("time,key\n100,a\n100.5,a\n101,a\n250.2,a\n299,b\n"), trace.Options{})
	s := simulate(t, recorded, UnderLimits([]int{0}, parseLimit(t, "2/1h")), SimulateOptions{})
	if s.IntervalMS != 1000 || len(s.Timeline) != 200 || s.Begin != 100e6 || s.End != 299e6 {
		t.Fatalf("%d intervals of %d ms from %d to %d", len(s.Timeline), s.IntervalMS, s.Begin, s.End)
	}
	for i, want := range map[int]Interval{0: {Allowed: 2}, 1: {Denied: 1}, 2: {}, 150: {Denied: 1}, 199: {Allowed: 1}} {
		want.OffsetMS = 1000 * int64(i)
		if s.Timeline[i] != want {
			t.Errorf("interval %d has %+v, want %+v", i, s.Timeline[i], want)
		}
	}
}

func TestProgressOfASimulation(t *testing.T) {
	recorded := readLog(t, []byte(logOf(2*checkEvery+1)), trace.Options{})
	tells, before, allowed := 0, int64(0), int64(0)
	simulate(t, recorded, UnderLimits([]int{0}, parseLimit(t, "1/366d")), SimulateOptions{
		Progress: func(decided, denied int64) {
			if decided < before || decided-before > checkEvery {
				t.Errorf("it tells of %d, and of %d before", decided, before)
			}
			tells, before, allowed = tells+1, decided, decided-denied
		}})
	if tells < 3 || before != 2*checkEvery+1 || allowed != 20 {
		t.Errorf("it tells %d times, at last of %d decided and %d allowed", tells, before, allowed)
	}
}

func TestASimulationCanBeEnded(t *testing.T) {
	recorded := readLog(t, []byte(logOf(10)), trace.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Simulate(ctx, recorded, UnderLimits([]int{0}, parseLimit(t, "1/1s")), SimulateOptions{}); !errors.Is(
		err,
		context.Canceled) {
		t.Error(err)
	}
	if _, err := Suggest(ctx, recorded, parseLimit(t, "1/1s"), fewer(0), 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A simulation of one subject after the other has the same results as one that decides all subjects together.
func TestOneSubjectAfterTheOther(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var log strings.Builder
	log.WriteString("time,key,user,cost\n")
	for i := range 20_000 {
		fmt.Fprintf(&log, "%d.%03d,k%d,u%d,%d\n", 1_700_000_000+i/20, i%1000, random.IntN(1+i/50), random.IntN(3),
			1+random.IntN(5))
	}
	recorded := readLog(t, []byte(log.String()), trace.Options{Further: []trace.Field{{Name: "user"}}})
	for _, fields := range [][]int{{0}, {1}, {0, 1}, {1, 0}} {
		for _, algorithm := range store.Algorithms() {
			first := store.Limit{Algorithm: algorithm, Count: 4, Period: 30 * 1e9}
			candidate := UnderLimits(fields, first)
			parts := simulate(t, recorded, candidate, SimulateOptions{})
			candidate.limits = nil
			whole := simulate(t, recorded, candidate, SimulateOptions{})
			whole.MixedKeys = nil
			for i := range whole.Subjects.Len() {
				if got, want := parts.Subjects.At(uint32(i)), whole.Subjects.At(uint32(i)); !slices.Equal(got, want) {
					t.Fatalf("subject %d is %q, not %q", i, got, want)
				}
			}
			if got, want := allOf(t, parts), allOf(t, whole); got != want {
				t.Errorf("%s by %v:\n%.600s\n%.600s", algorithm, fields, got, want)
			}
			if whole.Denied == 0 || whole.NeverFits == 0 {
				t.Errorf("%s by %v: too little is denied for a test: %+v", algorithm, fields, whole.Limits)
			}
		}
	}
}

// allOf writes everything that a simulation found.
func allOf(t *testing.T, s *Simulation) string {
	t.Helper()
	text, err := json.Marshal(s.Result)
	tier.Must(t, err)
	return fmt.Sprintf("%s %+v %+v %d from %d to %d", text, s.tally, s.findings, s.NeverFits, s.Begin, s.End)
}
