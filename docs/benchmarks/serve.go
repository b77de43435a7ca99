package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
)

// httpReport is what httpload prints.
type httpReport struct {
	Requests       int         `json:"requests"`
	Seconds        float64     `json:"seconds"`
	Statuses       map[int]int `json:"statuses"`
	P50, P99, P999 float64     // µs
	CPU            float64     `json:"cpu"`
}

func (r *httpReport) perSecond() float64 { return float64(r.Requests) / r.Seconds }

// served is a process that answers HTTP requests, with its own Redis.
type served struct {
	name    string
	body    string
	load    []string // more flags of httpload
	address string
	process *exec.Cmd
	redis   *redistest.Process
	client  *redis.Client
}

// servedSample is one round of a process.
type servedSample struct {
	httpReport
	serverCPU, redisCPU float64 // µs per request
	memory              float64 // MiB resident
}

const (
	keyBody    = `{"key":"{subject}","limits":["100000/720h"]}`
	policyBody = `{"policy":"api","attributes":{"user":"{subject}"}}`
	servePlan  = "policies:\n  api:\n    limits:\n      - {name: month, by: [user], limit: 100000/720h}\n" +
		"envoy:\n  edge:\n    - {policy: api, entries: {user: user}}\n"
)

// buildLoad builds the load generator into dir, and returns its path.
func buildLoad(ctx context.Context, dir string) (string, error) {
	load := filepath.Join(dir, "httpload")
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", load, "./httpload").CombinedOutput(); err != nil {
		return "", fmt.Errorf("httpload: %w: %s", err, text)
	}
	return load, nil
}

