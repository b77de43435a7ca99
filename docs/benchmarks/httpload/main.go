//go:build linux

// Command httpload sends requests to an HTTP server as fast as it can, or at a rate, over persistent connections,
// and prints the results as JSON. It is one loop over one epoll, so that it takes as little as possible of the
// processors that it shares with the server.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Report is the result of the load.
type Report struct {
	Requests int         `json:"requests"`
	Seconds  float64     `json:"seconds"`
	Statuses map[int]int `json:"statuses"`
	// Quantiles are p50, p99, p99.9 and the longest, in µs: from when a request was due to its answer.
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	CPU  float64 `json:"cpu"` // µs of this process' processors, per request
}

type options struct {
	address, path, body string
	connections, keys   int
	calls               int // of gRPC, under way on each connection; 0 for HTTP
	rate                float64
	duration            time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.address, "address", "127.0.0.1:8080", "of the server")
	flag.StringVar(&o.path, "path", "/v1/consume", "what to post to")
	flag.StringVar(&o.body, "body", `{"key":"{subject}","limits":["100000/720h"]}`, "what to post; {subject} is who asks")
	flag.IntVar(&o.connections, "connections", 256, "how many connections to open")
	flag.IntVar(&o.calls, "grpc", 0, "ask Envoy's rate limit service instead, by so many calls at a time on each connection")
	flag.IntVar(&o.keys, "keys", 100_000, "how many subjects ask in turn")
	flag.Float64Var(&o.rate, "rate", 0, "requests per second; as many as there can be if 0")
	flag.DurationVar(&o.duration, "duration", time.Second, "how long to ask")
	flag.Parse()
	report, err := run(o)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "httpload:", err)
		os.Exit(1)
	}
}

// connection is a connection with at most one request under way.
type connection struct {
	fd   int
	due  time.Time // of the request under way
	data []byte    // of its answer so far
	// For gRPC: its calls by stream, and the next stream.
	calls  map[uint32]*call
	stream uint32
}

type load struct {
	options
	epoll, timer int
	requests     [][]byte
	next         int // the next request
	connections  map[int]*connection
	idle         []*connection
	due          []time.Time // of requests that wait for a connection, or are to be sent
	latencies    []float64   // µs
	statuses     map[int]int
}

func run(o options) (*Report, error) {
	l := &load{options: o, connections: map[int]*connection{}, statuses: map[int]int{}}
	for _, i := range rand.Perm(o.keys) {
		if o.calls > 0 {
			l.requests = append(l.requests, grpcRequest(o.address, fmt.Sprintf("user:%d", i)))
			continue
		}
		body := strings.ReplaceAll(o.body, "{subject}", fmt.Sprintf("user:%d", i))
		l.requests = append(l.requests, fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", o.path, o.address, len(body), body))
	}
	l.latencies = make([]float64, 0, 1<<20)
	if err := l.open(); err != nil {
		return nil, err
	}
	begin, before := time.Now(), ownCPU()
	if err := l.ask(begin); err != nil {
		return nil, err
	}
	return l.report(time.Since(begin), ownCPU()-before), nil
}

// open makes the connections, and the timer for a rate.
func (l *load) open() (err error) {
	if l.epoll, err = unix.EpollCreate1(0); err != nil {
		return err
	}
	var address unix.SockaddrInet4
	if _, err := fmt.Sscanf(l.address, "%d.%d.%d.%d:%d", &address.Addr[0], &address.Addr[1], &address.Addr[2], &address.Addr[3],
		&address.Port); err != nil {
		return fmt.Errorf("-address: %w", err)
	}
	for range l.options.connections {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		err = errors.Join(unix.Connect(fd, &address), unix.SetNonblock(fd, true),
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
			unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
		if err != nil {
			return err
		}
		c := &connection{fd: fd, data: make([]byte, 0, 4096)}
		l.connections[fd] = c
		if l.calls > 0 {
			if err := c.greet(); err != nil {
				return err
			}
		}
		for range max(1, l.calls) {
			l.idle = append(l.idle, c)
		}
	}
	if l.rate == 0 {
		return nil
	}
	const tick = 100 * time.Microsecond // the most by which a request is sent late, which is part of its latency
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK); err != nil {
		return err
	}
	every := unix.Timespec{Nsec: int64(tick)}
	return errors.Join(unix.TimerfdSettime(l.timer, 0, &unix.ItimerSpec{Interval: every, Value: every}, nil),
		unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, l.timer, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(l.timer)}))
}

