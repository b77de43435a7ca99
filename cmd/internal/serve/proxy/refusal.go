package proxy

import (
	"encoding/json"
	"net/http"
)

// refusal is an answer of the proxy's own.
type refusal struct {
	status int
	detail string // for people
}

var (
	overLimit      = refusal{http.StatusTooManyRequests, "This client has sent too many requests."}
	badRequest     = refusal{http.StatusBadRequest, "The request cannot be passed on."}
	bodyTooLarge   = refusal{http.StatusRequestEntityTooLarge, "The body of the request is too large."}
	noTunnels      = refusal{http.StatusMethodNotAllowed, "CONNECT is not supported."}
	badGateway     = refusal{http.StatusBadGateway, "The server behind this one cannot be reached."}
	gatewayTimeout = refusal{http.StatusGatewayTimeout, "The server behind this one did not answer in time."}
	notDecided     = refusal{http.StatusServiceUnavailable, "Whether this request is within its limits is not known now. Try again."}
)

// refuse answers with a problem document (RFC 9457).
func refuse(w http.ResponseWriter, why refusal) {
	body, err := json.Marshal(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(why.status), why.status, why.detail})
	if err != nil {
		panic(err) // it has strings and a number
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(why.status)
	w.Write(append(body, '\n')) // a client that has left needs no answer
}
