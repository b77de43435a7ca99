package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// servePeer is a typical program with redis_rate: it takes the same requests as `limitctl serve`, and answers with
// the same fields and headers. Without a Redis it reads the request and decides nothing.
func servePeer(ctx context.Context, arguments string) error {
	listen, address, found := strings.Cut(arguments, ",")
	if !found {
		return errors.New("-serve-peer is for the program itself")
	}
	handler := http.NewServeMux()
	decide := func(_ context.Context, _ string, limit redis_rate.Limit) (*redis_rate.Result, error) {
		return &redis_rate.Result{Limit: limit, Allowed: 1, Remaining: limit.Burst - 1, RetryAfter: -1}, nil
	}
	if address != "" {
		client := redis.NewClient(&redis.Options{Addr: address})
		defer client.Close()
		decide = redis_rate.NewLimiter(client).Allow
	}
	handler.HandleFunc("POST /v1/consume", func(w http.ResponseWriter, r *http.Request) { peerAnswer(w, r, decide) })
	server := &http.Server{Addr: listen, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type peerQuestion struct {
	Key    string   `json:"key"`
	Limits []string `json:"limits"`
}

type peerLimit struct {
	Name         string `json:"name"`
	Algorithm    string `json:"algorithm"`
	Count        int    `json:"count"`
	PeriodMS     int64  `json:"period_ms"`
	Burst        int    `json:"burst"`
	Allowed      bool   `json:"allowed"`
	Used         int    `json:"used"`
	Remaining    int    `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	DelayMS      int64  `json:"delay_ms"`
	DecidedBy    string `json:"decided_by"`
	Granted      int    `json:"granted"`
}

type peerDocument struct {
	SchemaVersion int         `json:"schema_version"`
	Allowed       bool        `json:"allowed"`
	Key           string      `json:"key"`
	Cost          int         `json:"cost"`
	Remaining     int         `json:"remaining"`
	RetryAfterMS  int64       `json:"retry_after_ms"`
	ResetAfterMS  int64       `json:"reset_after_ms"`
	DelayMS       int64       `json:"delay_ms"`
	Granted       int         `json:"granted"`
	DecidedBy     string      `json:"decided_by"`
	Limits        []peerLimit `json:"limits"`
}

func peerAnswer(w http.ResponseWriter, r *http.Request,
	decide func(context.Context, string, redis_rate.Limit) (*redis_rate.Result, error)) {
	var q peerQuestion
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil || len(q.Limits) != 1 {
		http.Error(w, "want a key and one limit", http.StatusBadRequest)
		return
	}
	limit, err := peerParse(q.Limits[0])
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	result, err := decide(r.Context(), q.Key, limit)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	retryAfter := max(0, result.RetryAfter)
	document := peerDocument{SchemaVersion: 1, Allowed: result.Allowed > 0, Key: q.Key, Cost: 1, Remaining: result.Remaining,
		RetryAfterMS: retryAfter.Milliseconds(), ResetAfterMS: result.ResetAfter.Milliseconds(),
		Granted: result.Allowed, DecidedBy: "store",
		Limits: []peerLimit{{Name: "gcra", Algorithm: "gcra", Count: limit.Rate, PeriodMS: limit.Period.Milliseconds(), Burst: limit.Burst,
			Allowed: result.Allowed > 0, Used: limit.Burst - result.Remaining, Remaining: result.Remaining,
			RetryAfterMS: retryAfter.Milliseconds(), ResetAfterMS: result.ResetAfter.Milliseconds(),
			DecidedBy: "store", Granted: result.Allowed}}}
	header := w.Header()
	seconds := int64((result.ResetAfter + time.Second - 1) / time.Second)
	header.Set("Content-Type", "application/json")
	header.Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=%d`, limit.Rate, int64(limit.Period/time.Second)))
	header.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%d`, result.Remaining, seconds))
	header.Set("X-RateLimit-Limit", strconv.Itoa(limit.Burst))
	header.Set("X-RateLimit-Remaining", strconv.Itoa(result.Remaining))
	header.Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Unix()+seconds, 10))
	if !document.Allowed {
		header.Set("Retry-After", strconv.FormatInt(int64((retryAfter+time.Second-1)/time.Second), 10))
		w.WriteHeader(http.StatusTooManyRequests)
	}
	if text, err := json.Marshal(document); err == nil {
		w.Write(text)
	}
}

// peerParse reads "COUNT/PERIOD".
func peerParse(text string) (redis_rate.Limit, error) {
	count, period, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(count)
	if err != nil {
		return redis_rate.Limit{}, err
	}
	d, err := time.ParseDuration(period)
	return redis_rate.Limit{Rate: n, Burst: n, Period: d}, err
}