// ask sends requests until the time is over, and waits for their answers.
func (l *load) ask(begin time.Time) error {
	events := make([]unix.EpollEvent, l.options.connections+1)
	end, give := begin.Add(l.duration), begin.Add(l.duration+10*time.Second)
	arrival := begin
	var eight [8]byte
	for {
		now := time.Now()
		asking := now.Before(end)
		for l.rate > 0 && asking && !arrival.After(now) {
			l.due = append(l.due, arrival)
			arrival = arrival.Add(time.Duration(rand.ExpFloat64() / l.rate * float64(time.Second)))
		}
		for len(l.idle) > 0 && (l.rate == 0 && asking || len(l.due) > 0) {
			if err := l.send(now); err != nil {
				return err
			}
		}
		all := len(l.connections) * max(1, l.calls)
		if !asking && len(l.idle) == all {
			return nil
		}
		if now.After(give) {
			return fmt.Errorf("%d requests have no answer after ten seconds", all-len(l.idle))
		}
		n, err := unix.EpollWait(l.epoll, events, 1000)
		if err != nil && err != unix.EINTR {
			return err
		}
		for _, event := range events[:max(n, 0)] {
			if int(event.Fd) == l.timer && l.rate > 0 {
				_, _ = unix.Read(l.timer, eight[:])
			} else if err := l.receive(l.connections[int(event.Fd)]); err != nil {
				return err
			}
		}
	}
}

// send sends the next request on an idle connection.
func (l *load) send(now time.Time) error {
	last := len(l.idle) - 1
	c := l.idle[last]
	l.idle = l.idle[:last]
	c.due = now
	if l.rate > 0 {
		c.due, l.due = l.due[0], l.due[1:]
	}
	request := l.requests[l.next]
	l.next = (l.next + 1) % len(l.requests)
	var n int
	var err error
	if l.calls > 0 {
		n, err = c.call(request, c.due)
	} else {
		n, err = unix.Write(c.fd, request)
	}
	if err == nil && n < len(request) {
		err = errors.New("a request was sent in part")
	}
	return err
}

// receive reads what has arrived of an answer.
func (l *load) receive(c *connection) error {
	if cap(c.data)-len(c.data) < 1024 {
		c.data = slices.Grow(c.data, 4096)
	}
	n, err := unix.Read(c.fd, c.data[len(c.data):cap(c.data)])
	if err != nil || n == 0 {
		return fmt.Errorf("the server closed a connection: %d, %w", n, err)
	}
	c.data = c.data[:len(c.data)+n]
	if l.calls > 0 {
		return c.receiveFrames(func(due time.Time, status int) { l.answered(c, due, status) })
	}
	status, complete, err := answer(c.data)
	if err != nil || !complete {
		return err
	}
	l.answered(c, c.due, status)
	c.data = c.data[:0]
	return nil
}

// answered records an answer to a request that was due then; c is idle again.
func (l *load) answered(c *connection, due time.Time, status int) {
	l.statuses[status]++
	l.latencies = append(l.latencies, float64(time.Since(due).Nanoseconds())/1000)
	l.idle = append(l.idle, c)
}

// answer reads the status of an HTTP answer, and whether it is complete.
func answer(data []byte) (status int, complete bool, err error) {
	head, rest, found := bytes.Cut(data, []byte("\r\n\r\n"))
	if !found {
		return 0, false, nil
	}
	const beforeLength = "\r\nContent-Length: "
	at := bytes.Index(head, []byte(beforeLength))
	if len(head) < 12 || at < 0 {
		return 0, false, fmt.Errorf("an answer without Content-Length: %q", head)
	}
	length := 0
	for _, digit := range head[at+len(beforeLength):] {
		if digit < '0' || digit > '9' {
			break
		}
		length = 10*length + int(digit-'0')
	}
	status = int(head[9]-'0')*100 + int(head[10]-'0')*10 + int(head[11]-'0')
	return status, len(rest) >= length, nil
}

// ownCPU returns the processor time of this process, in µs.
func ownCPU() float64 {
	var used unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &used) // cannot fail for the own process
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1000
}

func (l *load) report(took time.Duration, cpu float64) *Report {
	slices.Sort(l.latencies)
	at := func(quantile float64) float64 {
		if len(l.latencies) == 0 {
			return 0
		}
		return l.latencies[int(quantile*float64(len(l.latencies)-1))]
	}
	return &Report{Requests: len(l.latencies), Seconds: took.Seconds(), Statuses: l.statuses, P50: at(.5), P99: at(.99), P999: at(.999),
		Max: at(1), CPU: cpu / float64(max(1, len(l.latencies)))}
}
