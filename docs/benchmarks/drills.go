package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
)

// drill is a fault in one part, and its effect on callers of the other parts.
type drill struct {
	name string
	// counted says which calls are counted.
	counted string
	run     func(length time.Duration, of limiterOn) (outcome, error)
}

// drillServers are the servers for drills. Each drill repairs them at its end.
type drillServers struct {
	single  *redistest.Process
	proxy   *redistest.Proxy
	cluster *redistest.Cluster
	// sick and healthy are keys of the Cluster's first master and of the others.
	sick, healthy []string
}

const (
	drillCallers  = 64
	drillDeadline = 200 * time.Millisecond
	// drillCrowd is the number of callers that wait for a server that hangs, and drillPatience their time-out: all
	// of them must be waiting by then.
	drillCrowd    = 50_000
	drillPatience = 2 * time.Second
)

func launchDrillServers() (s *drillServers, err error) {
	s = &drillServers{}
	if s.single, err = redistest.Launch(); err != nil {
		return nil, err
	}
	if s.proxy, err = redistest.LaunchProxy(s.single.Addr); err == nil {
		s.cluster, err = redistest.LaunchCluster()
	}
	for i := 0; err == nil && len(s.healthy) < 256; i++ {
		key := fmt.Sprintf("user:%d", i)
		var slot, owner int
		if slot, err = s.cluster.SlotOf("{" + key + "}"); err == nil {
			owner, err = s.cluster.Owner(slot)
		}
		switch {
		case err != nil:
		case owner == 0:
			s.sick = append(s.sick, key)
		default:
			s.healthy = append(s.healthy, key)
		}
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *drillServers) stop() {
	s.single.Stop()
	if s.proxy != nil {
		s.proxy.Stop()
	}
	if s.cluster != nil {
		s.cluster.Stop()
	}
}

// on makes a limiter with a client of the single server, or of the proxy before it.
func on(of limiterOn, options redis.Options, hooks ...redis.Hook) (call, func() error, error) {
	options.MaxRetries = -1 // a repeated take may be charged twice
	client := redis.NewClient(&options)
	for _, hook := range hooks {
		client.AddHook(hook)
	}
	call, err := of.on(client)
	return call, client.Close, err
}

// onCluster does the same with a client of the Cluster.
func (s *drillServers) onCluster(of limiterOn, keepsContexts bool) (call, func() error, error) {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: s.cluster.Addrs(), MaxRetries: -1, ContextTimeoutEnabled: keepsContexts,
	})
	call, err := of.on(client)
	return call, client.Close, err
}

// anyKey gives callers different keys.
func anyKey(caller, n int) ([]string, bool) {
	return []string{fmt.Sprintf("user:%d", caller*7+n%7)}, true
}

func (s *drillServers) drills() []drill {
	return []drill{
		{"a master of the Cluster hangs", "keys of the other masters", s.hungMaster},
		{"connections fall silent", "all, from then on", s.silentConnections},
		{"a hook panics at every tenth script", "all", s.panickingHook},
		{"connections are killed 50 times a second", "all", s.connectionStorm},
		{"50,000 callers wait for a hung server", "callers after it", s.manyWaiters(true)},
		{"the same, and the client ignores contexts", "callers after it", s.manyWaiters(false)},
		{"a take over two masters, one of them hung, and the client ignores contexts", "none", s.hungPart},
	}
}

// hungMaster makes every caller use keys of all masters, while one of them hangs.
func (s *drillServers) hungMaster(length time.Duration, of limiterOn) (outcome, error) {
	call, stop, err := s.onCluster(of, true)
	if err != nil {
		return outcome{}, err
	}
	defer stop()
	crew := crew{drillCallers, drillDeadline, func(caller, n int) ([]string, bool) {
		if n += caller; n%3 == 0 {
			return []string{s.sick[n/3%len(s.sick)]}, false
		}
		return []string{s.healthy[n%len(s.healthy)]}, true
	}}
	crew.work(call, length/4) // so that connections exist
	s.cluster.Masters[0].Pause()
	defer s.cluster.Masters[0].Resume()
	return crew.work(call, length), nil
}

func (s *drillServers) silentConnections(length time.Duration, of limiterOn) (outcome, error) {
	call, stop, err := on(of, redis.Options{Addr: s.proxy.Addr, ContextTimeoutEnabled: true})
	if err != nil {
		return outcome{}, err
	}
	defer stop()
	crew := crew{drillCallers, drillDeadline, anyKey}
	crew.work(call, length/4)
	s.proxy.Forget()
	return crew.work(call, length), nil
}

// panickingHook is a hook that panics on script calls. A hook that panics while go-redis sets up a connection can
// leave a lock of that client held for ever, with any limiter.
type panickingHook struct{ calls atomic.Int64 }

