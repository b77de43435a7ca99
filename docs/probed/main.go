// Command probed serves limits of Go middlewares, one at each path, by the query parameter user. docs/probe.md
// shows what limitctl probe finds out about them, and about those of nginx, HAProxy and Node.js in this directory.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

func main() {
	limited, err := handler()
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:8003")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, limited))
}

// handler answers ok at each path as often as a limit of 10 a second allows.
func handler() (http.Handler, error) {
	const count, period = 10, time.Second
	user := func(r *http.Request) (string, error) { return r.URL.Query().Get("user"), nil }
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })

	mux := http.NewServeMux()
	mux.Handle("/httprate", httprate.LimitBy(count, period, user)(ok))

	ulule := limiter.New(memory.NewStore(), limiter.Rate{Period: period, Limit: count})
	byUser := stdlib.WithKeyGetter(func(r *http.Request) string { return r.URL.Query().Get("user") })
	mux.Handle("/ulule", stdlib.NewMiddleware(ulule, byUser).Handler(ok))

	store, err := memorystore.New(&memorystore.Config{Tokens: count, Interval: period})
	if err != nil {
		return nil, err
	}
	sethvargo, err := httplimit.NewMiddleware(store, user)
	if err != nil {
		return nil, err
	}
	mux.Handle("/sethvargo", sethvargo.Handle(ok))
	return mux, nil
}
