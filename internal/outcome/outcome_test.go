package outcome

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var errOwn = errors.New("own")

func TestEachErrorHasOneMeaning(t *testing.T) {
	own := func(err error) (Kind, bool) { return Kind{"own", ExitNo, 418}, errors.Is(err, errOwn) }
	for _, test := range []struct {
		err  error
		want Kind
	}{
		{nil, Kind{"", 0, 200}},
		{panics.Call(func() error { panic("bug") }), Kind{"bug", 4, 500}},
		{context.Canceled, Kind{"interrupted", 130, 503}},
		{Partly(store.ErrRefused), Kind{"partly", 5, 500}},
		{Partly(store.ErrUnavailable), Kind{"partly", 5, 500}},
		{Partly(store.ErrOutcomeUnknown), Kind{"partly", 5, 500}},
		{Partly(errOwn), Kind{"partly", 5, 500}},
		{fmt.Errorf("token: %w", store.ErrUnknownToken), Kind{"unknown_token", 1, 409}},
		{errors.Join(store.ErrUnavailable, errOwn), Kind{"own", 1, 418}},
		{errors.Join(context.Canceled, errOwn), Kind{"interrupted", 130, 503}},
		{store.Invalidf("cost"), Kind{"usage", 2, 400}},
		{store.ErrUnavailable, Kind{"store_away", 3, 503}},
		{store.ErrOutcomeUnknown, Kind{"outcome_unknown", 3, 503}},
		{fmt.Errorf("%w: %w", store.ErrGaveUp, context.DeadlineExceeded), Kind{"machine", 2, 500}},
		{&store.ForeignError{StoreKey: "k", Holds: "a list"}, Kind{"foreign", 4, 502}},
		{store.ErrRefused, Kind{"refused", 4, 502}},
		{errors.New("disk full"), Kind{"machine", 2, 500}},
	} {
		if got := Of(test.err, own); got != test.want {
			t.Errorf("Of(%v) = %+v, want %+v", test.err, got, test.want)
		}
	}
	// These have no error value.
	if Denied != (Kind{"", 1, 429}) || Overloaded != (Kind{"overloaded", 0, 503}) ||
		Unauthorized != (Kind{"unauthorized", 0, 401}) {
		t.Errorf("denied is %+v, overloaded %+v, unauthorized %+v", Denied, Overloaded, Unauthorized)
	}
	if got := Of(errOwn, nil); got.Word != "machine" {
		t.Errorf("an error that nobody knows is %+v", got)
	}
}
