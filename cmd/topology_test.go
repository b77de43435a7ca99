package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/limitctl/limitctl/internal/redistest"
)

// topology is a kind of store that scripts run on.
type topology struct {
	name    string
	store   string                                   // its URL if there are no servers
	launch  func(config ...string) (*servers, error) // nil if there are no servers
	several bool                                     // it has more than one server
}

var topologies = []topology{
	{name: "default"},
	{name: "file", store: "file:limits.db"},
	{name: "single", launch: func(config ...string) (*servers, error) {
		server, err := redistest.Launch(config...)
		if err != nil {
			return nil, err
		}
		all := []*redistest.Process{server}
		return &servers{scheme: "redis", addrs: []string{server.Addr}, all: all, stop: server.Stop,
			masters: func() []*redistest.Process { return all }}, nil
	}},
	{name: "cluster", several: true, launch: func(config ...string) (*servers, error) {
		cluster, err := redistest.LaunchCluster(config...)
		if err != nil {
			return nil, err
		}
		return &servers{scheme: "redis+cluster", addrs: cluster.Addrs(), all: cluster.Masters, stop: cluster.Stop,
			masters: func() []*redistest.Process { return cluster.Masters }}, nil
	}},
	{name: "sentinel", several: true, launch: func(config ...string) (*servers, error) {
		sentinel, err := redistest.LaunchSentinel(config...)
		if err != nil {
			return nil, err
		}
		return &servers{scheme: "redis+sentinel", addrs: sentinel.Addrs(), path: "/" + redistest.MasterName,
			all: sentinel.Servers, stop: sentinel.Stop, sentinel: sentinel,
			masters: func() []*redistest.Process { return []*redistest.Process{sentinel.Master()} }}, nil
	}},
}

// servers are a running topology.
type servers struct {
	scheme, path string
	addrs        []string // as in a store URL
	all          []*redistest.Process
	masters      func() []*redistest.Process
	sentinel     *redistest.Sentinel
	stop         func()
	// hurt: a script did to them what the next one should not find.
	hurt bool
}

func (s *servers) url() string { return s.scheme + "://" + strings.Join(s.addrs, ",") + s.path }

// setVariables tells a script where they are.
func (s *servers) setVariables(set func(name, value string)) {
	set("STORE", s.url())
	set("LIMITCTL_STORE", s.url())
	set("REDIS_SCHEME", s.scheme)
	set("REDIS_ADDR", strings.Join(s.addrs, ","))
	set("REDIS_PATH", s.path)
	set("REDIS_SOCKET", s.all[0].Socket)
	set("REDIS_MASTER", s.masters()[0].Addr)
}

// answersOf runs a command on processes. A master of a Cluster that says that a key is not its own has no answer.
func answersOf(processes []*redistest.Process, password string, words []string) (answers []any, err error) {
	command := make([]any, len(words))
	for i, word := range words {
		command[i] = word
	}
	for _, process := range processes {
		client := redis.NewClient(&redis.Options{
			Network: "unix", Addr: process.Socket, Password: password, DisableIdentity: true,
		})
		defer client.Close()
		answer, err := client.Do(context.Background(), command...).Result()
		switch {
		case redis.HasErrorPrefix(err, "MOVED"):
			continue
		case err != nil && err != redis.Nil:
			return nil, err
		}
		answers = append(answers, answer)
	}
	if len(answers) == 0 {
		return nil, errors.New("nobody answers")
	}
	return answers, nil
}

// printed are answers as one: the sum of numbers, or texts without repetition.
func printed(answers []any) string {
	sum := int64(0)
	for _, answer := range answers {
		n, is := answer.(int64)
		if !is {
			texts := make([]string, len(answers))
			for i := range answers {
				texts[i] = strings.Trim(fmt.Sprint(answers[i]), "[]")
			}
			return strings.Join(slices.Compact(texts), "\n")
		}
		sum += n
	}
	return strconv.FormatInt(sum, 10)
}

// pool lends servers to scripts, which run side by side, and starts no more than are
// needed at once.
type pool struct {
	topology
	mu   sync.Mutex
	idle []*servers
}

func (p *pool) borrow() (*servers, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	return p.launch()
}

// giveBack takes servers back, emptied.
func (p *pool) giveBack(s *servers) {
	if !s.hurt {
		_, err := answersOf(s.masters(), "", []string{"FLUSHALL"})
		s.hurt = err != nil
	}
	if s.hurt {
		s.stop()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, s)
}

func (p *pool) close() {
	for _, s := range p.idle {
		s.stop()
	}
}

// lent is what a script has of a pool.
type lent struct {
	pool *pool
	*servers
}

type lentKey struct{}

// setUp gives a script its store.
func (p *pool) setUp(env *testscript.Env) error {
	l := &lent{pool: p}
	env.Values[lentKey{}] = l
	if p.launch == nil {
		env.Setenv("STORE", p.store)
		env.Setenv("LIMITCTL_STORE", cmp.Or(p.store, unset))
		return nil
	}
	borrowed, err := p.borrow()
	if err != nil {
		return err
	}
	l.servers = borrowed
	env.Defer(func() { p.giveBack(borrowed) })
	borrowed.setVariables(env.Setenv)
	return nil
}

func redisCommand(ts *testscript.TestScript, neg bool, args []string) {
	l := ts.Value(lentKey{}).(*lent)
	if neg || len(args) == 0 || l.servers == nil {
		ts.Fatalf("usage, where there are servers: redis start|pause|resume|kill|do|sentinels|failover")
	}
	what, processes := args[0], l.all
	if what == "sentinels" {
		args, processes = args[1:], l.sentinel.Sentinels
		what = args[0]
	}
	switch what {
	case "start":
		started, err := l.pool.launch(args[1:]...)
		ts.Check(err)
		ts.Defer(started.stop)
		l.servers = started
		started.setVariables(ts.Setenv)
		return
	case "do":
		// Users, configuration, and what there is to count.
		l.hurt = l.hurt || slices.Contains([]string{"ACL", "CONFIG", "SCRIPT", "REPLICAOF"}, args[1])
		if processes[0] == l.all[0] {
			processes = l.masters()
		}
		answers, err := answersOf(processes, ts.Getenv("REDIS_PASSWORD"), args[1:])
		if err != nil {
			ts.Fatalf("%v: %v", args[1:], err)
		}
		fmt.Fprintln(ts.Stdout(), printed(answers))
		return
	case "failover":
		l.hurt = true
		old, err := l.sentinel.KillMaster()
		ts.Check(err)
		ts.Check(l.sentinel.WaitFailover(old))
		return
	}
	l.hurt = true
	if len(args) > 1 {
		i, err := strconv.Atoi(args[1])
		ts.Check(err)
		processes = processes[i : i+1]
	}
	for _, p := range processes {
		switch what {
		case "pause":
			p.Pause()
		case "resume":
			p.Resume()
		case "kill":
			p.Kill()
		default:
			ts.Fatalf("%s: no such command", what)
		}
	}
}
