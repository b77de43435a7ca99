package cmd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// replayOf reads a log of CSV that a load test is to replay.
func replayOf(t *testing.T, text string, o *loadtestOptions) *loadtestOptions {
	t.Helper()
	log, err := trace.Read(t.Context(), strings.NewReader(text), o.traceFrom)
	if err != nil {
		t.Fatal(err)
	}
	o.log, o.factor = log, 1
	return o
}

// Whoever is the same by the fields that a limit is by is one subject.
func TestReplayTargets(t *testing.T) {
	const text = "time,key,user,cost\n" +
		"2015-05-17T10:05:00Z,a,ann,1\n" +
		"2015-05-17T10:05:01Z,a,bob,2\n" +
		"2015-05-17T10:05:02Z,b,ann,9\n" +
		"2015-05-17T10:05:03Z,a,ann,1\n"
	limit, err := limiter.ParseLimit("3/1h")
	if err != nil {
		t.Fatal(err)
	}
	if limit, err = limit.Normalize(); err != nil {
		t.Fatal(err)
	}
	one := &variant{limits: []limiter.Limit{limit}}
	rule := func(name string, by ...string) policy.Limit {
		return policy.Limit{Name: name, By: by, Limit: limit}
	}
	login := &variant{policy: &policy.Policy{Name: "login", Limits: []policy.Limit{rule("key", "key"), rule("user", "user", "key")}}}
	for _, test := range []struct {
		name     string
		variant  *variant
		fields   []string
		subjects []string // of each request of the log
		keys     int
	}{
		{"the default field", one, nil, []string{"a", "a", "b", "a"}, 2},
		{"another field", one, []string{"user"}, []string{"ann", "bob", "ann", "ann"}, 2},
		{"two fields", one, []string{"key", "user"}, []string{"#0", "#1", "#2", "#0"}, 3},
		{"a policy", login, nil, []string{"a", "a", "b", "a"}, 5},
	} {
		o := &loadtestOptions{logOptions: logOptions{keyFields: test.fields}}
		o.traceFrom.Key = test.fields
		if test.variant.policy != nil {
			o.traceFrom.Key = []string{"key", "user"}
		}
		replayOf(t, text, o)
		candidate, _ := o.candidate(o.log, test.variant)
		target, err := candidate.Target(o.log)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var subjects []string
		for _, r := range o.log.Requests {
			request := target.Requests(target.SubjectOf[r.Subject])[0]
			subject := request.Key.Subject
			if test.variant.policy != nil {
				subject = strings.TrimPrefix(subject, "key:")
			}
			subjects = append(subjects, subject)
		}
		if !slices.Equal(subjects, test.subjects) || len(target.AllKeys()) != test.keys {
			t.Errorf("%s: the requests are of %q, with %d keys", test.name, subjects, len(target.AllKeys()))
		}
	}
}

func TestWithinLimits(t *testing.T) {
	o := replayOf(t, "time,key,cost\n1431857100,a,1\n1431857101,a,4\n1431857102,a,3\n", &loadtestOptions{})
	log, without := withinLimits(o.log, 3)
	if without != 1 || len(log.Requests) != 2 || log.Requests[1].Cost != 3 || len(o.log.Requests) != 3 {
		t.Errorf("%d left out, %+v of %+v", without, log.Requests, o.log.Requests)
	}
	if log, without := withinLimits(o.log, 4); without != 0 || len(log.Requests) != 3 {
		t.Errorf("%d left out, %+v", without, log.Requests)
	}
}

func TestReplayLength(t *testing.T) {
	o := replayOf(t, "time,key\n1431857100,a\n1431857110,a\n", &loadtestOptions{})
	for factor, want := range map[float64]time.Duration{1: 10*time.Second + time.Millisecond, 4: 2501 * time.Millisecond, 0.5: 20*time.Second + time.Millisecond} {
		if o.factor = factor; o.replayLength() != want {
			t.Errorf("×%v takes %s, want %s", factor, o.replayLength(), want)
		}
	}
}
