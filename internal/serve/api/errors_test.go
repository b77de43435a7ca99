package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
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

// While the store is away, on_error of the policy decides. A store that refuses is an error for all policies.
func TestFailurePoliciesWithoutAStore(t *testing.T) {
	var policies []*policy.Policy
	for _, onError := range []store.FailurePolicy{store.FailOnError, store.AllowOnError, store.DenyOnError,
		store.LocalOnError} {
		policies = append(policies, &policy.Policy{
			Name: onError.String(), OnError: onError, LocalShare: store.DefaultShare,
			Limits: []policy.Limit{{Limit: limiter.LimitOf("all", limitOf(t, "8/1h")), By: []string{"ip"}}}})
	}
	for err, want := range map[error][4]int{store.ErrUnavailable: {503, 200, 429, 200}, store.ErrOutcomeUnknown: {
		503, 200, 429, 200},
		store.ErrRefused: {502, 502, 502, 502}} {
		listener := listenerOn(t, &failing{err: err}, time.Second, policies...)
		for i, p := range policies {
			w, document := ask(t, listener, "POST", "/v1/consume", `{"policy":"`+p.Name+`","attributes":{"ip":"x"}}`)
			if kind, _ := errorOf(document); w.Code != want[i] || (w.Code >= 500) != (kind != "") {
				t.Errorf("%v, on_error %s: %d %s, want %d", err, p.Name, w.Code, w.Body, want[i])
			}
			if share := document["local_share"]; (i == 3 && w.Code == 200) != (share == "25%") {
				t.Errorf("%v, on_error %s: local_share is %v", err, p.Name, share)
			}
		}
	}
}
