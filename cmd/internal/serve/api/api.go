// Package api is the server's JSON interface for programs: it decides about limits, and tells proxies whether they
// may pass a request on (forward-auth).
package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
	"github.com/limitctl/limitctl/internal/panics"
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
	// Resets: requests can reset limits. It is for a server whose access tokens say who may.
	Resets bool
	// ListTime is how long a list of questions is decided at most, so that its answer is sent before the request's time is
	// over. Questions without an answer by then are interrupted. 0 means no bound.
	ListTime time.Duration
}

// listener answers requests.
type listener struct {
	engine  *engine.Engine
	options Options
	calls   sync.Pool // of *call
	// believed are the trusted proxies of the settings that were in force last.
	believed atomic.Pointer[believed]
}

// Handler answers POST /v1/check, /v1/consume, /v1/refund, /v1/settle and /v1/reset, GET /v1/policies and /v1/subject,
// and any method of /v1/auth/POLICY.
func Handler(e *engine.Engine, options Options) http.Handler {
	if options.Describe == nil {
		options.Describe = error.Error
	}
	return &listener{engine: e, options: options, calls: sync.Pool{New: newCall}}
}

const prefix = "/v1/"

// ServeHTTP implements [http.Handler].
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, found := strings.CutPrefix(r.URL.Path, prefix)
	v := verbOf(name)
	rest, asksForOther := strings.CutPrefix(r.URL.Path, authPrefix)
	switch {
	case asksForOther:
		l.authorize(w, r, rest)
	case name == "policies" && found:
		l.policies(w, r)
	case name == "subject" && found:
		l.subject(w, r)
	case !found || v == nil:
		refusal.Write(w, http.StatusNotFound, outcome.Usage.Word, notFound(r.URL.Path))
	case v.op == store.Adjust && !l.options.Resets:
		refusal.Write(w, http.StatusForbidden, outcome.Unauthorized.Word,
			prefix+v.name+" needs an access token with the scope reset, and the server has no access tokens (--token-file)")
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		refusal.Write(w, http.StatusMethodNotAllowed, outcome.Usage.Word,
			"method "+r.Method+` is not for `+prefix+v.name+`; send POST with a body such as {"key":"user:42","limits":["10/1m"]}`)
	default:
		l.serve(w, r, v)
	}
}

func notFound(path string) string {
	text := "there is nothing at " + shorten(path) + "; there are"
	for i := range verbs {
		text += " " + prefix + verbs[i].name + ","
	}
	return text + " " + prefix + "policies, " + prefix + "subject and " + authPrefix + "POLICY"
}

// call is the memory for one request, which is reused.
type call struct {
	body       []byte
	question   question
	ask        engine.Ask
	attributes policy.Attributes
	answer     decision.Answer
	names      []string
}

func newCall() any { return &call{body: make([]byte, 0, firstBody), attributes: policy.Attributes{}} }

// release clears the memory and returns it for reuse.
func (c *call) release(calls *sync.Pool) {
	if cap(c.body) > mostKept {
		c.body = make([]byte, 0, firstBody)
	}
	c.body = c.body[:0]
	c.question.reset()
	clear(c.attributes)
	clear(c.names)
	c.names = c.names[:0]
	c.ask = engine.Ask{Limits: c.ask.Limits[:0]}
	c.answer.Key, c.answer.Policy = "", nil
	clear(c.answer.Requests)
	clear(c.answer.Decisions)
	calls.Put(c)
}

// serve answers one request.
func (l *listener) serve(w http.ResponseWriter, r *http.Request, v *verb) {
	c := l.calls.Get().(*call)
	defer c.release(&l.calls)
	var err error
	if c.body, err = readBody(r, c.body); err != nil {
		l.refuseBody(w, err)
		return
	}
	if isList(c.body) {
		l.serveList(w, r, v, string(c.body))
		return
	}
	if err = l.read(v, c, string(c.body)); err == nil {
		err = l.answer(r.Context(), v, c)
	}
	if err != nil {
		l.refuse(w, err)
		return
	}
	l.setHeaders(w.Header(), c)
	c.body = append(c.appendAnswer(v, c.body[:0]), '\n')
	header := w.Header()
	header["Content-Type"] = contentType
	if len(c.body) > counted {
		header["Content-Length"] = []string{strconv.Itoa(len(c.body))}
	}
	if status := c.status(); status != http.StatusOK {
		w.WriteHeader(status)
	}
	w.Write(c.body)
}

