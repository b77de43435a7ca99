// Package api is the server's JSON interface for programs: it decides about limits, and tells proxies whether they
// may pass a request on (forward-auth).
package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/serve"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
	"github.com/limitctl/limitctl/internal/limitfields"
	"github.com/limitctl/limitctl/internal/panics"
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
	// believed are the trusted proxies of the settings that were in force last.
	believed atomic.Pointer[believed]
}

// Handler answers POST /v1/check, /v1/consume, /v1/refund, /v1/settle and /v1/reset, GET /v1/policies and /v1/subject,
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
		if body, err = readBody(w, r); err != nil {
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
		l.serve(w, r, v, body)
	}
}

func notFound(path string) string {
	text := "there is nothing at " + shorten(path) + "; there are"
	for i := range verbs {
		text += " " + prefix + verbs[i].name + ","
	}
	return text + " " + prefix + "policies, " + prefix + "subject and " + authPrefix + "POLICY"
}

// call is a question and its answer. Their memory is reused, unless the call failed.
type call struct {
	question question
	ask      engine.Ask
	answer   decision.Answer
	text     []byte // of the answer
}

var calls = sync.Pool{New: func() any { return new(call) }}

// release clears a call that was answered, and keeps its memory for another one.
func (c *call) release() {
	clear(c.answer.Requests)
	clear(c.answer.Decisions)
	*c = call{ask: engine.Ask{Limits: c.ask.Limits[:0]}, text: c.text[:0],
		answer: decision.Answer{Requests: c.answer.Requests, Overrides: c.answer.Overrides, Decisions: c.answer.Decisions}}
	calls.Put(c)
}

// serve answers one request, whose body was read.
func (l *listener) serve(w http.ResponseWriter, r *http.Request, v *verb, body []byte) {
	if isList(body) {
		l.serveList(w, r, v, body)
		return
	}
	c, err := l.read(v, body)
	if err == nil {
		err = l.answer(r.Context(), v, c)
	}
	if err != nil {
		l.refuse(w, err)
		return
	}
	header := w.Header()
	l.setHeaders(header, c)
	c.text = append(c.appendAnswer(v, c.text), '\n')
	header["Content-Type"] = contentType
	if len(c.text) > counted {
		header["Content-Length"] = []string{strconv.Itoa(len(c.text))}
	}
	if status := c.status(); status != http.StatusOK {
		w.WriteHeader(status)
	}
	w.Write(c.text)
	c.release()
}

// maxBody bounds a body, in bytes.
const maxBody = 64 << 10

// readBody reads the body of r.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
}

// refuseBody answers if a body could not be read. It does not wait for the rest.
func refuseBody(w http.ResponseWriter, err error) {
	w.Header().Set("Connection", "close")
	tooLarge := new(http.MaxBytesError)
	switch {
	case errors.As(err, &tooLarge):
		refusal.Write(w, http.StatusRequestEntityTooLarge, outcome.Usage.Word,
			fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
	case sys.IsTimeout(err):
		refusal.Write(w, http.StatusRequestTimeout, outcome.Interrupted.Word, "the body did not arrive in time: "+err.Error())
	default:
		refusal.Write(w, http.StatusBadRequest, outcome.Usage.Word, "the body could not be read: "+err.Error())
	}
}

// read reads a question. An attribute that is the client becomes what a request of that client has.
func (l *listener) read(v *verb, text []byte) (*call, error) {
	c := calls.Get().(*call)
	if err := c.question.read(v, text); err != nil {
		return nil, err
	}
	c.ask.Settings = l.engine.Settings()
	for i := range c.question.Attributes.value {
		a := &c.question.Attributes.value[i]
		a.Value = c.ask.Settings.HTTP.Client(c.question.Policy.value, a.Name, a.Value)
	}
	return c, nil
}

// answer decides about the question, which was read.
func (l *listener) answer(ctx context.Context, v *verb, c *call) error {
	if err := c.question.ask(v, &c.ask); err != nil {
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
	document := c.answer.Document
	if v.op == store.Refund {
		document = c.answer.RefundDocument
	}
	text, _ := output.JSON(document()) // cannot fail for its types
	return append(to, text...)
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
	err = l.engine.Decide(ctx, &c.ask, &c.answer)
	if errors.Is(err, engine.ErrUnknownPolicy) {
		_, err = c.ask.Settings.Policy(c.ask.Policy)
	}
	return err
}

// setHeaders sets the fields that inform the client about its limits.
func (l *listener) setHeaders(header http.Header, c *call) {
	var limits []policy.Limit
	if c.answer.Policy != nil {
		limits = c.answer.Policy.Limits
	}
	limitfields.Set(header, limitfields.Selection(l.engine.Settings().HTTP.Headers), limits, c.answer.Requests, c.answer.Decisions)
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
