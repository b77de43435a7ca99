// Package proxy limits clients that know nothing about it: it is a reverse proxy in front of an upstream.
//
// The upstream sees exactly what is counted: for each allowed request it gets one request, written anew from what
// was parsed. Bodies pass in both directions as they come, and none is held as a whole. A request that the upstream
// does not answer stays charged, since the upstream may have done its work.
//
// Over HTTP/1.1 the answer's first byte follows the request's last one: net/http reads the rest of
// a request before it writes, and closes the connection if that rest is malformed. Over HTTP/2
// both directions go on at once.
//
// Go's transport repeats a request of a method that is safe to repeat, such as GET, if an idle
// connection turns out to have been closed by the upstream before it answered anything.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DefaultTimeout is the default of [Options].Timeout.
const DefaultTimeout = time.Minute

// Options say what is limited and how.
type Options struct {
	// Upstream is the server behind the proxy.
	Upstream *Upstream
	// Policy is the name of the policy. It is looked up for each request, since the configuration can change.
	Policy string
	// Host replaces the Host header of requests; empty keeps the client's.
	Host string
	// Timeout is how long the upstream may take to begin its answer; 0 means [DefaultTimeout]. Bodies may take as
	// long as they need.
	Timeout time.Duration
	// MaxBody is the most bytes of a request's body; 0 means no bound.
	MaxBody int64
	// Log reports an upstream that does not answer.
	Log *slog.Logger
}

// listener limits requests and passes them on.
type listener struct {
	Options
	engine *engine.Engine
	pass   *httputil.ReverseProxy
}

// Handler returns the proxy as a handler.
func Handler(e *engine.Engine, options Options) http.Handler {
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
	}
	l := &listener{Options: options, engine: e}
	l.pass = &httputil.ReverseProxy{
		Rewrite:        l.rewrite,
		Transport:      options.Upstream.transport(options.Timeout),
		FlushInterval:  -1, // pass on at once what the upstream sends
		BufferPool:     &buffers{},
		ModifyResponse: tellLimits,
		ErrorHandler:   l.failed,
		ErrorLog:       slog.NewLogLogger(options.Log.Handler(), slog.LevelDebug),
	}
	return l
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, why := unfit(r); status != 0 {
		refuse(w, status, why)
		return
	}
	if l.MaxBody > 0 {
		if r.ContentLength > l.MaxBody {
			refuseLargeBody(w)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, l.MaxBody)
	}
	settings := l.engine.Settings()
	rule := settings.HTTP.Rules[l.Policy]
	r = endToEnd(r, settings.HTTP.Clients.Header)
	p := &passage{body: clientBody{ReadCloser: r.Body}}
	r.Body = &p.body
	if !rule.Skips(r) {
		ask := engine.Ask{Settings: settings, Op: store.Take, Policy: l.Policy, Attributes: rule.Of(r, &settings.HTTP.Clients), Cost: 1}
		var answer decision.Answer
		var err error
		if p := settings.Policy(l.Policy); p != nil {
			ask.Costs, err = rule.Costs(p, r, ask.Attributes, nil)
		}
		if err == nil {
			err = l.engine.Decide(r.Context(), &ask, &answer)
		}
		if err != nil {
			if errors.Is(err, store.ErrInvalid) {
				err = cmp.Or(missing(&ask, &rule), err)
			}
			l.undecided(w, err)
			return
		}
		p.limits = fieldsOf(settings.HTTP.Headers, &answer)
		if !store.AllAllowed(answer.Decisions) {
			replace(w.Header(), p.limits)
			httplimit.Denial(rule.Status(), answer.DeniedBy()).Write(w)
			return
		}
		// A request waits for its turn in a leaky bucket.
		if err := sys.Sleep(r.Context(), store.Summarize(answer.Decisions).Delay); err != nil {
			panic(http.ErrAbortHandler) // the client has left, and its turn stays charged
		}
	}
	l.pass.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passageKey{}, p)))
}

// fieldsOf returns the header fields about a client's limits.
func fieldsOf(headers httplimit.Headers, answer *decision.Answer) http.Header {
	fields := http.Header{}
	names := make([]string, len(answer.Requests))
	for i := range names {
		names[i] = answer.LimitName(i)
	}
	headers.Set(fields, names, answer.Requests, answer.Decisions)
	headers.SetWarning(fields, names, answer.Policy.Limits, answer.Requests, answer.Decisions)
	return fields
}

// passage is the proxy's data about a request to the upstream.
type passage struct {
	limits http.Header // the fields about the client's limits; nil if it is not limited
	body   clientBody
}

// passageKey is the key of the passage in the request's context.
type passageKey struct{}

func passageOf(ctx context.Context) *passage { return ctx.Value(passageKey{}).(*passage) }

// clientBody records the error that ended the body of a request early.
type clientBody struct {
	io.ReadCloser
	err atomic.Pointer[error]
}

func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

// tellLimits adds the fields about the client's limits to an upstream's answer. It drops the upstream's fields of
// the same names, since two answers to one question help nobody.
func tellLimits(response *http.Response) error {
	replace(response.Header, passageOf(response.Request.Context()).limits)
	return nil
}

// replace sets fields in header.
func replace(header, fields http.Header) {
	for name, values := range fields {
		header[name] = values
	}
}

// failed answers a request that the upstream did not answer.
func (l *listener) failed(w http.ResponseWriter, r *http.Request, err error) {
	p := passageOf(r.Context())
	replace(w.Header(), p.limits) // it is charged, so the client gets its limits
	var tooLarge *http.MaxBytesError
	switch broken := p.body.err.Load(); {
	case errors.As(err, &tooLarge):
		refuseLargeBody(w)
		return
	case r.Context().Err() != nil: // the client has left
		panic(http.ErrAbortHandler)
	case broken != nil:
		refuse(w, http.StatusBadRequest, "The body of the request cannot be read.")
		return
	}
	status, why := http.StatusBadGateway, "The server behind this one cannot be reached."
	if sys.IsTimeout(err) {
		status, why = http.StatusGatewayTimeout, "The server behind this one did not answer in time."
	}
	l.Log.Warn("the upstream did not answer", "upstream", l.Upstream.String(), "status", status, "error", err.Error())
	refuse(w, status, why)
}

// missing returns what an undecided request lacks; nil if nothing.
func missing(ask *engine.Ask, rule *httplimit.Rule) error {
	if p := ask.Settings.Policy(ask.Policy); p != nil {
		return rule.Missing(p, ask.Attributes)
	}
	return nil
}

// refuse answers with a problem of RFC 9457. detail is for people, and names nothing behind the proxy.
func refuse(w http.ResponseWriter, status int, detail string) {
	problem := httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: detail}
	problem.Write(w)
}

func refuseLargeBody(w http.ResponseWriter) {
	refuse(w, http.StatusRequestEntityTooLarge, "The body of the request is too large.")
}

// undecided answers a request for which there is no decision.
func (l *listener) undecided(w http.ResponseWriter, err error) {
	kind := outcome.Of(err, nil)
	switch {
	case errors.Is(err, store.ErrInvalid):
		httplimit.WriteFailure(w, err)
		return
	case errors.Is(err, engine.ErrUnknownPolicy): // a new configuration has removed it
		kind = outcome.StoreAway
	}
	l.Log.Debug("a request was not decided", "policy", l.Policy, "status", kind.Status, "error", err.Error())
	if kind.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1") // nobody knows when it can be decided again
	}
	refuse(w, kind.Status, "Whether the request is within its limits is not known now.")
}
