package probe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// several decides by several limits, all of which must have room.
type several struct {
	limits []*ours
	// inTurn: each limit counts what those after it deny, as one middleware behind another does.
	inTurn bool
}

func together(t testing.TB, inTurn bool, texts ...string) *several {
	s := &several{inTurn: inTurn}
	for _, text := range texts {
		s.limits = append(s.limits, newOurs(t, text))
	}
	return s
}

func (s *several) decide(subject string, now store.Instant) bool {
	if !s.inTurn {
		for _, o := range s.limits {
			if state := o.states[subject]; state != nil && state.Used(now)+max(1, o.cost) > o.limit.Capacity() {
				return false
			}
		}
	}
	for _, o := range s.limits {
		if !o.decide(subject, now) {
			return false
		}
	}
	return true
}

// pairs are limits that endpoints keep together.
var pairs = [][]string{
	{"token-bucket:10/1s", "fixed-window:50/1m"}, {"fixed-window:10/1s", "fixed-window:60/1m"},
	{"sliding-log:10/1s", "sliding-log:40/30s"}, {"token-bucket:10/1s", "token-bucket:30/1m"},
	{"fixed-window:10/1s,from=first", "fixed-window:40/20s,from=first"}, {"sliding-counter:10/1s", "fixed-window:45/1m"},
}

// orders are ways in which an endpoint can decide by several limits.
var orders = []struct {
	name   string
	server func(t testing.TB, texts []string) *server
}{
	{"at once", func(t testing.TB, texts []string) *server { return simulated(together(t, false, texts...)) }},
	{"the first one first", func(t testing.TB, texts []string) *server { return simulated(together(t, true, texts...)) }},
	{"the last one first", func(t testing.TB, texts []string) *server {
		s := together(t, true, texts...)
		slices.Reverse(s.limits)
		return simulated(s)
	}},
}

func givenTogether(t *testing.T, s *server, texts []string, config Config, seed uint64) *Result {
	t.Helper()
	limit := parse(t, texts[0])
	config.Limit = &limit
	for _, text := range texts[1:] {
		config.Beside = append(config.Beside, parse(t, text))
	}
	return runWhole(t, s, config, seed)
}

// worlds are what makes the instants of decisions less certain.
var worlds = []func(*server){
	func(*server) {},
	func(s *server) { s.skew = 370 * time.Millisecond },
	func(s *server) { s.longest = 50 * time.Millisecond },
	func(s *server) { s.errors, s.skew = 0.01, 17*time.Second },
}

// An endpoint that keeps two limits fails no check, in whatever order it asks them and whenever its windows begin. Each of
// the limits is named as the one that denied.
func TestHonestServersWithTwoLimitsFailNothing(t *testing.T) {
	runs, wanted, passed := 0, 24, 0
	switch {
	case testing.Short():
		wanted = len(pairs)
	case *thorough:
		wanted = 300
	}
	for seed := uint64(0); runs < wanted; seed++ {
		for _, texts := range pairs {
			order, world := orders[(int(seed)+runs)%len(orders)], int(seed)%len(worlds)
			s := order.server(t, texts)
			worlds[world](s)
			runs++
			r := givenTogether(t, s, texts, everything(s), seed).withoutRetry()
			if r.Overall() == Pass {
				passed++
			}
			for _, c := range r.Checks {
				if c.Verdict == Fail || c.Name == checkAdmitted && c.Verdict == Pass &&
					slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(c.Seen, text+" denied") }) {
					t.Errorf("%v, %s, world %d, seed %d: %s %s: expected %s, seen %s", texts, order.name, world, seed, c.Verdict, c.Name,
						c.Expected, c.Seen)
				}
			}
			if r.Overall() != Pass {
				t.Logf("%v, %s, world %d, seed %d: %d requests, %s; %q", texts, order.name, world, seed, len(r.Events),
					r.check(checkAdmitted).Seen, r.Notes)
			}
		}
	}
	t.Logf("%d of %d passed", passed, runs)
	if passed < runs*9/10 {
		t.Errorf("only %d of %d honest servers passed", passed, runs)
	}
}

