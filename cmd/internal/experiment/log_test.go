package experiment

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// readLog reads a log of CSV whose subjects are of the fields.
func readLog(t *testing.T, text string, fields ...string) *Log {
	t.Helper()
	read, err := trace.Read(t.Context(), strings.NewReader(text), trace.Options{Key: fields})
	if err != nil {
		t.Fatal(err)
	}
	return &Log{Trace: read, Name: "requests.csv"}
}

// parseLimit reads a limit and normalizes it.
func parseLimit(t *testing.T, text string) store.Limit {
	t.Helper()
	limit, err := store.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	if limit, err = limit.Normalize(); err != nil {
		t.Fatal(err)
	}
	return limit
}

// Whoever is the same by the fields that a limit is by is one subject.
func TestSubjectsOfALog(t *testing.T) {
	const text = "time,key,user,cost\n" +
		"2015-05-17T10:05:00Z,a,ann,1\n" +
		"2015-05-17T10:05:01Z,a,bob,2\n" +
		"2015-05-17T10:05:02Z,b,ann,9\n" +
		"2015-05-17T10:05:03Z,a,ann,1\n"
	limit := parseLimit(t, "3/1h")
	one := &Candidate{Limits: []store.Limit{limit}}
	rule := func(name string, by ...string) policy.Limit {
		return policy.Limit{Name: name, By: by, Limit: limit}
	}
	login := &Candidate{Policy: &policy.Policy{Name: "login", Limits: []policy.Limit{rule("key", "key"), rule("user", "user", "key")}}}
	for _, test := range []struct {
		name      string
		candidate *Candidate
		keyFields []string
		subjects  []string // of each request of the log
		names     []string // that a report gives them
		keys      int
	}{
		{"the default field", one, nil, []string{"a", "a", "b", "a"}, []string{"a", "a", "b", "a"}, 2},
		{"another field", one, []string{"user"}, []string{"ann", "bob", "ann", "ann"}, []string{"ann", "bob", "ann", "ann"}, 2},
		{"two fields", one, []string{"key", "user"}, []string{"#0", "#1", "#2", "#0"},
			[]string{"key=a user=ann", "key=a user=bob", "key=b user=ann", "key=a user=ann"}, 3},
		{"a policy", login, nil, []string{"a", "a", "b", "a"},
			[]string{"key=a user=ann", "key=a user=bob", "key=b user=ann", "key=a user=ann"}, 5},
	} {
		fields := test.keyFields
		if test.candidate.Policy != nil {
			fields = []string{"key", "user"}
		}
		log := readLog(t, text, fields...)
		log.KeyFields = test.keyFields
		replay := &Replay{Log: log, Speed: 1}
		sent, population, err := replay.under(test.candidate)
		if err != nil || sent.leftOut != 1 { // the request of 9 units
			t.Errorf("%s: %d left out, %v", test.name, sent.leftOut, err)
			continue
		}
		var subjects, names []string
		for _, r := range log.Trace.Requests {
			subject := sent.subjectOf(r.Subject)
			subjects = append(subjects, strings.TrimPrefix(population.Requests(subject)[0].Key.Subject, "key:"))
			names = append(names, population.nameOf(subject))
		}
		if !slices.Equal(subjects, test.subjects) || !slices.Equal(names, test.names) || len(population.AllKeys()) != test.keys {
			t.Errorf("%s: the requests are of %q, called %q, with %d keys", test.name, subjects, names, len(population.AllKeys()))
		}
	}
}

func TestWithinLimits(t *testing.T) {
	whole := readLog(t, "time,key,cost\n1431857100,a,1\n1431857101,a,4\n1431857102,a,3\n").Trace
	log, leftOut := withinLimits(whole, 3)
	if leftOut != 1 || len(log.Requests) != 2 || log.Requests[1].Cost != 3 || len(whole.Requests) != 3 {
		t.Errorf("%d left out, %+v of %+v", leftOut, log.Requests, whole.Requests)
	}
	if log, leftOut := withinLimits(whole, 4); leftOut != 0 || len(log.Requests) != 3 {
		t.Errorf("%d left out, %+v", leftOut, log.Requests)
	}
}

func TestReplayTime(t *testing.T) {
	log := readLog(t, "time,key\n1431857100,a\n1431857110,a\n").Trace
	for speed, want := range map[float64]time.Duration{
		1: 10*time.Second + time.Millisecond, 4: 2501 * time.Millisecond, 0.5: 20*time.Second + time.Millisecond, 1e-9: MaxDuration,
	} {
		if took := replayTime(log, speed); took != want {
			t.Errorf("×%v takes %s, want %s", speed, took, want)
		}
	}
}

// A replay that is late is sent as a whole, unless the duration that was asked for is over.
func TestAReplayMayEndLate(t *testing.T) {
	for _, c := range []struct{ log, asked, want time.Duration }{
		{time.Second, 0, 3 * time.Second},
		{time.Second, time.Minute, 3 * time.Second},
		{time.Second, 2500 * time.Millisecond, 2500 * time.Millisecond},
		{time.Second, time.Second, time.Second},
	} {
		run := loadRun{LoadTest: &LoadTest{Load: Load{Duration: c.asked}, Timeout: 2 * time.Second}}
		if end := run.end(&workload{duration: c.log}); end != c.want {
			t.Errorf("a log of %s with --duration %s ends after %s, want %s", c.log, c.asked, end, c.want)
		}
	}
}
