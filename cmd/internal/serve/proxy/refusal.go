package proxy

import (
	"errors"
	"net/http"

	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// refuse answers with a problem of RFC 9457. detail is for people, and names nothing behind the proxy.
func refuse(w http.ResponseWriter, status int, detail string) {
	problem := httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: detail}
	problem.Write(w)
}

func refuseLargeBody(w http.ResponseWriter) {
	refuse(w, http.StatusRequestEntityTooLarge, "The body of the request is too large.")
}

// undecided answers a request for which there is no decision.
func (d *door) undecided(w http.ResponseWriter, err error) {
	kind := outcome.Of(err, nil)
	switch {
	case errors.Is(err, store.ErrInvalid):
		httplimit.WriteFailure(w, err)
		return
	case errors.Is(err, engine.ErrUnknownPolicy): // a new configuration has removed it
		kind = outcome.StoreAway
	}
	d.Log.Debug("a request was not decided", "policy", d.Policy, "status", kind.Status, "error", err.Error())
	if kind.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1") // nobody knows when it can be decided again
	}
	refuse(w, kind.Status, "Whether the request is within its limits is not known now.")
}
