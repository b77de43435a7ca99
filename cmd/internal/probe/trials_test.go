package probe

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// view is a server as one of its clients sees it.
type view struct {
	*server
	// name is what the server takes a subject for.
	name func(subject string) string
	// answer replaces the server's answer, and nothing is counted.
	answer func(*endpoint.Answer)
	// costs: the server counts what a request costs.
	costs bool
}

func (v *view) Places() (subject, cost bool) { return true, true }

func (v *view) Send(ctx context.Context, subject string, cost int64, answer *endpoint.Answer) error {
	if v.name != nil {
		subject = v.name(subject)
	}
	if v.answer != nil {
		answer.Sent = time.Now()
		time.Sleep(v.shortest)
		answer.Answered, answer.Status = time.Now(), http.StatusOK
		v.answer(answer)
		return nil
	}
	for _, o := range limitsOf(v.decider) {
		if v.costs {
			o.cost = cost // trials of costs send one request at a time
		}
	}
	return v.server.Send(ctx, subject, cost, answer)
}

// limitsOf returns the limits of a simulated limiter, if it decides as limitctl does.
func limitsOf(d decider) []*ours {
	switch d := d.(type) {
	case *ours:
		return []*ours{d}
	case *several:
		return d.limits
	}
	return nil
}

// racing reads what is in use, and writes it a little later.
type racing struct {
	*server
	*ours
}

func (r *racing) Send(_ context.Context, subject string, _ int64, answer *endpoint.Answer) error {
	answer.Sent, answer.Status = time.Now(), http.StatusOK
	time.Sleep(r.shortest)
	r.mutex.Lock()
	state := new(store.State)
	if before := r.states[subject]; before != nil {
		state = before.Clone()
	}
	r.mutex.Unlock()
	time.Sleep(3 * time.Millisecond)
	r.mutex.Lock()
	r.states[subject] = state
	allowed := r.ours.decide(subject, store.InstantOf(time.Now()))
	r.sent++
	r.mutex.Unlock()
	answer.Answered = time.Now()
	if !allowed {
		answer.Status, answer.Outcome = http.StatusTooManyRequests, endpoint.Denied
	}
	return nil
}

// everything is the configuration of a probe by default, of a server whose clients all see the same.
func everything(s *server) Config {
	whole := &view{server: s, costs: true}
	return Config{Client: whole, Fresh: whole, Methods: []Method{{http.MethodHead, whole}, {http.MethodOptions, whole}}, AnyName: true,
		Quota: 3000, MaxTime: 10 * time.Minute, Workers: 16}
}

// runWhole probes a server in virtual time as it is configured.
func runWhole(t *testing.T, s *server, config Config, seed uint64) (r *Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.random = rand.New(rand.NewPCG(11, seed))
		time.Sleep(time.Duration(s.chance() * float64(time.Hour)))
		var err error
		if r, err = Run(t.Context(), &config); err != nil {
			t.Errorf("error %v", err)
		}
	})
	return r
}

var trialNames = []string{checkSimilarNames, checkConnections, checkAtOnce, checkMethods, checkCosts}

