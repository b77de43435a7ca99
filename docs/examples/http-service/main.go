// Http-service is an HTTP service with limits for each user, kept in a Redis: ten requests in ten seconds, and a
// thousand an hour. When its Redis is slow, hangs or is gone, it still answers: then it decides in its own memory,
// with a quarter of each limit.
//
//	go -C docs/examples run ./http-service -redis localhost:6379
//	curl -i -H 'X-User: ada' localhost:8080/
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

func main() {
	address := flag.String("redis", "localhost:6379", "where the Redis is")
	listen := flag.String("listen", "127.0.0.1:8080", "where requests come in")
	flag.Parse()
	// The store merges concurrent calls: the more there are, the less each of them costs the Redis.
	store, err := redisstore.Open(redis.UniversalOptions{Addrs: []string{*address}})
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello", r.Header.Get("X-User"))
	})
	s, err := newService(store, log.Printf, hello)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(*listen, s))
}
