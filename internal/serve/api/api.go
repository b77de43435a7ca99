// Package api is the server's JSON interface for programs: it decides about limits, and tells proxies whether they
// may pass a request on (forward-auth).
package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/limitfields"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/serve/refusal"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Options say how the handler answers.
type Options struct {
	// Describe returns an error of a store in one line without secrets. nil means the error's own text.
	Describe func(error) string
	// Keys are those of the store, and Timeout is how long one answer about them may take.
	Keys    admin.Keyspace
	Timeout time.Duration
	// Gate bounds the requests that are answered at a time; nil means no bound.
	Gate *serve.Gate
	// Held bounds those that are held until their turn, which are not in the Gate meanwhile; nil means that none is
	// held.
	Held *serve.Gate
	// Resets: requests can reset limits. It is for a server whose access tokens say who may.
	Resets bool
}

// listener answers requests.
type listener struct {
	engine  *engine.Engine
	options Options
}

// Handler answers POST /v1/check, /v1/consume, /v1/refund, /v1/settle and /v1/reset, GET /v1/subject,
// and any method of /v1/auth/POLICY.
func Handler(e *engine.Engine, options Options) http.Handler {
	if options.Describe == nil {
		options.Describe = error.Error
	}
	return &listener{engine: e, options: options}
}

const prefix = "/v1/"

// ServeHTTP implements [http.Handler]. A request enters the gate once its body was read.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, found := strings.CutPrefix(r.URL.Path, prefix)
	v := verbOf(name)
	var body []byte
	if found && v != nil && r.Method == http.MethodPost {
		var err error
		if body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
			refuseBody(w, err)
			return
		}
	}
	if gate := l.options.Gate; gate != nil {
		if !gate.Admit(w) {
			return
		}
		defer gate.Leave()
	}
	rest, asksForOther := strings.CutPrefix(r.URL.Path, authPrefix)
	switch {
	case asksForOther:
		l.authorize(w, r, rest)
	case name == "subject" && found:
		l.subject(w, r)
	case !found || v == nil:
		refusal.Write(w, http.StatusNotFound, outcome.Usage.Word, notFound(r.URL.Path))
	case v.op == store.Adjust && !l.options.Resets:
		refusal.Write(w, http.StatusForbidden, outcome.Unauthorized.Word,
			prefix+v.name+" needs an access token with the scope reset, and the server has no access tokens "+
				"(--token-file)")
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		refusal.Write(w, http.StatusMethodNotAllowed, outcome.Usage.Word,
			"method "+r.Method+` is not for `+prefix+v.name+
				`; send POST with a body such as {"key":"user:42","limits":["10/1m"]}`)
	default:
		l.serve(w, r, v, body)
	}
}

func notFound(path string) string {
	text := "there is nothing at " + shorten(path) + "; there are"
	for i := range verbs {
		text += " " + prefix + verbs[i].name + ","
	}
	return text + " " + prefix + "subject and " + authPrefix + "POLICY"
}

// call is a question and its answer.
type call struct {
	question
	ask    engine.Ask
	answer decision.Answer
	err    error // why there is no answer
}

// serve answers one request, whose body was read.
func (l *listener) serve(w http.ResponseWriter, r *http.Request, v *verb, body []byte) {
	c := new(call)
	l.read(c, v, body)
	l.decide(r.Context(), c)
	if c.err == nil {
		l.setHeaders(w.Header(), c)
	}
	status, document := l.document(v, c)
	refusal.WriteJSON(w, status, document)
}

// maxBody bounds a body, in bytes.
const maxBody = 64 << 10

// refuseBody answers if a body could not be read. It does not wait for the rest.
func refuseBody(w http.ResponseWriter, err error) {
	w.Header().Set("Connection", "close")
	status, kind := http.StatusBadRequest, outcome.Usage
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		status = http.StatusRequestEntityTooLarge
	} else if sys.IsTimeout(err) {
		status, kind = http.StatusRequestTimeout, outcome.Interrupted
	}
	refusal.Write(w, status, kind.Word, "the body could not be read: "+err.Error())
}

// read reads a question. An attribute that is the client becomes what a request of that client has.
func (l *listener) read(c *call, v *verb, text []byte) {
	settings := l.engine.Settings()
	if c.err = c.question.read(v, text); c.err != nil {
		return
	}
	for name, value := range c.Attributes {
		c.Attributes[name] = settings.HTTP.Client(valueOf(c.Policy), name, value)
	}
	c.err = c.question.ask(&c.ask, v, settings)
}

// decide decides about a question that was read, and holds it until its turn if its policy says so. A panic fails only
// this request.
func (l *listener) decide(ctx context.Context, c *call) {
	if c.err != nil {
		return
	}
	defer panics.Catch(&c.err)
	if l.options.Held != nil && c.ask.Waits() {
		if end, passed := l.options.Gate.Pass(l.options.Held); passed {
			defer end()
			c.ask.Hold = true
		}
	}
	if c.err = l.engine.Decide(ctx, &c.ask, &c.answer); errors.Is(c.err, engine.ErrUnknownPolicy) {
		_, c.err = c.ask.Settings.Policy(c.ask.Policy)
	}
	c.answer.Key = c.subject()
}

// document is the answer to a question, with its status.
func (l *listener) document(v *verb, c *call) (status int, document any) {
	if c.err != nil {
		return l.refusal(c.err)
	}
	if status = http.StatusOK; !store.AllAllowed(c.answer.Decisions) {
		status = http.StatusTooManyRequests
	}
	if v.op == store.Refund {
		return status, c.answer.RefundDocument()
	}
	return status, c.answer.Document()
}

// setHeaders sets the fields that inform the client about its limits.
func (l *listener) setHeaders(header http.Header, c *call) {
	var limits []policy.Limit
	if c.answer.Policy != nil {
		limits = c.answer.Policy.Limits
	}
	limitfields.Set(header, limitfields.Selection(l.engine.Settings().HTTP.Headers), limits, c.answer.Requests,
		c.answer.Decisions,
		time.Now())
}

// refuse answers with an error.
func (l *listener) refuse(w http.ResponseWriter, err error) {
	status, document := l.refusal(err)
	refusal.WriteJSON(w, status, document)
}

// refusal returns the document of an error, which has no secrets.
func (l *listener) refusal(err error) (status int, document any) {
	kind, message := outcome.Of(err, nil), l.options.Describe(err)
	switch {
	case errors.Is(err, store.ErrOutcomeUnknown): // also if the request was cut short
		kind = outcome.OutcomeUnknown
	case kind == outcome.Usage:
		message = err.Error() // it quotes what the client sent; to hide secrets in that would let the client guess them
	case errors.Is(err, store.ErrGaveUp):
		kind, message = outcome.Interrupted, "the request ended before the store answered"
	}
	return kind.Status, refusal.Document(kind.Word, message, kind == outcome.OutcomeUnknown)
}

func shorten(text string) string {
	const longest = 100
	return output.Shorten(text, longest)
}
