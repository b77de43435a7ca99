// Http-service is an HTTP service with limits for each user, kept in a Redis: ten
// requests in ten seconds, and a thousand an hour. While Redis is away it lets everybody
// through, and says so in its log.
//
//	go run ./docs/examples/http-service -redis localhost:6379
//	curl -i -H 'X-User: ada' localhost:8080/
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

func main() {
	address := flag.String("redis", "localhost:6379", "where the Redis is")
	flag.Parse()
	store, err := redisstore.New(redisstore.NewClient(redis.Options{Addr: *address}))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello", r.Header.Get("X-User")) })
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", limited(store, log.Printf, hello)))
}

// limited lets through to next what the limits of its user allow.
func limited(store limiter.Store, logf func(format string, args ...any), next http.Handler) http.Handler {
	limits := limiter.New(limiter.WithFailurePolicy(store, limiter.AllowOnError, func(err error) {
		logf("let through without a limit: %v", err)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := r.Header.Get("X-User")
		if user == "" {
			http.Error(w, "who are you? send X-User", http.StatusUnauthorized)
			return
		}
		key := limiter.Key{Subject: "user:" + user}
		decisions, err := limits.TakeAll(r.Context(),
			limiter.Request{Key: key, Limit: limiter.Limit{Count: 10, Period: 10 * time.Second}, Cost: 1},
			limiter.Request{Key: key, Limit: limiter.Limit{Count: 1000, Period: time.Hour}, Cost: 1})
		switch {
		case errors.Is(err, limiter.ErrInvalid): // a user name that no key can have
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		case errors.Is(err, context.Canceled): // the client has left
			return
		case err != nil: // the store refused: a mistake of ours, such as a missing right
			logf("no decision: %v", err)
			http.Error(w, "no decision", http.StatusInternalServerError)
			return
		}
		sum := limiter.Summarize(decisions)
		if !sum.Allowed {
			seconds := int64((sum.RetryAfter + time.Second - 1) / time.Second) // never earlier than the truth
			w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}
