// Package proxy is the server's door for clients that know nothing of it: a reverse proxy that
// limits in front of an upstream.
//
// What is counted and what the upstream sees are the same: one request goes to the upstream for
// each request that was counted and allowed, made anew from what was parsed. Bodies are passed
// on in both directions as they come, and none is held as a whole. A request that the upstream
// did not answer has been charged, since the upstream may have done its work.
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
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/sleep"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DefaultTimeout is how long an upstream may take to begin its answer, unless something else
// is said.
const DefaultTimeout = time.Minute

// Options say what is limited and how.
type Options struct {
	// Upstream is where requests go.
	Upstream *Upstream
	// Policy is the name of the policy that limits. It is looked up for each request, since the
	// configuration can change.
	Policy string
	// Host replaces the Host header of requests; empty keeps the client's.
	Host string
	// Timeout is how long the upstream may take to begin its answer; zero stands for
	// [DefaultTimeout]. Bodies may take as long as they need.
	Timeout time.Duration
	// MaxBody is how many bytes the body of a request may have; zero is no bound.
	MaxBody int64
	// Log is told of an upstream that does not answer.
	Log *slog.Logger
}

// door limits and passes on.
type door struct {
	Options
	engine *engine.Engine
	pass   *httputil.ReverseProxy
}

// Handler returns the proxy as a handler.
func Handler(e *engine.Engine, options Options) http.Handler {
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
	}
	d := &door{Options: options, engine: e}
	d.pass = &httputil.ReverseProxy{
		Rewrite:        d.rewrite,
		Transport:      options.Upstream.transport(options.Timeout),
		FlushInterval:  -1, // what the upstream sends is for the client at once
		BufferPool:     &buffers{},
		ModifyResponse: tellLimits,
		ErrorHandler:   d.failed,
		ErrorLog:       slog.NewLogLogger(options.Log.Handler(), slog.LevelDebug),
	}
	return d
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, why := unfit(r); status != 0 {
		refuse(w, status, why)
		return
	}
	if d.MaxBody > 0 {
		if r.ContentLength > d.MaxBody {
			refuseLargeBody(w)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, d.MaxBody)
	}
	settings := d.engine.Settings()
	rule := settings.HTTP.Rules[d.Policy]
	r = endToEnd(r, settings.HTTP.Clients.Header)
	p := &passage{body: clientBody{ReadCloser: r.Body}}
	r.Body = &p.body
	if !rule.Skips(r) {
		ask := engine.Ask{Settings: settings, Op: store.Take, Policy: d.Policy, Attributes: rule.Of(r, &settings.HTTP.Clients), Cost: 1}
		var answer decision.Answer
		var err error
		if p := settings.Policy(d.Policy); p != nil {
			ask.Costs, err = rule.Costs(p, r, ask.Attributes, nil)
		}
		if err == nil {
			err = d.engine.Decide(r.Context(), &ask, &answer)
		}
		if err != nil {
			if errors.Is(err, store.ErrInvalid) {
				err = cmp.Or(missing(&ask, &rule), err)
			}
			d.undecided(w, err)
			return
		}
		p.limits = fieldsOf(settings.HTTP.Headers, &answer)
		if !store.AllAllowed(answer.Decisions) {
			replace(w.Header(), p.limits)
			httplimit.Denial(rule.Status(), answer.DeniedBy()).Write(w)
			return
		}
		// A request waits for its turn in a leaky bucket.
		if err := sleep.For(r.Context(), store.Summarize(answer.Decisions).Delay); err != nil {
			panic(http.ErrAbortHandler) // the client has left, and its turn stays taken
		}
	}
	d.pass.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passageKey{}, p)))
}

// fieldsOf are the header fields that tell a client of its limits.
func fieldsOf(headers httplimit.Headers, answer *decision.Answer) http.Header {
	fields := http.Header{}
	names := make([]string, len(answer.Requests))
	for i := range names {
		names[i] = answer.LimitName(i)
	}
	headers.Set(fields, names, answer.Requests, answer.Decisions)
	return fields
}

// passage is what is known of a request that goes to the upstream.
type passage struct {
	limits http.Header // the fields that tell its client of its limits; nil if it is not limited
	body   clientBody
}

// passageKey is the passage's key in the request's context.
type passageKey struct{}

func passageOf(ctx context.Context) *passage { return ctx.Value(passageKey{}).(*passage) }

// clientBody notes the error that ended the body of a request before its end.
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

// tellLimits puts what a client is told of its limits into an upstream's answer. Fields of the
// same names that the upstream sent are dropped: two answers to one question help nobody.
func tellLimits(response *http.Response) error {
	replace(response.Header, passageOf(response.Request.Context()).limits)
	return nil
}

// replace makes header have the fields of those that it is given.
func replace(header, fields http.Header) {
	for name, values := range fields {
		header[name] = values
	}
}

// failed answers a request that the upstream did not answer.
func (d *door) failed(w http.ResponseWriter, r *http.Request, err error) {
	p := passageOf(r.Context())
	replace(w.Header(), p.limits) // it is charged, and the client may know
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
	if timedOut(err) {
		status, why = http.StatusGatewayTimeout, "The server behind this one did not answer in time."
	}
	d.Log.Warn("the upstream did not answer", "upstream", d.Upstream.String(), "status", status, "error", err.Error())
	refuse(w, status, why)
}

// missing says what a request lacks that could not be decided, or returns nil.
func missing(ask *engine.Ask, rule *httplimit.Rule) error {
	if p := ask.Settings.Policy(ask.Policy); p != nil {
		return rule.Missing(p, ask.Attributes)
	}
	return nil
}
