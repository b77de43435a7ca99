//go:build ignore

// This is Traefik's rate limit middleware over a Redis, for record.py. A peek runs its script on a copy of the
// bucket, at the time in the answer.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	ptypes "github.com/traefik/paerser/types"
	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/middlewares/ratelimiter"
)

var cases = []struct {
	average, burst int64
	period         time.Duration
	wait           float64
}{
	{4, 3, 2 * time.Second, 2}, {1, 5, time.Second, 2}, {20, 10, time.Second, 1}, {6, 2, time.Minute, 8},
	{3, 4, 10 * time.Second, 6},
	{100, 20, time.Second, 0.5}, {7, 1, 3 * time.Second, 2},
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	address, background := "127.0.0.1:"+os.Args[len(os.Args)-1], context.Background()
	client := redis.NewClient(&redis.Options{Addr: address})
	admitted := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	var middlewares []http.Handler
	var told []map[string]any
	for _, c := range cases {
		limit := dynamic.RateLimit{Average: c.average, Period: ptypes.Duration(c.period), Burst: c.burst,
			Redis: &dynamic.Redis{Endpoints: []string{address}}}
		middlewares = append(middlewares, must(ratelimiter.New(background, admitted, limit, "ratelimit@file")))
		told = append(told, map[string]any{
			"name": "ratelimit@file", "limit": fmt.Sprintf("%d/%s,burst=%d", c.average, c.period, c.burst),
			"period": c.wait})
	}
	answer := json.NewEncoder(os.Stdout)
	answer.Encode(told)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var asked struct {
			Op, ID string
			Case   int
		}
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		if asked.Op == "take" {
			request, response := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
			request.RemoteAddr = asked.ID + ":1234"
			middlewares[asked.Case].ServeHTTP(response, request)
			answer.Encode(map[string]any{"allowed": response.Code == http.StatusOK})
			continue
		}
		c := &cases[asked.Case]
		pace := float64(c.average*int64(time.Second)) / float64(c.period)
		slowest := time.Second / 2
		if pace >= 1 {
			slowest = time.Second / (time.Duration(pace) * 2)
		}
		must(client.Copy(background, "rate:ratelimit@file:"+asked.ID, "copy", 0, true).Result())
		now := time.Now().UnixMicro()
		said := must(must(ratelimiter.LoadTokenBucketScript()).Run(background, client, []string{"copy"},
			pace/1_000_000, c.burst, 10, now, slowest.Microseconds()).StringSlice())
		must(client.Del(background, "copy").Result())
		var delay float64
		must(fmt.Sscan(said[1], &delay))
		wait := time.Duration(delay * float64(time.Microsecond))
		fields := map[string]any{"now": now, "allowed": wait <= slowest, "tokens": json.RawMessage(said[2])}
		fields["delay_ns"] = wait
		answer.Encode(fields)
	}
}
