package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// panicking is a store with a bug.
type panicking struct{ failing }

func (p *panicking) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	panic("a bug")
}

func TestErrorsOfAStore(t *testing.T) {
	gaveUp := fmt.Errorf("%w: %w", store.ErrGaveUp, context.Canceled)
	for _, test := range []struct {
		store   admin.Keyspace
		status  int
		kind    string
		says    string
		unknown bool
	}{
		{&failing{err: store.ErrUnavailable}, 503, "store_away", "store unavailable", false},
		{&failing{err: fmt.Errorf("%w: hunter2 at a server", store.ErrUnavailable)}, 503, "store_away",
			"xxxxx at a server", false},
		{&failing{err: store.ErrOutcomeUnknown}, 503, "outcome_unknown", "outcome unknown", true},
		{&failing{err: errors.Join(gaveUp, store.ErrOutcomeUnknown)}, 503, "outcome_unknown", "outcome unknown", true},
		{&failing{err: gaveUp}, 503, "interrupted", "the request ended before the store answered", false},
		{&failing{err: fmt.Errorf("%w: hunter2", store.ErrRefused)}, 502, "refused", "xxxxx", false},
		{&failing{err: &store.ForeignError{StoreKey: "rl:{a}", Holds: "a list"}}, 502, "foreign",
			`key "rl:{a}" holds a list`, false},
		{&failing{err: store.Invalidf("hunter2 is not a cost")}, 400, "usage", "hunter2 is not a cost", false},
		{&failing{err: store.ErrUnknownToken}, 409, "unknown_token", "unknown token", false},
		{&failing{err: errors.New("disk full")}, 500, "machine", "disk full", false},
		{&panicking{}, 500, "bug", "internal error: a bug", false},
	} {
		listener := listenerOn(t, test.store, time.Second)
		for range 2 { // one request does not harm the next
			w, document := ask(t, listener, "POST", "/v1/consume", `{"key":"a","limits":["1/1h"]}`)
			kind, message := errorOf(document)
			if w.Code != test.status || kind != test.kind || !strings.Contains(message, test.says) {
				t.Errorf("%v: %d %s, want %d %s %q", test.store, w.Code, w.Body, test.status, test.kind, test.says)
			}
			if unknown := document["outcome"] == "unknown"; unknown != test.unknown ||
				w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%v: %v %s", test.store, w.Header(), w.Body)
			}
		}
	}
}
