package main

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// loading sends rate requests a second to the service at address, and reports the results every second. Each is
// sent when it is due, even if earlier ones have no answer yet, and its time counts from then. It ends with ctx.
func loading(ctx context.Context, address string, rate int, logf func(format string, args ...any)) {
	type answer struct {
		took    time.Duration
		by      string
		problem bool
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}, Timeout: 10 * time.Second}
	var mu sync.Mutex
	var answers []answer
	send := func(n int, due time.Time) {
		a := answer{problem: true}
		r, err := http.NewRequestWithContext(ctx, "GET", "http://"+address+"/", nil)
		if err == nil {
			r.Header.Set("X-User", strconv.Itoa(n%1000))
			if response, err := client.Do(r); err == nil {
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				a = answer{by: response.Header.Get("X-Decided-By"), problem: response.StatusCode != http.StatusOK}
			}
		}
		a.took = time.Since(due)
		mu.Lock()
		answers = append(answers, a)
		mu.Unlock()
	}
	go func() {
		begin, sent := time.Now(), 0
		for now := range time.Tick(time.Millisecond) {
			if ctx.Err() != nil {
				return
			}
			for ; sent < int(now.Sub(begin).Seconds()*float64(rate)); sent++ {
				go send(sent, now)
			}
		}
	}()
	go func() {
		for range time.Tick(time.Second) {
			if ctx.Err() != nil {
				return
			}
			mu.Lock()
			all := answers
			answers = nil
			mu.Unlock()
			by, problems := map[string]int{}, 0
			times := make([]time.Duration, 0, len(all))
			for _, a := range all {
				by[a.by]++
				times = append(times, a.took)
				if a.problem {
					problems++
				}
			}
			if len(times) == 0 {
				logf("no answers")
				continue
			}
			slices.Sort(times)
			at := func(share float64) time.Duration {
				return times[int(share*float64(len(times)-1))].Round(10 * time.Microsecond)
			}
			logf("%5d answers, p50 %8s, p99 %8s, max %8s; by the store %d, local %d; not 200: %d",
				len(times), at(0.5), at(0.99), at(1), by["store"], by["local"], problems)
		}
	}()
}