// What is wrong with one of two limits is found, and a limit that was not seen to deny never passes.
func TestDefectsOfOneOfTwoLimitsAreFound(t *testing.T) {
	for _, test := range []struct {
		what, kept, given string
		want              Verdict
		check             string
	}{
		{"the second one is not kept", "token-bucket:10/1s", "token-bucket:10/1s sliding-log:40/20s", Fail, checkAdmitted},
		{"one too many", "token-bucket:10/1s sliding-log:41/20s", "token-bucket:10/1s sliding-log:40/20s", Fail, checkAdmitted},
		{"one too few", "token-bucket:10/1s sliding-log:39/20s", "token-bucket:10/1s sliding-log:40/20s", Fail, checkRecovery},
		{"one too many at once", "sliding-log:11/1s sliding-log:40/20s", "sliding-log:10/1s sliding-log:40/20s", Fail, checkAdmitted},
		{"too late", "sliding-log:10/1s sliding-log:40/25s", "sliding-log:10/1s sliding-log:40/20s", Fail, checkRecovery},
		// One unit more of a window whose beginning is not known: no pass, and not certain.
		{"one too many of windows", "token-bucket:10/1s fixed-window:41/20s", "token-bucket:10/1s fixed-window:40/20s", Unknown,
			checkAdmitted},
		{"never reached", "sliding-log:10/1s sliding-log:40/2s", "sliding-log:10/1s sliding-log:40/2s", Unknown, checkAdmitted},
	} {
		for seed := range max(1, seeds(4)) {
			s := simulated(together(t, false, strings.Fields(test.kept)...))
			r := givenTogether(t, s, strings.Fields(test.given), everything(s), seed).withoutRetry()
			if c := r.check(test.check); r.Overall() != test.want || c.Verdict != test.want {
				t.Errorf("%s, seed %d: %s after %d requests: %s %s, %q, %+v", test.what, seed, r.Overall(), len(r.Events), c.Name,
					c.Seen, r.Notes, r.Checks)
			}
		}
	}
}

// A probe without a limit names the one that denies first, and what explains those that another one denies behind it. An endpoint with
// one limit has no other.
func TestAnotherLimitBehindTheFirstIsNamed(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	runs, named := 0, 0
	for _, limits := range append(slices.Clone(pairs), []string{"fixed-window:10/1s,from=first", "sliding-log:60/30s"},
		[]string{"token-bucket:10/1s"}, []string{"sliding-log:10/1s"}, []string{"fixed-window:10/1s"}, []string{"sliding-counter:10/1s"},
		[]string{"token-bucket:5/1s,refill=1s"}) {
		for seed := range seeds(4) {
			s := simulated(together(t, false, limits...))
			worlds[seed%3](s)
			r := runWhole(t, s, everything(s), seed).withoutRetry()
			said, isNamed := "", false
			for _, note := range r.Notes {
				if strings.Contains(note, "another limit") {
					said, isNamed = note, strings.Contains(note, "which can be ")
				}
			}
			behind := limits[1:]
			isMissed := said == "" && len(behind) > 0 && r.Exact
			if r.Overall() == Fail || said != "" && len(behind) == 0 || isMissed || isNamed && !strings.Contains(said, behind[0]) {
				t.Errorf("%v, seed %d: %s, %v, %q", limits, seed, r.Overall(), r.Limit, r.Notes)
			}
			if len(behind) > 0 {
				if runs++; strings.Contains(said, "which can be "+behind[0]+":") {
					named++
					continue
				}
				t.Logf("%v, seed %d: %s", limits, seed, said)
			}
		}
	}
	if named < runs*8/10 {
		t.Errorf("only %d of %d were named, and nothing else", named, runs)
	}
}

// ofAll decides by a limit of each subject and one of all of them, both of which must have room.
type ofAll struct{ each, all *ours }

func (o *ofAll) decide(subject string, now store.Instant) bool {
	if used := o.all.states["all"]; used != nil && used.Used(now) >= o.all.limit.Count {
		return false
	}
	return o.each.decide(subject, now) && o.all.decide("all", now)
}

// A limit of all subjects behind that of each may be used up when it is met. Its count is not known then, and it is not named by what is
// left of it.
func TestALimitOfAllBehindTheFirstIsNotMisnamed(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	met := 0
	for count := 125; count < 700; count += 50 {
		o := &ofAll{newOurs(t, "token-bucket:10/1s"), newOurs(t, fmt.Sprintf("fixed-window:%d/1m", count))}
		s := simulated(o)
		r := runWhole(t, s, everything(s), uint64(count)).withoutRetry()
		for _, note := range r.Notes {
			if strings.Contains(note, "another limit") {
				met++
				if strings.Contains(note, "which can be ") && !strings.Contains(note, o.all.limit.String()) {
					t.Errorf("%d: %s", count, note)
				}
			}
		}
	}
	if met < 3 {
		t.Errorf("the other limit was met %d times", met)
	}
}
