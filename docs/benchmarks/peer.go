package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// peerProcess is one of the processes that are measured: a service with redis_rate (serve,ADDRESS,REDIS), or a server
// that answers at once and prints its address (answer).
func peerProcess(ctx context.Context, arguments string, out io.Writer) error {
	words := strings.Split(arguments, ",")
	switch {
	case words[0] == "serve" && len(words) == 3:
		client := redis.NewClient(&redis.Options{Addr: words[2]})
		defer client.Close()
		listener, err := net.Listen("tcp", words[1])
		if err != nil {
			return err
		}
		limiter := redis_rate.NewLimiter(client)
		handler := http.NewServeMux()
		handler.HandleFunc("POST /v1/consume", func(w http.ResponseWriter, r *http.Request) {
			peerAnswer(w, r, limiter)
		})
		return answering(ctx, listener, handler)
	case words[0] == "answer" && len(words) == 1:
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Fprintln(out, listener.Addr())
		return answering(ctx, listener,
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") }))
	}
	return errors.New("-peer is for the program itself")
}

// answering serves until ctx ends.
func answering(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// peerAnswer is what the author of a service writes around redis_rate: it takes the requests of `limitctl serve`, and
// answers with what clients need.
func peerAnswer(w http.ResponseWriter, r *http.Request, limiter *redis_rate.Limiter) {
	var question struct {
		Key    string   `json:"key"`
		Limits []string `json:"limits"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err == nil {
		err = json.Unmarshal(body, &question)
	}
	if err != nil || len(question.Limits) != 1 {
		http.Error(w, "want a key and one limit", http.StatusBadRequest)
		return
	}
	count, period, _ := strings.Cut(question.Limits[0], "/")
	n, countErr := strconv.Atoi(count)
	length, periodErr := time.ParseDuration(period)
	if err := errors.Join(countErr, periodErr); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	result, err := limiter.Allow(r.Context(), question.Key, redis_rate.Limit{Rate: n, Burst: n, Period: length})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%d`, result.Remaining, result.ResetAfter/time.Second+1))
	if result.Allowed == 0 {
		header.Set("Retry-After", strconv.FormatInt(int64(result.RetryAfter/time.Second)+1, 10))
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_ = json.NewEncoder(w).Encode(struct { // who asked can be gone
		Allowed   bool `json:"allowed"`
		Remaining int  `json:"remaining"`
	}{result.Allowed > 0, result.Remaining})
}