// defects are what a trial finds, each in a server that is right otherwise.
var defects = []struct {
	what, check, words string
	spoil              func(c *Config, s *server)
}{
	{"counted by connection", checkConnections, "counted by connection, port or process", func(c *Config, s *server) {
		n := 0
		c.Fresh = &view{server: s, name: func(subject string) string { n++; return subject + "#" + strconv.Itoa(n) }}
	}},
	{"counted by two processes", checkConnections, "counted by connection, port or process", func(c *Config, s *server) {
		c.Fresh = &view{server: s, name: func(subject string) string { return subject + "#" + strconv.Itoa(int(2*s.chance())) }}
	}},
	{"counted by eight processes", checkConnections, "counted by connection, port or process", func(c *Config, s *server) {
		c.Fresh = &view{server: s, name: func(subject string) string { return subject + "#" + strconv.Itoa(int(8*s.chance())) }}
	}},
	{"read and written in two steps", checkAtOnce, "do not see each other", func(c *Config, s *server) {
		c.Client = &racing{s, s.decider.(*ours)}
	}},
	{"HEAD is free", checkMethods, "HEAD: ", func(c *Config, s *server) {
		c.Methods[0].Client = &view{server: s, answer: func(*endpoint.Answer) {}}
	}},
	{"OPTIONS is free", checkMethods, "OPTIONS: ", func(c *Config, s *server) {
		c.Methods[1].Client = &view{server: s, answer: func(*endpoint.Answer) {}}
	}},
	{"costs are ignored", checkCosts, "seems to count less", func(c *Config, s *server) { c.Client = &view{server: s} }},
	{"names in any case", checkSimilarNames, "in upper case: denied at its first request", func(c *Config, s *server) {
		c.Client = &view{server: s, costs: true, name: strings.ToLower}
	}},
	{"names cut at 64", checkSimilarNames, "characters: denied at its first request", func(c *Config, s *server) {
		c.Client = &view{server: s, costs: true, name: func(subject string) string { return subject[:min(64, len(subject))] }}
	}},
	{"names cut at 16", checkSimilarNames, "characters: denied at its first request", func(c *Config, s *server) {
		c.Client = &view{server: s, costs: true, name: func(subject string) string { return subject[:min(16, len(subject))] }}
	}},
}

// Each defect is found with what a probe does by default, whether the limit was given or found, and nothing else is called
// wrong.
func TestTrialsFindDefects(t *testing.T) {
	for i, text := range []string{
		"token-bucket:10/1s,burst=20", "fixed-window:20/2s", "sliding-log:20/10s", "fixed-window:20/1m,from=first",
		"fixed-window:20/1h", // too long to be found
	} {
		for n, d := range defects {
			for _, given := range []bool{true, false} {
				if !given && (n+i)%10 != 1 && !*thorough { // finding a limit takes long
					continue
				}
				if testing.Short() && (!given || (n+i)%5 != 0) { // each defect once, and each limit
					continue
				}
				s := simulated(newOurs(t, text))
				config := everything(s)
				limit := s.decider.(*ours).limit
				if !given && limit.Period > config.MaxTime {
					continue
				}
				d.spoil(&config, s)
				if given {
					config.Limit = &limit
				}
				r := runWhole(t, s, config, 3)
				if c := r.check(d.check); c.Verdict != Fail || !strings.Contains(c.Seen, d.words) {
					t.Errorf("%s of %s, given %v: %s %s, notes %q", d.what, text, given, c.Verdict, c.Seen, r.Notes)
				}
				for _, name := range trialNames {
					if c := r.check(name); name != d.check && c.Verdict == Fail {
						t.Errorf("%s of %s, given %v, and %s fails: %s", d.what, text, given, name, c.Seen)
					}
				}
			}
		}
	}
}

