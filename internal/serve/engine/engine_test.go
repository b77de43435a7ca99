package engine

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// settingsOf parses the text of a configuration.
func settingsOf(t testing.TB, text string) *Settings {
	t.Helper()
	file, r := configfile.Read("limitctl.yaml", []byte(text), configfile.Operators{})
	if mistakes := r.Mistakes(); len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	return &Settings{File: configfile.File{Policies: file.Policies, Breaker: file.Breaker, HTTP: file.HTTP,
		Envoy: file.Envoy}}
}

func newEngine(t testing.TB, backend admin.Keyspace, text string, options Options) *Engine {
	t.Helper()
	if options.Timeout == 0 {
		options.Timeout = time.Minute // no test here depends on the speed of the machine
	}
	e := New(backend, settingsOf(t, text), options)
	t.Cleanup(func() { e.Close() })
	return e
}

const loginFile = `
policies:
  login:
    limits: [{name: ip, by: [ip], limit: fixed-window:3/1h}]
`

func ip(e *Engine, address string) *Ask {
	return &Ask{Settings: e.Settings(), Policy: "login", Attributes: policy.Attributes{"ip": address}, Cost: 1}
}

func allowed(t testing.TB, e *Engine, ask *Ask) bool {
	t.Helper()
	var answer decision.Answer
	tier.Must(t, e.Decide(t.Context(), ask, &answer))
	return store.AllAllowed(answer.Decisions)
}

// away is a store that a test can make unavailable.
type away struct {
	admin.Keyspace
	gone atomic.Bool
}

func (s *away) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if s.gone.Load() {
		_, err := store.NormalizeAll(nil, op, reqs) // as every store
		return cmp.Or(err, store.ErrUnavailable)
	}
	return s.Keyspace.Decide(ctx, op, reqs, decisions)
}

// Unwrap gives access to the store's overrides and denials.
func (s *away) Unwrap() store.Store { return s.Keyspace }

// A reused answer has nothing of the ask before.
func TestAnAnswerIsUsedAgain(t *testing.T) {
	e := newEngine(t, memorystore.New(), loginFile, Options{})
	var answer decision.Answer
	if err := e.Decide(t.Context(), ip(e, "a"), &answer); err != nil || answer.Policy.Name != "login" ||
		!answer.Charges {
		t.Fatalf("%+v, %v", answer, err)
	}
	limits := []store.Limit{{Count: 2, Period: time.Hour}, {Count: 3, Period: time.Minute}}
	tier.Must(t, e.Decide(t.Context(), &Ask{Settings: e.Settings(), Op: store.Peek, Key: "k", Limits: limits, Cost: 1},
		&answer))
	if answer.Policy != nil || answer.Key != "k" || len(answer.Requests) != 2 || len(answer.Overrides) != 0 ||
		len(answer.Decisions) != 2 || answer.Charges {
		t.Errorf("%+v", answer)
	}
	for _, ask := range []*Ask{{Policy: "other", Cost: 1}, {Policy: "login", Cost: 1}, {Key: "k", Cost: 1},
		{Key: "k", Limits: limits}} {
		ask.Settings = e.Settings()
		err := e.Decide(t.Context(), ask, &answer)
		if !errors.Is(err, store.ErrInvalid) && !errors.Is(err, ErrUnknownPolicy) {
			t.Errorf("%+v: the error is %v", ask, err)
		}
		if len(answer.Decisions) != 0 || ask.Policy == "other" && answer.Policy != nil {
			t.Errorf("%+v is answered %+v", ask, answer)
		}
	}
}
