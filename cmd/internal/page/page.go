// Package page serves the dashboard as a web page that can only be read. One process looks at the store, by the loop of
// package dash, and every browser gets what it found (live.go). A search reads the keys of one subject (subject.go).
// The handler has no way to write: it holds readings and functions that read.
package page

import (
	"context"
	"embed"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/dash"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

//go:embed page.html page.css page.js
var files embed.FS

// Options say what a page shows.
type Options struct {
	// Dash are the options of the dashboard. Its store refuses to write.
	Dash dash.Options
	// Likely returns the keys that a subject is likely to have, besides those that are followed.
	Likely func(subject string) []store.Key
	// Guard, if set, authenticates each request for data. Without it, only pages from this machine by its own names are
	// answered, so that a foreign name that resolves to this machine reads nothing.
	Guard func(http.Handler) http.Handler
	// Mask: subjects are shown masked, and reasons and authors of overrides not at all.
	Mask bool
	// Describe writes an error on a line, without secrets.
	Describe func(error) string
}

// Page is the page of a store. It is safe for concurrent use.
type Page struct {
	options Options
	mask    *mask
	denials func(context.Context, time.Duration) (admin.Denials, error) // nil if the store keeps none
	latest  atomic.Pointer[dash.Look]
	live    broadcast
	shown   shownOverrides     // of the events; publish alone uses it
	bounds  *memorystore.Store // how often each client searches, and all
	busy    chan struct{}      // has a value for each search under way
	hour    hour
}

// New returns the page of a store. Run has to run for it to show anything.
func New(o Options) *Page {
	p := &Page{options: o, bounds: memorystore.New(memorystore.WithClock(o.Dash.Now)), busy: make(chan struct{}, mostSearches)}
	p.live.begin(o.Dash.Now())
	if o.Mask {
		p.mask = newMask()
	}
	if o.Dash.Denials != nil {
		p.denials = o.Dash.Denials.Denials
	}
	return p
}

// Run looks at the store until ctx ends. It reads nothing while nobody looks.
func (p *Page) Run(ctx context.Context) error {
	defer p.live.end()
	return dash.Watch(ctx, p.options.Dash, func() bool { return p.live.wanted(p.options.Dash.Now()) }, p.publish)
}

// Stop ends the streams of all browsers, so that a server that stops need not wait for them.
func (p *Page) Stop() { p.live.end() }

// Handler answers requests whose paths begin with a slash: the page itself to everybody, and data to those whom Guard lets
// through.
func (p *Page) Handler() http.Handler {
	data := http.NewServeMux()
	data.HandleFunc("GET /api/live", p.serveLive)
	data.HandleFunc("GET /api/subject", p.serveSubject)
	data.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		refusal.Write(w, http.StatusNotFound, outcome.Usage.Word, "there is nothing here; the page is at /")
	})
	guarded := http.Handler(data)
	if p.options.Guard != nil {
		guarded = p.options.Guard(guarded)
	}
	mux := http.NewServeMux()
	mux.Handle("/", ownPage(guarded))
	for path, file := range map[string]struct{ name, contentType string }{
		"GET /{$}":      {"page.html", "text/html; charset=utf-8"},
		"GET /page.css": {"page.css", "text/css; charset=utf-8"},
		"GET /page.js":  {"page.js", "text/javascript; charset=utf-8"},
	} {
		text, err := files.ReadFile(file.name)
		if err != nil {
			panic(err) // it is part of the program
		}
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.contentType)
			w.Write(text)
		})
	}
	all := onlyReads(withHeaders(mux))
	if p.options.Guard == nil {
		return ownNames(all)
	}
	return all
}
