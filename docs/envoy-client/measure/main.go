// Command measure floods `limitctl serve --grpc` and a server of google.golang.org/grpc, by turns, and prints what honest clients
// still get, as the table of docs/benchmarks/README.md:
//
//	go run ./measure -limitctl ../../bin/limitctl
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/limitctl/limitctl/cmd/envoy-client/floods"
)

const configuration = `
policies:
  wide:
    limits: [{name: all, by: [k], limit: 1000M/1m}]
envoy:
  edge:
    - {policy: wide, entries: {wide: k}}
`

// The honest load and the attack.
const (
	honestConnections, honestCalls = 2, 16
	attackers                      = 4
)

func main() {
	log.SetFlags(0)
	program := flag.String("limitctl", "limitctl", "the `program` to measure")
	rounds := flag.Int("rounds", 3, "how often each cell is measured; the table shows medians")
	duration := flag.Duration("duration", 3*time.Second, "how long each measurement takes, before an attack and during it")
	rate := flag.Int("rate", 50_000, "the bytes a second of each attacker")
	peer := flag.String("peer", "", "be the server of grpc-go at this `address`")
	flag.Parse()
	err := errors.New("there are no arguments")
	switch {
	case flag.NArg() > 0:
	case *peer != "":
		err = servePeer(*peer)
	default:
		err = measure(*program, *rounds, *duration, *rate)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// peerServer answers each call as allowed.
type peerServer struct {
	rlsv3.UnimplementedRateLimitServiceServer
}

// ShouldRateLimit implements the service.
func (peerServer) ShouldRateLimit(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	return &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK,
		Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{{Code: rlsv3.RateLimitResponse_OK, LimitRemaining: 1}}}, nil
}

func servePeer(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxConcurrentStreams(1000))
	rlsv3.RegisterRateLimitServiceServer(server, peerServer{})
	return server.Serve(listener)
}

// served is a server under measurement.
type served struct {
	name, address string
	process       *exec.Cmd
}

func start(name string, command func(address string) []string) (*served, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &served{name: name, address: listener.Addr().String()}
	listener.Close()
	words := command(s.address)
	s.process = exec.Command(words[0], words[1:]...)
	s.process.Stderr = new(bytes.Buffer)
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		if conn, err := net.Dial("tcp", s.address); err == nil {
			return s, conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("%s does not listen: %s", name, s.process.Stderr)
}

func (s *served) stop() {
	s.process.Process.Kill()
	s.process.Wait()
}

// used is the processor time of the server, as Linux counts it.
func (s *served) used() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/PID/stat has %d fields", len(fields))
	}
	user, userErr := strconv.Atoi(fields[11])
	system, systemErr := strconv.Atoi(fields[12])
	const perSecond = 100 // USER_HZ of Linux
	return time.Duration(user+system) * time.Second / perSecond, errors.Join(userErr, systemErr)
}

// figures are what honest clients got.
type figures struct {
	perSecond, p99 float64 // p99 in ms
	failed         int64
	cpu            float64 // of the server, in cores
}

// load calls a server from honest clients for a while.
func (s *served) load(duration time.Duration) (f figures, err error) {
	before, err := s.used()
	if err != nil {
		return f, err
	}
	var all sync.WaitGroup
	var failed atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	request := &rlsv3.RateLimitRequest{Domain: "edge", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "wide", Value: "honest"}}}}}
	begun := time.Now()
	for range honestConnections {
		conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return f, err
		}
		defer conn.Close()
		client := rlsv3.NewRateLimitServiceClient(conn)
		for range honestCalls {
			all.Go(func() {
				var own []time.Duration
				for time.Since(begun) < duration {
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
					sent := time.Now()
					if _, err := client.ShouldRateLimit(ctx, request); err != nil {
						failed.Add(1)
					} else {
						own = append(own, time.Since(sent))
					}
					cancel()
				}
				mu.Lock()
				took = append(took, own...)
				mu.Unlock()
			})
		}
	}
	all.Wait()
	whole := time.Since(begun).Seconds()
	after, err := s.used()
	f = figures{perSecond: float64(len(took)) / whole, failed: failed.Load(), cpu: (after - before).Seconds() / whole}
	if len(took) > 0 {
		slices.Sort(took)
		f.p99 = took[len(took)*99/100].Seconds() * 1000
	}
	return f, err
}

// measured is one cell of a round.
type measured struct {
	before, during figures
	ended          int
}

// attack measures the honest load before a flood and during it.
func (s *served) attack(flood *floods.Flood, duration time.Duration, rate int) (m measured, err error) {
	if m.before, err = s.load(duration); err != nil {
		return m, err
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var ended atomic.Int64
	for range attackers {
		all.Go(func() { ended.Add(int64(flood.Run(ctx, s.address, rate))) })
	}
	m.during, err = s.load(duration)
	stop()
	all.Wait()
	m.ended = int(ended.Load())
	return m, err
}

func measure(program string, rounds int, duration time.Duration, rate int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "floods")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	config := filepath.Join(dir, "limitctl.yaml")
	if err := os.WriteFile(config, []byte(configuration), 0o600); err != nil {
		return err
	}
	fmt.Println("| flood | server | honest calls a second before | during | left | p99 before | p99 during | failed " +
		"| server's cores | ended |")
	fmt.Println("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
	for i := range floods.All {
		flood := &floods.All[i]
		var cells [2][]measured
		names := [2]string{"limitctl", "grpc-go"}
		for round := range rounds {
			for k := range cells {
				which := (k + round) % 2
				m, err := once(which, names[which], self, program, config, flood, duration, rate)
				if err != nil {
					return err
				}
				cells[which] = append(cells[which], m)
				fmt.Fprintf(os.Stderr, "%s, %s: %+v\n", flood.Name, names[which], m)
			}
		}
		for which, name := range names {
			of := func(figure func(m *measured) float64) float64 { return median(cells[which], figure) }
			fmt.Printf("| %s | %s | %.0f | %.0f | **%.0f %%** | %.0f ms | %.0f ms | %.0f | %.2f | %.0f |\n", flood.Name, name,
				of(func(m *measured) float64 { return m.before.perSecond }), of(func(m *measured) float64 { return m.during.perSecond }),
				of(func(m *measured) float64 { return 100 * m.during.perSecond / m.before.perSecond }),
				of(func(m *measured) float64 { return m.before.p99 }), of(func(m *measured) float64 { return m.during.p99 }),
				of(func(m *measured) float64 { return float64(m.during.failed) }),
				of(func(m *measured) float64 { return m.during.cpu }), of(func(m *measured) float64 { return float64(m.ended) }))
		}
	}
	return nil
}

// once measures a new process, so that no attack is felt in the next measurement.
func once(which int, name, self, program, config string, flood *floods.Flood, duration time.Duration, rate int) (m measured, err error) {
	s, err := start(name, func(address string) []string {
		if which == 1 {
			return []string{self, "-peer", address}
		}
		return []string{program, "serve", "--config", config, "--store", "memory:", "--grpc", address, "--listen", "127.0.0.1:0",
			"--admin", "off", "--log-level", "error"}
	})
	if err != nil {
		return m, err
	}
	defer s.stop()
	if _, err := s.load(duration / 3); err != nil { // to warm up
		return m, err
	}
	return s.attack(flood, duration, rate)
}

func median(cells []measured, figure func(m *measured) float64) float64 {
	values := make([]float64, len(cells))
	for i := range cells {
		values[i] = figure(&cells[i])
	}
	slices.Sort(values)
	return values[len(values)/2]
}
