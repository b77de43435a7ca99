package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/limitctl/limitctl/internal/redistest"
)

// topology is a kind of store that the scripts run on.
type topology struct {
	name    string
	launch  func(config ...string) (*servers, error) // nil if there are no servers
	several bool                                     // it has more than one server
}

var topologies = []topology{
	{name: "file"},
	{name: "single", launch: func(config ...string) (*servers, error) {
		server, err := redistest.Launch(config...)
		if err != nil {
			return nil, err
		}
		return &servers{
			scheme: "redis", addrs: []string{server.Addr}, all: []*redistest.Process{server},
			masters: func() []*redistest.Process { return []*redistest.Process{server} },
			stop:    server.Stop,
		}, nil
	}},
	{name: "cluster", several: true, launch: func(config ...string) (*servers, error) {
		cluster, err := redistest.LaunchCluster(config...)
		if err != nil {
			return nil, err
		}
		return &servers{
			scheme: "redis+cluster", addrs: cluster.Addrs(), all: cluster.Masters,
			masters: func() []*redistest.Process { return cluster.Masters },
			stop:    cluster.Stop,
		}, nil
	}},
	{name: "sentinel", several: true, launch: func(config ...string) (*servers, error) {
		sentinel, err := redistest.LaunchSentinel(config...)
		if err != nil {
			return nil, err
		}
		return &servers{
			scheme: "redis+sentinel", addrs: sentinel.Addrs(), path: "/" + redistest.MasterName, all: sentinel.Servers,
			masters: func() []*redistest.Process { return []*redistest.Process{sentinel.Master()} },
			stop:    sentinel.Stop,
		}, nil
	}},
}

func topologyNamed(name string) (topology, bool) {
	i := slices.IndexFunc(topologies, func(t topology) bool { return t.name == name })
	if i < 0 {
		return topology{}, false
	}
	return topologies[i], true
}

// servers are a running topology.
type servers struct {
	scheme, path string
	addrs        []string // as in a store URL
	all          []*redistest.Process
	masters      func() []*redistest.Process
	stop         func()
	// hurt: a script did to them what the next one should not find.
	hurt bool
}

func (s *servers) url() string { return s.scheme + "://" + strings.Join(s.addrs, ",") + s.path }

// do runs a command where its key is: the other masters of a Cluster say that it is
// not theirs. All masters answer a command without a key.
func (s *servers) do(password string, words ...string) (any, error) {
	var answers []any
	for _, master := range s.masters() {
		client := redis.NewClient(&redis.Options{Network: "unix", Addr: master.Socket, Password: password, DisableIdentity: true})
		defer client.Close()
		command := make([]any, len(words))
		for i, word := range words {
			command[i] = word
		}
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
		return nil, errors.New("no master answers")
	}
	sum := int64(0)
	for _, answer := range answers {
		n, is := answer.(int64)
		if !is { // the others say the same, or much alike
			texts := make([]string, len(answers))
			for i := range answers {
				texts[i] = strings.Trim(fmt.Sprint(answers[i]), "[]")
			}
			return strings.Join(slices.Compact(texts), "\n"), nil
		}
		sum += n
	}
	return sum, nil
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
		_, err := s.do("", "FLUSHALL")
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

// setUp gives a script its $STORE.
func (p *pool) setUp(env *testscript.Env) error {
	l := &lent{pool: p}
	env.Values[lentKey{}] = l
	if p.launch == nil {
		env.Setenv("STORE", "file:limits.db")
		return nil
	}
	var err error
	if l.servers, err = p.borrow(); err != nil {
		return err
	}
	borrowed := l.servers
	env.Defer(func() { p.giveBack(borrowed) })
	env.Setenv("STORE", l.url())
	return nil
}

func redisCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: redis start|pause|resume|kill|do")
	}
	l := ts.Value(lentKey{}).(*lent)
	if l.servers == nil {
		ts.Fatalf("a file has no servers; the script begins with [file] stop")
	}
	switch args[0] {
	case "start":
		if len(args) > 1 || l.hurt { // others than those that every script can have
			started, err := l.pool.launch(args[1:]...)
			ts.Check(err)
			ts.Defer(started.stop)
			l.servers = started
		}
		ts.Setenv("STORE", l.url())
		ts.Setenv("REDIS", l.url())
		ts.Setenv("REDIS_SCHEME", l.scheme)
		ts.Setenv("REDIS_ADDR", strings.Join(l.addrs, ","))
		ts.Setenv("REDIS_PATH", l.path)
		ts.Setenv("REDIS_SOCKET", l.all[0].Socket)
		ts.Setenv("REDIS_MASTER", l.masters()[0].Addr)
	case "do":
		// Users, configuration, and what there is to count.
		l.hurt = l.hurt || len(args) > 1 && slices.Contains([]string{"ACL", "CONFIG", "SCRIPT"}, args[1])
		answer, err := l.do(ts.Getenv("REDIS_PASSWORD"), args[1:]...)
		if err != nil {
			ts.Fatalf("%v: %v", args[1:], err)
		}
		fmt.Fprintln(ts.Stdout(), answer)
	default:
		l.hurt = true
		all(ts, l.all, args[0])
	}
}