// read reads a question. An attribute that is the client becomes what a request of that client has.
func (l *listener) read(v *verb, c *call, text string) error {
	if err := c.question.read(v, text); err != nil {
		return err
	}
	c.ask.Settings = l.engine.Settings()
	for i := range c.question.attributes {
		a := &c.question.attributes[i]
		a.Value = c.ask.Settings.HTTP.Client(c.question.policy, a.Name, a.Value)
	}
	return nil
}

// answer decides about the question, which was read.
func (l *listener) answer(ctx context.Context, v *verb, c *call) error {
	if err := c.question.ask(v, &c.ask, c.attributes); err != nil {
		return err
	}
	if err := l.decide(ctx, c); err != nil {
		return err
	}
	c.answer.Key = c.question.subject()
	return nil
}

// appendAnswer appends the document of the answer.
func (c *call) appendAnswer(v *verb, to []byte) []byte {
	if v.op == store.Refund {
		return c.answer.AppendRefundJSON(to)
	}
	return c.answer.AppendJSON(to)
}

// status is the status of the answer.
func (c *call) status() int {
	if store.AllAllowed(c.answer.Decisions) {
		return http.StatusOK
	}
	return http.StatusTooManyRequests
}

// counted is the longest body for which net/http sets the length itself, which costs less.
const counted = 2 << 10

var contentType = []string{"application/json"}

// decide calls the engine. A panic there fails only this request.
func (l *listener) decide(ctx context.Context, c *call) (err error) {
	defer panics.Catch(&err)
	whole := false
	defer func() {
		if !whole { // a call that failed can still use the answer's memory
			c.answer = decision.Answer{}
		}
	}()
	err = l.engine.Decide(ctx, &c.ask, &c.answer)
	if whole = err == nil; whole {
		return nil
	}
	if errors.Is(err, engine.ErrUnknownPolicy) {
		return unknownPolicy(c.ask.Policy, l.engine.Settings())
	}
	return err
}

// setHeaders sets the fields that inform the client about its limits. A limit without a policy has no name.
func (l *listener) setHeaders(header http.Header, c *call) {
	var names []string
	if c.answer.Policy != nil {
		for i := range c.answer.Requests {
			c.names = append(c.names, c.answer.LimitName(i))
		}
		names = c.names
	}
	headers := l.engine.Settings().HTTP.Headers
	headers.Set(header, names, c.answer.Requests, c.answer.Decisions)
	if c.answer.Policy != nil {
		headers.SetWarning(header, names, c.answer.Policy.Limits, c.answer.Requests, c.answer.Decisions)
	}
}

// refuse answers with an error.
func (l *listener) refuse(w http.ResponseWriter, err error) {
	kind, message := l.explain(err)
	refusal.WriteJSON(w, kind.Status, refusal.Document(kind.Word, message, kind == outcome.OutcomeUnknown))
}

// explain returns what an error means, and says it without secrets.
func (l *listener) explain(err error) (kind outcome.Kind, message string) {
	kind = outcome.Of(err, nil)
	switch {
	case errors.Is(err, store.ErrOutcomeUnknown): // also if the request was cut short
		return outcome.OutcomeUnknown, l.options.Describe(err)
	case kind == outcome.Usage:
		// It quotes what the client sent. To hide secrets in that would let the client guess them.
		return kind, err.Error()
	case errors.Is(err, store.ErrGaveUp):
		return outcome.Interrupted, "the request ended before the store answered"
	}
	return kind, l.options.Describe(err)
}

func shorten(text string) string {
	const longest = 100
	return output.Shorten(text, longest)
}
