package experiment

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/connect"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// failsOnce fails a take of a thousand.
type failsOnce struct {
	store.Store
	calls int
	err   error
}

func (s *failsOnce) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if s.calls++; op == store.Take && s.calls == 500 {
		return s.err
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// An answer that no store gives fails a run, however seldom it comes, and an outage does not.
func TestAnAnswerThatNoStoreGivesFailsARun(t *testing.T) {
	for _, test := range []struct {
		err    error
		reason string
	}{
		{fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, redisserver.ErrAnswer),
			"1 answer that no store gives; the first: outcome unknown: " + redisserver.ErrAnswer.Error()},
		{&store.ForeignError{StoreKey: "k", Holds: "a damaged limit record"},
			`1 answer that no store gives; the first: key "k" holds a damaged limit record; it was left as it is`},
		{store.ErrOutcomeUnknown, ""},
		{store.ErrUnavailable, ""},
	} {
		candidate := Candidate{Limits: []store.Limit{parseLimit(t, "10/1h")}}
		l := &LoadTest{Load: closedLoop(1, 1000), Candidates: []Candidate{candidate}, Timeout: time.Minute,
			Open: func() (Target, error) {
				target, err := OpenStore("memory:", connect.Options{Prefix: "rl"}, Script)
				if err == nil {
					target.decides = &failsOnce{Store: target.decides, err: test.err}
				}
				return target, err
			}}
		d, err := l.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d.Judge()
		want := report.Pass
		if test.reason != "" {
			want = report.Fail
		}
		if d.Runs[0].Errors != 1 || d.Verdict != want ||
			(test.reason != "") != (len(d.Reasons) == 1 && d.Reasons[0] == test.reason) {
			t.Errorf("%v: %s, %q, %d errors", test.err, d.Verdict, d.Reasons, d.Runs[0].Errors)
		}
	}
}
