package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const localFile = `
breaker: {failures: 1, pause: 1h, max_pause: 1h}
policies:
  login:
    on_error: local
    local_share: 50%
    limits: [{name: ip, by: [ip], limit: fixed-window:8/1h}]
`

// A breaker stays open over a reload that does not change its settings, and only then.
func TestABreakerStaysOverAReplacement(t *testing.T) {
	backend := &away{Keyspace: memorystore.New()}
	backend.gone.Store(true)
	var changes []limiter.BreakerState
	var news []bool
	e := newEngine(t, backend, localFile, Options{
		Observer:  limiter.Observer{OnBreaker: func(c limiter.BreakerChange) { changes = append(changes, c.To) }},
		OnReplace: func(_ *Settings, isNew bool) { news = append(news, isNew) },
	})
	allowed(t, e, ip(e, "a"))
	backend.gone.Store(false)
	e.Replace(settingsOf(t, localFile+"  other: {limits: [{name: ip, by: [ip], limit: 1/1h}]}\n"))
	var answer decision.Answer
	if e.Decide(t.Context(), ip(e, "a"), &answer); answer.Decisions[0].DecidedBy != store.DecidedByLocal {
		t.Errorf("with an open breaker it is decided by %s", answer.Decisions[0].DecidedBy)
	}
	e.Replace(settingsOf(t, "breaker: {enabled: false}"+
		localFile[len("\nbreaker: {failures: 1, pause: 1h, max_pause: 1h}"):]))
	if e.Decide(t.Context(), ip(e, "a"), &answer); answer.Decisions[0].DecidedBy != store.DecidedByStore {
		t.Errorf("without a breaker it is decided by %s", answer.Decisions[0].DecidedBy)
	}
	e.Replace(settingsOf(t, localFile))
	if e.Decide(t.Context(), ip(e, "a"), &answer); answer.Decisions[0].DecidedBy != store.DecidedByStore {
		t.Errorf("with a new breaker it is decided by %s", answer.Decisions[0].DecidedBy)
	}
	if fmt.Sprint(changes, news) != "[open] [true false true true]" {
		t.Errorf("told were %v, new breakers %v", changes, news)
	}
}

// A cost that its limit never allows fits under an override that raises the limit.
func TestAnOverrideMakesRoomForACost(t *testing.T) {
	backend := memorystore.New()
	pattern, _ := store.ParsePattern("ip:192.0.2.1")
	o := store.Override{Subjects: pattern, Effect: store.OverrideTimes, Thousandths: 10_000, Reason: "a test", By: "me"}
	if _, err := backend.SetOverride(t.Context(), o, time.Hour); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, backend, loginFile, Options{}) // reads the overrides when it begins
	ask, answers := ip(e, "192.0.2.1"), make([]decision.Answer, 1)
	ask.Cost = 20
	if err := e.Decide(t.Context(), ask, &answers[0]); err != nil || !answers[0].Decisions[0].Allowed {
		t.Errorf("%v, %+v", err, answers)
	}
	ask.Cost = 10
	if err := e.DecideAll(t.Context(), []Ask{*ask}, answers); err != nil || !answers[0].Decisions[0].Allowed {
		t.Errorf("of a list: %v, %+v", err, answers)
	}
}
