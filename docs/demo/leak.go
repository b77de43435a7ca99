//go:build demo

package main

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// attempts is the limit of the first part: at most ten attempts to log in, in any minute.
var attempts = limiter.Limit{Name: "attempts", Count: 10, Period: time.Minute, Algorithm: limiter.SlidingLog}

const callers = 64

// countThenAdd is the limiter that many services begin with: two calls. What can happen between them is a slow network,
// or another process's turn; here it is pause.
func countThenAdd(ctx context.Context, l *limiter.Limiter, r limiter.Request, pause func()) (limiter.Decisions, error) {
	counted, err := l.Peek(ctx, r)
	if err != nil || !counted.Allowed() {
		return counted, err
	}
	pause()
	_, err = l.Charge(ctx, r)
	return counted, err
}

// take counts and adds in one call.
func take(ctx context.Context, l *limiter.Limiter, r limiter.Request, pause func()) (limiter.Decisions, error) {
	pause()
	return l.Take(ctx, r)
}

// leak sends the same load to a page that is limited by countThenAdd, and to one that is limited by take.
func (d *demo) leak(ctx context.Context) error {
	heading("1. Your limiter leaks",
		"10 logins a minute for each account, behind HTTP. 64 callers meet between its two calls,\n"+
			"as they do under load.")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	pages := http.NewServeMux()
	pages.HandleFunc("/naive", d.page(countThenAdd))
	pages.HandleFunc("/limitctl", d.page(take))
	server := &http.Server{Handler: pages, ReadHeaderTimeout: time.Minute}
	defer server.Close()
	go server.Serve(listener)

	const fails = 1
	var bars []bar
	for _, p := range []struct {
		name, title string
		exit        int
	}{{"naive", "count, then add: two calls", fails}, {"limitctl", "take: one call", 0}} {
		url := "http://" + listener.Addr().String() + "/" + p.name + "?account={subject}"
		saved := p.name + ".json"
		if err := d.runs(ctx, p.exit, "loadtest", url, "--limit", attempts.Stored().String(),
			"--workers", strconv.Itoa(callers), "--requests", "500", "--save", saved); err != nil {
			return err
		}
		runs, err := d.runsOf(saved)
		if err != nil {
			return err
		}
		note := strconv.Itoa(runs[0].Allowed) + " got in"
		bars = append(bars, bar{Title: p.title, Times: runs[0].Audit.Worst, Note: note})
	}
	draw("let through", "", bars)
	return nil
}

type decider func(context.Context, *limiter.Limiter, limiter.Request, func()) (limiter.Decisions, error)

// page answers 200 if decide allows an attempt for the account of the query, and 429 otherwise. In the pause the first
// callers wait for each other, so that they are at it together on machines of any speed.
func (d *demo) page(decide decider) http.HandlerFunc {
	var waiting atomic.Int64
	together := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		request := attempts.For(r.URL.Path, r.URL.Query().Get("account"))
		decisions, err := decide(r.Context(), d.limits, request, func() {
			if waiting.Add(1) == callers {
				close(together)
			}
			select {
			case <-together:
			case <-r.Context().Done(): // some callers could not connect
			}
		})
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case !decisions.Allowed():
			w.Header().Set("Retry-After", strconv.Itoa(int(decisions.RetryAfter()/time.Second)+1))
			http.Error(w, "too many attempts", http.StatusTooManyRequests)
		}
	}
}