func (h *panickingHook) count(cmd redis.Cmder) {
	if strings.HasPrefix(cmd.Name(), "eval") && h.calls.Add(1)%10 == 0 {
		panic("a bug")
	}
}

func (h *panickingHook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *panickingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { h.count(cmd); return next(ctx, cmd) }
}
func (h *panickingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { h.count(cmds[0]); return next(ctx, cmds) }
}

func (s *drillServers) panickingHook(length time.Duration, of limiterOn) (outcome, error) {
	call, stop, err := on(of, redis.Options{Addr: s.single.Addr, ContextTimeoutEnabled: true}, &panickingHook{})
	if err != nil {
		return outcome{}, err
	}
	defer stop()
	return crew{drillCallers, drillDeadline, anyKey}.work(call, length), nil
}

func (s *drillServers) connectionStorm(length time.Duration, of limiterOn) (outcome, error) {
	call, stop, err := on(of, redis.Options{Addr: s.single.Addr, ContextTimeoutEnabled: true})
	if err != nil {
		return outcome{}, err
	}
	defer stop()
	killer := redis.NewClient(&redis.Options{Addr: s.single.Addr})
	defer killer.Close()
	storm, end := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-storm.Done():
				ended <- nil
				return
			case <-ticker.C:
				if err := killer.Do(storm, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil && storm.Err() == nil {
					ended <- err
					return
				}
			}
		}
	}()
	seen := crew{drillCallers, drillDeadline, anyKey}.work(call, length)
	end()
	return seen, <-ended
}

// manyWaiters makes a crowd wait in vain, and counts the answers to callers that come when the server is back.
func (s *drillServers) manyWaiters(keepsContexts bool) func(time.Duration, limiterOn) (outcome, error) {
	return func(length time.Duration, of limiterOn) (outcome, error) {
		call, stop, err := on(of, redis.Options{Addr: s.single.Addr, ContextTimeoutEnabled: keepsContexts})
		if err != nil {
			return outcome{}, err
		}
		defer stop()
		crew := crew{drillCallers, drillDeadline, anyKey}
		crew.work(call, length/4)
		s.single.Pause()
		left := leaveTogether(call, drillCrowd, drillPatience,
			func(caller int) []string { return []string{fmt.Sprintf("user:%d", caller)} })
		s.single.Resume()
		if left.answered > 0 {
			return outcome{}, errors.New("a server that hangs has answered")
		}
		seen := crew.work(call, length)
		seen.overrun = max(seen.overrun, left.overrun)
		return seen, nil
	}
}

// hungPart makes callers take two keys at once; the master of the second hangs.
func (s *drillServers) hungPart(length time.Duration, of limiterOn) (outcome, error) {
	call, stop, err := s.onCluster(of, false)
	if err != nil {
		return outcome{}, err
	}
	defer stop()
	keys := func(caller, n int) ([]string, bool) {
		return []string{s.healthy[(caller+n)%len(s.healthy)], s.sick[(caller+n)%len(s.sick)]}, false
	}
	crew := crew{drillCallers, drillDeadline, keys}
	crew.work(call, length/4)
	s.cluster.Masters[0].Pause()
	defer s.cluster.Masters[0].Resume()
	return crew.work(call, length), nil
}

// drillLength is the shortest time of calls in a drill.
const drillLength = time.Second

func drillsSection(ctx context.Context, p plan, out io.Writer) error {
	servers, err := launchDrillServers()
	if err != nil {
		return err
	}
	defer servers.stop()
	limiters := drilled()
	header := []string{"", "counted"}
	for _, l := range limiters {
		header = append(header, l.name+": answered in time", "failed", "worst overrun")
	}
	rows := [][]string{header}
	for _, d := range servers.drills() {
		progress("drill: %s", d.name)
		row := []string{d.name, d.counted}
		seen := make([][]outcome, len(limiters))
		for range min(p.rounds, 3) {
			for i, l := range limiters {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				o, err := d.run(max(p.duration, drillLength), l)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", d.name, l.name, err)
				}
				seen[i] = append(seen[i], o)
			}
		}
		for i := range limiters {
			row = append(row, medianOf(seen[i], func(o outcome) float64 { return float64(o.answered) }),
				medianOf(seen[i], func(o outcome) float64 { return float64(o.failed) }), worstOf(seen[i]))
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(out, "\n### Drills: one part is sick\n")
	table(out, rows...)
	return nil
}

func medianOf(seen []outcome, value func(outcome) float64) string {
	values := make([]float64, len(seen))
	for i, o := range seen {
		values[i] = value(o)
	}
	return thousands(median(values))
}

func worstOf(seen []outcome) string {
	worst := time.Duration(0)
	for _, o := range seen {
		worst = max(worst, o.overrun)
	}
	return fmt.Sprintf("%d ms", worst.Milliseconds())
}
