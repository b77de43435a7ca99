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

	"github.com/limitctl/limitctl/internal/redistest"
)

// served is a process that answers decisions, with a Redis of its own.
type served struct {
	name    string
	load    []string // what limitctl loadtest is called with
	address string
	process *exec.Cmd
	redis   *redistest.Process
}

// attack is what limitctl loadtest, or a process with vegeta, says of a load.
type attack struct {
	Requests  int     `json:"requests"`
	PerSecond float64 `json:"throughput_per_s"`
	Errors    int     `json:"errors"`
	Denied    int     `json:"denied"`
	Latency   struct {
		P99 float64 `json:"p99"`
	} `json:"latency_us"`
	serverCPU float64 // µs per request
}

const servePlan = "policies:\n  api:\n    limits:\n      - {name: month, by: [user], limit: 100000/720h}\n" +
	"envoy:\n  edge:\n    - {policy: api, entries: {user: user}}\n"

// serveSection compares decisions over HTTP and over Envoy's protocol with a service that does the same with
// redis_rate. The same program loads them all, so that it costs the same beside each.
func serveSection(ctx context.Context, p plan, out io.Writer) error {
	dir, program, remove, err := buildLimitctl(ctx)
	if err != nil {
		return err
	}
	defer remove()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the processes
	all, err := serveAll(ctx, dir, program)
	for _, s := range all {
		defer s.stop()
	}
	if err != nil {
		return err
	}
	samples := make([][]*attack, len(all))
	for n := range p.rounds + 1 {
		progress("serve: round %d of %d", n, p.rounds)
		for i := range all {
			turn := (i + n) % len(all)
			measured, err := all[turn].measure(ctx, program, 5*p.duration)
			if err != nil {
				return fmt.Errorf("%s: %w", all[turn].name, err)
			}
			if n > 0 { // the first round fills the keys
				samples[turn] = append(samples[turn], measured)
			}
		}
	}
	of := func(i int, figure func(*attack) float64) (values []float64) {
		for _, s := range samples[i] {
			values = append(values, figure(s))
		}
		return values
	}
	perSecond := func(s *attack) float64 { return s.PerSecond }
	rows := [][]string{{"", "requests a second", "÷ redis_rate's", "p99", "CPU a request"}}
	for i, s := range all {
		rows = append(rows, []string{s.name, thousands(median(of(i, perSecond))),
			ratioOf(of(i, perSecond), of(0, perSecond)),
			thousands(median(of(i, func(s *attack) float64 { return s.Latency.P99 }))) + " µs",
			decimals(median(of(i, func(s *attack) float64 { return s.serverCPU }))) + " µs"})
	}
	fmt.Fprintf(out, "\n### Decisions by a server: 256 callers over %s keys, as many as there can be\n",
		thousands(manyKeys))
	table(out, rows...)
	return nil
}

// ratelimitEnvironment is what envoyproxy/ratelimit needs to serve servePlan's limit at listen, and nothing else at a
// fixed port.
func ratelimitEnvironment(dir, listen, redis string) []string {
	_, port, _ := net.SplitHostPort(listen)
	return []string{"USE_STATSD=false", "LOG_LEVEL=error", "RUNTIME_ROOT=" + dir, "RUNTIME_WATCH_ROOT=false",
		"RUNTIME_SUBDIRECTORY=.", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis, "GRPC_HOST=127.0.0.1",
		"GRPC_PORT=" + port,
		"HOST=127.0.0.1", "PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0"}
}

const ratelimitPlan = "domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {unit: day, requests_per_unit: " +
	"100000}\n"