// A server that is right fails no trial, and passes those that its limit allows to judge.
func TestTrialsPassWhatIsRight(t *testing.T) {
	preflight := func(a *endpoint.Answer) { a.Header = http.Header{"Allow": {"GET, HEAD"}} }
	notAllowed := func(a *endpoint.Answer) { a.Status = http.StatusMethodNotAllowed }
	for _, test := range []struct {
		what  string
		spoil func(c *Config, s *server)
		may   []string // be unknown: checks, or those of one limit
	}{
		{"plain", func(*Config, *server) {}, nil},
		{"jitter", func(_ *Config, s *server) { s.longest = 40 * time.Millisecond }, trialNames},
		{"errors", func(_ *Config, s *server) { s.errors = 0.01 }, trialNames},
		{"status 503", func(_ *Config, s *server) { s.deniedStatus = 503 }, nil},
		{"few at once", func(_ *Config, s *server) { s.concurrent = 8 }, []string{
			checkAtOnce, // and where all requests of a large limit come at once
			checkSimilarNames + " of token-bucket:100/1s", checkConnections + " of token-bucket:100/1s",
			checkMethods + " of token-bucket:100/1s", checkCosts + " of token-bucket:100/1s",
		}},
		{"HEAD has a limit of its own", func(c *Config, s *server) {
			c.Methods[0].Client = &view{server: s, name: func(subject string) string { return "HEAD " + subject }}
		}, nil},
		{"other methods are answered otherwise", func(c *Config, s *server) {
			c.Methods = []Method{
				{http.MethodHead, &view{server: s, answer: notAllowed}}, {http.MethodOptions, &view{server: s, answer: preflight}},
			}
		}, nil},
	} {
		for i, text := range []string{
			"fixed-window:20/2s", "token-bucket:10/1s,burst=20", "sliding-log:20/2s", "fixed-window:7/1s,from=first",
			"sliding-counter:20/2s",
			"token-bucket:100/1s", "fixed-window:3/500ms", "leaky-bucket:20/1s",
		} {
			for _, given := range []bool{true, false} {
				if !given && !*thorough {
					continue
				}
				s := simulated(newOurs(t, text))
				config := everything(s)
				test.spoil(&config, s)
				if given {
					config.Limit = &s.decider.(*ours).limit
				}
				r := runWhole(t, s, config, uint64(i))
				for _, c := range r.withoutRetry().Checks {
					isTrial := slices.Contains(trialNames, c.Name)
					if c.Verdict == Fail && (isTrial || !given && c.Name != checkDenialStatus) {
						t.Errorf("%s of %s, given %v: %s fails: %s", test.what, text, given, c.Name, c.Seen)
					}
					if c.Verdict == Unknown && isTrial && !c.Moot && !slices.Contains(test.may, c.Name) &&
						!slices.Contains(test.may, c.Name+" of "+text) {
						t.Errorf("%s of %s, given %v: %s unknown: %s", test.what, text, given, c.Name, c.Seen)
					}
				}
			}
		}
	}
}

// stuck does not answer requests of some subjects.
type stuck struct {
	*view
	of func(subject string) bool
}

func (s stuck) Send(ctx context.Context, subject string, cost int64, answer *endpoint.Answer) error {
	if s.of(subject) {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.view.Send(ctx, subject, cost, answer)
}

// What one part of a trial finds stays found if the time ends during another part.
func TestWhatATrialFoundStaysFound(t *testing.T) {
	for _, test := range []struct {
		check, words string
		spoil        func(c *Config, s *server)
	}{
		{checkMethods, "HEAD: ", func(c *Config, s *server) {
			c.Methods[0].Client = &view{server: s, answer: func(*endpoint.Answer) {}}
			c.Methods[1].Client = stuck{&view{server: s}, func(string) bool { return true }}
		}},
		{checkSimilarNames, "in upper case: denied at its first request", func(c *Config, s *server) {
			c.Client = stuck{&view{server: s, costs: true, name: strings.ToLower}, func(subject string) bool {
				return len(subject) == longName && strings.HasSuffix(subject, "b")
			}}
		}},
	} {
		s := simulated(newOurs(t, "fixed-window:20/2s"))
		config := everything(s)
		test.spoil(&config, s)
		config.Limit = &s.decider.(*ours).limit
		r := runWhole(t, s, config, 3)
		if c := r.check(test.check); c.Verdict != Fail || !strings.Contains(c.Seen, test.words) {
			t.Errorf("%s %s: %q", c.Verdict, c.Name, c.Seen)
		}
	}
}

// Where no request can cost more than one, nothing is left open about costs.
func TestCostsOfALimitOfOneAreMoot(t *testing.T) {
	for _, text := range []string{"fixed-window:1/2s", "fixed-window:2/2s"} {
		s := simulated(newOurs(t, text))
		config := everything(s)
		config.Limit, config.Strict = &s.decider.(*ours).limit, true
		r := runWhole(t, s, config, 3)
		if c, one := r.check(checkCosts), config.Limit.Count == 1; c.Moot != one || slices.Contains(r.Missing, checkCosts) {
			t.Errorf("%s: %+v, missing %q", text, c, r.Missing)
		}
	}
}