// serveSection compares HTTP decisions with a service that does the same with redis_rate, and with servers that
// decide nothing: at the highest rate, and at one and the same rate.
func serveSection(ctx context.Context, p plan, out io.Writer) error {
	dir, program, remove, err := buildLimitctl(ctx)
	if err != nil {
		return err
	}
	defer remove()
	load, err := buildLoad(ctx, dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the processes
	all, err := serveAll(ctx, dir, program, p.beside)
	for _, s := range all {
		defer s.stop()
	}
	if err != nil {
		return err
	}
	duration := 5 * p.duration
	round := func(title string, rate float64) ([][]servedSample, error) {
		samples := make([][]servedSample, len(all))
		for n := range p.rounds {
			progress("serve: %s, round %d of %d", title, n+1, p.rounds)
			for i := range all {
				s := all[(i+n)%len(all)]
				measured, err := s.measure(ctx, load, rate, duration)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", s.name, err)
				}
				samples[(i+n)%len(all)] = append(samples[(i+n)%len(all)], measured)
			}
		}
		return samples, nil
	}
	progress("serve: filling")
	for _, s := range all {
		if _, err := s.measure(ctx, load, 0, 2*duration); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	most, err := round("as many as there can be", 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n### HTTP decisions: 256 connections over %s keys, as many as there can be\n", thousands(manyKeys))
	table(out, servedRows(all, most)...)
	var peers []float64
	for _, s := range most[peerIndex] {
		peers = append(peers, s.perSecond())
	}
	rate := 0.6 * median(peers)
	equal, err := round("at one rate", rate)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n### HTTP decisions: the same at %s a second, 60 %% of redis_rate's\n", thousands(rate))
	table(out, servedRows(all, equal)...)
	return nil
}

// peerIndex is the index in serveAll's list of the service to compare with.
const peerIndex = 2

func serveAll(ctx context.Context, dir, program, beside string) (all []*served, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "limitctl.yaml")
	if err := os.WriteFile(config, []byte(servePlan), 0o600); err != nil {
		return nil, err
	}
	ours := func(program string, store func(redis string) string) func(listen, redis string) []string {
		return func(listen, redis string) []string {
			return []string{program, "serve", "--config", config, "--listen", listen, "--admin", "127.0.0.1:0", "--store", store(redis)}
		}
	}
	onRedis := func(redis string) string { return "redis://" + redis }
	envoys := func(listen, redis string) []string {
		return append(ours(program, onRedis)("127.0.0.1:0", redis), "--grpc", listen)
	}
	contestants := []struct {
		name, body string
		command    func(listen, redis string) []string
		load       []string
	}{
		{"limitctl serve, key and limit", keyBody, ours(program, onRedis), nil},
		{"limitctl serve, policy", policyBody, ours(program, onRedis), nil},
		{"service with redis_rate", keyBody,
			func(listen, redis string) []string { return []string{self, "-serve-peer", listen + "," + redis} }, nil},
		{"limitctl serve, `memory:`", keyBody, ours(program, func(string) string { return "memory:" }), nil},
		{"that service, deciding nothing", keyBody,
			func(listen, _ string) []string { return []string{self, "-serve-peer", listen + ","} }, nil},
		{"limitctl serve, Envoy's listener, 256 connections", "", envoys, []string{"-grpc", "1"}},
		{"limitctl serve, Envoy's listener, 4 connections of 64 calls", "", envoys, []string{"-grpc", "64", "-connections", "4"}},
	}
	if beside != "" {
		other := contestants[0]
		other.name, other.command = "the other build, key and limit", ours(beside, onRedis)
		contestants = append(contestants, other)
	}
	for _, c := range contestants {
		s := &served{name: c.name, body: c.body, load: c.load}
		all = append(all, s)
		if s.redis, err = redistest.Launch(); err != nil {
			return all, err
		}
		s.client = redis.NewClient(&redis.Options{Addr: s.redis.Addr})
		if s.address, err = freeAddress(); err != nil {
			return all, err
		}
		command := c.command(s.address, s.redis.Addr)
		s.process = exec.CommandContext(ctx, command[0], command[1:]...)
		s.process.Stderr = os.Stderr
		s.process.Env = append(os.Environ(), "HOME="+dir, "LIMITCTL_STORE=", "LIMITCTL_CONFIG=")
		if err = errors.Join(s.process.Start(), s.ready(ctx)); err != nil {
			return all, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return all, nil
}

// freeAddress returns an address of loopback at which nobody listens.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// ready waits until the process accepts connections.
func (s *served) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
		if err == nil {
			return connection.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *served) stop() {
	if s.process != nil && s.process.Process != nil {
		_ = s.process.Process.Signal(syscall.SIGTERM) // it may have already ended
		_ = s.process.Wait()
	}
	if s.client != nil {
		s.client.Close()
	}
	if s.redis != nil {
		s.redis.Stop()
	}
}

// measure runs the load once.
func (s *served) measure(ctx context.Context, load string, rate float64, duration time.Duration) (m servedSample, err error) {
	before, _, err := processUse(s.process.Process.Pid)
	redisBefore, redisErr := serverCPU(ctx, s.client)
	if err = errors.Join(err, redisErr); err != nil {
		return m, err
	}
	flags := append([]string{"-address", s.address, "-body", s.body, "-rate", strconv.FormatFloat(rate, 'f', 0, 64),
		"-duration", duration.String()}, s.load...)
	text, err := exec.CommandContext(ctx, load, flags...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return m, fmt.Errorf("%w: %s", err, exit.Stderr)
	} else if err := errors.Join(err, json.Unmarshal(text, &m.httpReport)); err != nil {
		return m, err
	}
	if m.Statuses[200] != m.Requests {
		return m, fmt.Errorf("not all was allowed: %v", m.Statuses)
	}
	after, memory, err := processUse(s.process.Process.Pid)
	redisAfter, redisErr := serverCPU(ctx, s.client)
	m.memory = memory
	m.serverCPU = float64((after - before).Microseconds()) / float64(m.Requests)
	m.redisCPU = float64((redisAfter - redisBefore).Microseconds()) / float64(m.Requests)
	return m, errors.Join(err, redisErr)
}

// processUse returns the processor time of a process, and its resident memory in MiB.
func processUse(pid int) (used time.Duration, resident float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // its name can contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 22 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, userErr := strconv.Atoi(fields[11])
	system, systemErr := strconv.Atoi(fields[12])
	pages, pagesErr := strconv.Atoi(fields[21])
	const perSecond = 100 // USER_HZ of Linux
	return time.Duration(user+system) * time.Second / perSecond, float64(pages*os.Getpagesize()) / (1 << 20),
		errors.Join(userErr, systemErr, pagesErr)
}

func servedRows(all []*served, samples [][]servedSample) [][]string {
	rows := [][]string{{"", "requests a second", "÷ redis_rate's", "p50", "p99", "p99 ÷ redis_rate's",
		"server CPU", "Redis CPU", "client CPU", "resident"}}
	of := func(i int, figure func(servedSample) float64) (values []float64) {
		for _, s := range samples[i] {
			values = append(values, figure(s))
		}
		return values
	}
	micro := func(us float64) string { return thousands(us) + " µs" }
	perSecond := func(s servedSample) float64 { return s.perSecond() }
	p99 := func(s servedSample) float64 { return s.P99 }
	for i, s := range all {
		rows = append(rows, []string{s.name,
			spread(of(i, perSecond), thousands),
			ratioOf(of(i, perSecond), of(peerIndex, perSecond)),
			spread(of(i, func(s servedSample) float64 { return s.P50 }), micro),
			spread(of(i, p99), micro),
			ratioOf(of(i, p99), of(peerIndex, p99)),
			decimals(median(of(i, func(s servedSample) float64 { return s.serverCPU }))) + " µs",
			decimals(median(of(i, func(s servedSample) float64 { return s.redisCPU }))) + " µs",
			decimals(median(of(i, func(s servedSample) float64 { return s.CPU }))) + " µs",
			thousands(median(of(i, func(s servedSample) float64 { return s.memory }))) + " MiB",
		})
	}
	return rows
}