// serveAll starts what is compared; the service with redis_rate is the first.
func serveAll(ctx context.Context, dir, program string) (all []*served, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ratelimit, err := installPeer(ctx, dir, "github.com/envoyproxy/ratelimit/src/service_cmd@latest")
	if err != nil {
		return nil, err
	}
	config, theirs := filepath.Join(dir, "limitctl.yaml"), filepath.Join(dir, "config")
	if err := errors.Join(os.WriteFile(config, []byte(servePlan), 0o600), os.Mkdir(theirs, 0o700),
		os.WriteFile(filepath.Join(theirs, "edge.yaml"), []byte(ratelimitPlan), 0o600)); err != nil {
		return nil, err
	}
	ours := func(listen, grpc, store string) []string {
		return []string{
			program, "serve", "--config", config, "--listen", listen, "--grpc", grpc,
			"--admin", "127.0.0.1:0", "--store", store,
		}
	}
	asked := func(body string) []string {
		return []string{"--body", body, "-H", "Content-Type: application/json"}
	}
	key := asked(`{"key":"{subject}","limits":["100000/720h"]}`)
	envoys := []string{"--domain", "edge", "--descriptor", "user={subject}"}
	const free = "127.0.0.1:0"
	contestants := []struct {
		name    string
		load    []string
		command func(listen, redis string) []string
	}{
		{"service with redis_rate", key, func(listen, redis string) []string {
			return []string{self, "-peer", "serve," + listen + "," + redis}
		}},
		{"limitctl serve, key and limit", key,
			func(listen, redis string) []string { return ours(listen, free, "redis://"+redis) }},
		{"limitctl serve, policy", asked(`{"policy":"api","attributes":{"user":"{subject}"}}`),
			func(listen, redis string) []string { return ours(listen, free, "redis://"+redis) }},
		{"limitctl serve, `memory:`", key, func(listen, _ string) []string {
			return ours(listen, free, "memory:")
		}},
		{"limitctl serve, Envoy's service", envoys,
			func(listen, redis string) []string { return ours(free, listen, "redis://"+redis) }},
		{"envoyproxy/ratelimit", envoys, func(_, _ string) []string { return []string{ratelimit} }},
	}
	for _, c := range contestants {
		s := &served{name: c.name}
		all = append(all, s)
		if s.redis, err = redistest.Launch(); err != nil {
			return all, err
		}
		if s.address, err = redistest.FreeAddr(); err != nil {
			return all, err
		}
		url := "http://" + s.address + "/v1/consume"
		if len(c.load) == len(envoys) && c.load[0] == envoys[0] {
			url = "grpc://" + s.address
		}
		s.load = append([]string{url}, c.load...)
		command := c.command(s.address, s.redis.Addr)
		s.process = exec.CommandContext(ctx, command[0], command[1:]...)
		s.process.Env = append(os.Environ(), "HOME="+dir, "LIMITCTL_STORE=", "LIMITCTL_CONFIG=")
		s.process.Env = append(s.process.Env, ratelimitEnvironment(dir, s.address, s.redis.Addr)...)
		if err = errors.Join(s.process.Start(), s.ready()); err != nil {
			return all, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return all, nil
}

// ready waits until the process accepts connections.
func (s *served) ready() (err error) {
	for range 2000 {
		connection, failed := net.Dial("tcp", s.address)
		if err = failed; err == nil {
			return connection.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func (s *served) stop() {
	if s.process != nil && s.process.Process != nil {
		_ = s.process.Process.Signal(syscall.SIGTERM) // it may have already ended
		_ = s.process.Wait()
	}
	if s.redis != nil {
		s.redis.Stop()
	}
}

// measure loads the process once.
func (s *served) measure(ctx context.Context, program string, duration time.Duration) (*attack, error) {
	before, err := processUse(s.process.Process.Pid)
	if err != nil {
		return nil, err
	}
	measured, err := loadtest(ctx, program, duration, append(s.load,
		"--limit", "100000/720h", "--keys", strconv.Itoa(manyKeys), "--workers", "256"))
	if err != nil {
		return nil, err
	}
	after, err := processUse(s.process.Process.Pid)
	measured.serverCPU = float64((after - before).Microseconds()) / float64(measured.Requests)
	return measured, err
}

// loadtest runs limitctl loadtest, whose requests must all be allowed.
func loadtest(ctx context.Context, program string, duration time.Duration, arguments []string) (*attack, error) {
	arguments = append([]string{"loadtest", "-o", "json", "--duration", duration.String(),
		"--no-fail", "--max-errors", "100%"}, arguments...)
	text, err := exec.CommandContext(ctx, program, arguments...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("limitctl loadtest: %w: %s", err, exit.Stderr)
	}
	var document struct{ Runs []*attack }
	if err := errors.Join(err, json.Unmarshal(text, &document)); err != nil {
		return nil, err
	}
	measured := document.Runs[0]
	if measured.Denied+measured.Errors > 0 {
		return nil, fmt.Errorf("%d requests were denied, and %d failed", measured.Denied, measured.Errors)
	}
	return measured, nil
}

// processUse returns the processor time of a process.
func processUse(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // its name can contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, userErr := strconv.Atoi(fields[11])
	system, systemErr := strconv.Atoi(fields[12])
	const perSecond = 100 // USER_HZ of Linux
	return time.Duration(user+system) * time.Second / perSecond, errors.Join(userErr, systemErr)
}
