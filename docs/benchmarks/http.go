package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// httpSection measures load tests of an HTTP server that answers at once, beside vegeta: the highest number of
// requests, over the best number of connections for each, and the lag at a rate. limitctl audits every answer.
// vegeta's answers are only counted, which is less than its own reports do.
func httpSection(ctx context.Context, p plan, out io.Writer) error {
	_, program, remove, err := buildLimitctl(ctx)
	if err != nil {
		return err
	}
	defer remove()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := exec.CommandContext(ctx, self, "-http-peer", "server")
	address, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	defer server.Wait() //nolint:errcheck // it is killed
	defer cancel()
	var host string
	if _, err := fmt.Fscanln(address, &host); err != nil {
		return err
	}
	b := &httpBenchmark{program, self, "http://" + host + "/?{subject}", max(p.duration*5, time.Second)}
	if err := b.speed(ctx, p, out); err != nil {
		return err
	}
	return b.lag(ctx, p, out)
}

type httpBenchmark struct {
	limitctl, self, url string
	duration            time.Duration
}

// attack is the result of a contestant.
type attack struct {
	PerSecond float64 `json:"throughput_per_s"`
	Errors    int64   `json:"errors"`
	Lag       struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"schedule_lag_us"`
	Cost struct {
		CPU float64 `json:"client_cpu_us"`
	} `json:"cost"`
}

// byLimitctl runs a load test.
func (b *httpBenchmark) byLimitctl(ctx context.Context, load ...string) (*attack, error) {
	arguments := append([]string{"loadtest", b.url, "--limit", "1000000/1s", "--keys", "1000", "-o", "json",
		"--duration", b.duration.String(), "--threshold", "errors==0"}, load...)
	text, err := exec.CommandContext(ctx, b.limitctl, arguments...).Output()
	if err != nil {
		return nil, fmt.Errorf("limitctl: %w: %s", err, text)
	}
	var document struct{ Runs []attack }
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	return &document.Runs[0], nil
}

// byVegeta runs vegeta in a separate process.
func (b *httpBenchmark) byVegeta(ctx context.Context, workers int) (*attack, error) {
	peer := fmt.Sprintf("vegeta,%d,%s,%s", workers, b.duration, strings.ReplaceAll(b.url, "{subject}", "user"))
	text, err := exec.CommandContext(ctx, b.self, "-http-peer", peer).Output()
	if err != nil {
		return nil, fmt.Errorf("vegeta: %w", err)
	}
	result := &attack{}
	if err := json.Unmarshal(text, result); err != nil || result.Errors > 0 {
		return nil, cmp.Or(err, fmt.Errorf("vegeta: %d errors", result.Errors))
	}
	return result, nil
}

// speed measures the highest number of requests per second.
func (b *httpBenchmark) speed(ctx context.Context, p plan, out io.Writer) error {
	workers := []int{4, 16, 64, 256}
	names := []string{"limitctl, every answer audited", "vegeta, answers counted"}
	perSecond, cpu := make([][][]float64, len(names)), make([][][]float64, len(names)) // by contestant, workers and round
	for i := range names {
		perSecond[i], cpu[i] = make([][]float64, len(workers)), make([][]float64, len(workers))
	}
	best := make([][]float64, len(names)) // of each round
	for round := range p.rounds {
		progress("http: round %d of %d", round+1, p.rounds)
		for i := range names {
			best[i] = append(best[i], 0)
		}
		for j, n := range workers {
			for i, run := range []func() (*attack, error){
				func() (*attack, error) { return b.byLimitctl(ctx, "--workers", strconv.Itoa(n)) },
				func() (*attack, error) { return b.byVegeta(ctx, n) },
			} {
				result, err := run()
				if err != nil {
					return err
				}
				perSecond[i][j], cpu[i][j] = append(perSecond[i][j], result.PerSecond), append(cpu[i][j], result.Cost.CPU)
				best[i][round] = max(best[i][round], result.PerSecond)
			}
		}
	}
	rows := [][]string{{"requests per second"}}
	for _, n := range workers {
		rows[0] = append(rows[0], fmt.Sprintf("%d workers", n))
	}
	rows[0] = append(rows[0], "at its best")
	for i, name := range names {
		row := []string{name}
		for j := range workers {
			row = append(row, fmt.Sprintf("%s, %s µs", spread(perSecond[i][j], thousands), decimals(median(cpu[i][j]))))
		}
		rows = append(rows, append(row, spread(best[i], thousands)))
	}
	row := []string{"ratio"}
	for j := range workers {
		row = append(row, ratioOf(perSecond[0][j], perSecond[1][j]))
	}
	rows = append(rows, append(row, ratioOf(best[0], best[1])))
	fmt.Fprint(out, "\n### Load tests of an HTTP server that answers at once: requests per second, and µs of processors of each\n")
	table(out, rows...)
	return nil
}

// lag measures how late requests are.
func (b *httpBenchmark) lag(ctx context.Context, p plan, out io.Writer) error {
	const rate = 10_000
	var p50, p99, achieved []float64
	for round := range p.rounds {
		progress("http, lag: round %d of %d", round+1, p.rounds)
		result, err := b.byLimitctl(ctx, "--rate", strconv.Itoa(rate))
		if err != nil {
			return err
		}
		p50, p99 = append(p50, result.Lag.P50), append(p99, result.Lag.P99)
		achieved = append(achieved, result.PerSecond/rate)
	}
	us := func(us float64) string { return thousands(us) + " µs" }
	fmt.Fprintf(out, "\n### Load tests of an HTTP server: how late requests are at %s/s\n", thousands(rate))
	table(out, []string{"", "lag p50", "lag p99", "least lag p99", "achieved ÷ asked"},
		[]string{"limitctl", spread(p50, us), spread(p99, us), us(slices.Min(p99)),
			spread(achieved, func(share float64) string { return fmt.Sprintf("%.3f", share) })})
	return nil
}

// httpPeer is one of the processes of this section: the server, or vegeta.
func httpPeer(ctx context.Context, arguments string, out io.Writer) error {
	words := strings.Split(arguments, ",")
	if words[0] == "server" {
		return answerAtOnce(ctx, out)
	}
	if len(words) != 4 {
		return errors.New("-http-peer is for the program itself")
	}
	workers, err := strconv.ParseUint(words[1], 10, 16)
	if err != nil {
		return err
	}
	duration, err := time.ParseDuration(words[2])
	if err != nil {
		return err
	}
	attacker := vegeta.NewAttacker(vegeta.Workers(workers), vegeta.MaxWorkers(workers), vegeta.Connections(int(workers)))
	begin, cpu := time.Now(), ownCPU()
	result, requests := attack{}, 0
	targets := vegeta.NewStaticTargeter(vegeta.Target{Method: http.MethodGet, URL: words[3]})
	for answer := range attacker.Attack(targets, vegeta.Rate{}, duration, "") {
		if requests++; answer.Code != http.StatusOK {
			result.Errors++
		}
	}
	result.PerSecond = float64(requests) / time.Since(begin).Seconds()
	result.Cost.CPU = float64((ownCPU() - cpu).Microseconds()) / float64(requests)
	return json.NewEncoder(out).Encode(result)
}

// answerAtOnce is a server that prints its address, and answers until ctx ends.
func answerAtOnce(ctx context.Context, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, listener.Addr())
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") }),
		ReadHeaderTimeout: 10 * time.Second,
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
