package experiment

import (
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter"
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
		return policy.Limit{Limit: limiter.LimitOf(name, limit), By: by}
	}
	login := &Candidate{Policy: &policy.Policy{
		Name: "login", Limits: []policy.Limit{rule("key", "key"), rule("user", "user", "key")}}}
	for _, test := range []struct {
		name      string
		candidate *Candidate
		keyFields []string
		subjects  []string // of each request of the log
		names     []string // that a report gives them
		keys      int
	}{
		{"the default field", one, nil, []string{"a", "a", "b", "a"}, []string{"a", "a", "b", "a"}, 2},
		{"another field", one, []string{"user"}, []string{"ann", "bob", "ann", "ann"},
			[]string{"ann", "bob", "ann", "ann"}, 2},
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
		onLog, fieldNames := log.candidate(test.candidate)
		recorded, err := onLog.Population(log.Trace)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var subjects, names []string
		for _, r := range log.Trace.Requests {
			subject := recorded.SubjectOf(r.Subject)
			subjects = append(subjects, strings.TrimPrefix(recorded.Requests(subject)[0].Key.Subject, "key:"))
			names = append(names, subjectName(recorded.Values.At(subject), fieldNames, test.candidate.Policy != nil))
		}
		if !slices.Equal(subjects, test.subjects) || !slices.Equal(names, test.names) ||
			len(recorded.AllKeys()) != test.keys {
			t.Errorf("%s: the requests are of %q, called %q, with %d keys", test.name, subjects, names,
				len(recorded.AllKeys()))
		}
	}
}
