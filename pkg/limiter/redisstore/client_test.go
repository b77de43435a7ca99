package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// atLast takes or peeks until that is answered, and returns the usage: a busy machine may not answer within the default
// time-out.
func atLast(t *testing.T, decide func(context.Context, store.Key, store.Limit, int64) (store.Decision, error)) int64 {
	t.Helper()
	for deadline := time.Now().Add(redistest.Patience); ; {
		d, err := decide(ctx, user, hundred, 1)
		if err == nil {
			return d.Used
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// haveSettings fails unless a client has the settings that fit a limiter.
func haveSettings(t *testing.T, client *redis.Client) {
	t.Helper()
	if o := client.Options(); o.ReadTimeout != redisstore.DefaultTimeout || !o.ContextTimeoutEnabled ||
		o.MaxRetries != 0 ||
		o.DialerRetries != 1 {
		t.Errorf("%+v", o)
	}
}

// A dead server is dialled once, and a frozen one is asked once and given up: without a
// deadline of the caller's own, too.
func TestAClientGivesUpAtOnce(t *testing.T) {
	server := redistest.Start(t)
	var dials atomic.Int64
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	client := redisserver.NewClient(redis.Options{Addr: server.Addr, Dialer: dial}, redisstore.DefaultTimeout)
	haveSettings(t, client)
	limits := storecall.New(newStore(t, client))
	used := atLast(t, limits.Take)
	server.Pause()
	if _, err := limits.Take(ctx, user, hundred, 1); !store.IsAway(err) {
		t.Errorf("frozen: %v", err)
	}
	server.Resume()
	if after := atLast(t, limits.Peek); after > used+1 {
		t.Errorf("one unit was taken twice or more: %d were used before, and %d after", used, after)
	}
	server.Kill()
	before := dials.Load()
	for range 3 { // the first may find its connection dead
		if _, err := limits.Peek(ctx, user, hundred, 1); !store.IsAway(err) ||
			!strings.Contains(err.Error(), server.Addr) {
			t.Errorf("dead: %v, want an error that names %s", err, server.Addr)
		}
	}
	if n := dials.Load() - before; n > 3 {
		t.Errorf("three calls dialled %d times", n)
	}
}

// The nodes of a Cluster have the same settings, as has the master that Sentinels name.
func TestAClusterClientHasTheSettings(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := redisserver.NewClusterClient(redis.ClusterOptions{Addrs: cluster.Addrs()}, redisstore.DefaultTimeout)
	client.OnNewNode(func(node *redis.Client) { haveSettings(t, node) })
	opened, err := redisstore.Open(redis.UniversalOptions{Addrs: cluster.Addrs(), ReadTimeout: redistest.Patience})
	must(t, err)
	if atLast(t, storecall.New(opened).Take); opened.Shard(user) == "" {
		t.Error("of several addresses Open makes no Cluster")
	}
	must(t, opened.Close())
	atLast(t, storecall.New(newStore(t, client)).Take)
	haveSettings(t, redisserver.NewFailoverClient(
		redis.FailoverOptions{MasterName: "m", SentinelAddrs: cluster.Addrs()},
		redisstore.DefaultTimeout))
}

// A Sentinel that answers nonsense ends no process, and is passed over if another one knows the master.
func TestAFailoverClientTakesTheFirstSoundSentinel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "default", "on", ">of-the-master", "~*", "+@all")
	host, port, _ := net.SplitHostPort(server.Addr)
	sentinel := func(answer string) string {
		return redistest.Scripted(t, func(words []string) string {
			switch strings.ToLower(words[0]) {
			case "sentinel":
				return answer
			case "hello":
				return "-ERR unknown command\r\n"
			}
			return "+OK\r\n"
		})
	}
	empty, list := sentinel("*0\r\n"), sentinel("*1\r\n"+redistest.Bulk(host))
	sound := sentinel("*2\r\n" + redistest.Bulk(host) + redistest.Bulk(port))
	for _, c := range []struct {
		addresses []string
		want      error
	}{{[]string{empty, list, sound}, nil}, {[]string{empty, list}, store.ErrRefused}} {
		backend, err := redisstore.Open(
			redis.UniversalOptions{MasterName: "m", Addrs: c.addresses, Password: "of-the-master",
				SentinelPassword: "of-the-sentinel", DialTimeout: redistest.Patience, ReadTimeout: redistest.Patience,
				WriteTimeout: redistest.Patience})
		must(t, err)
		_, err = storecall.New(backend).Take(ctx, user, hundred, 1)
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), "its answer is not an address") {
			t.Errorf("%s: %v, want %v", c.addresses, err, c.want)
		}
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	}
}

func takeOne(backend store.Store) error {
	_, err := storecall.New(backend).Take(ctx, user, hundred, 1)
	return err
}

// A client of the store's own is closed with it, whoever has made it. One that the application has made serves it after
// the store is closed; if that is closed first, the store is no server that is away.
func TestWhoseClientIsClosed(t *testing.T) {
	t.Parallel()
	var conn net.Conn
	options := redis.Options{Addr: redistest.Start(t).Addr,
		Dialer: func(ctx context.Context, network, address string) (_ net.Conn, err error) {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return conn, err
		}}
	opened, err := redisstore.Open(redis.UniversalOptions{Addrs: []string{options.Addr}, Dialer: options.Dialer})
	must(t, err)
	shared := redis.NewClient(&options)
	of, err := redisstore.New(shared, redisstore.WithBudget(redistest.Patience))
	must(t, err)
	for name, backend := range map[string]*redisstore.Store{
		"Open": opened, "Own": newStore(t, redis.NewClient(&options)), "New": of} {
		must(t, takeOne(backend))
		must(t, backend.Close())
		if _, err := conn.Write([]byte("PING\r\n")); errors.Is(err, net.ErrClosed) != (name != "New") {
			t.Errorf("%s: on its connection: %v", name, err)
		}
	}
	client := redis.NewClient(&options)
	last, err := redisstore.New(client)
	must(t, err)
	must(t, errors.Join(shared.Close(), client.Close()))
	if err := takeOne(last); !errors.Is(err, store.ErrClosed) || store.IsAway(err) {
		t.Errorf("on a closed client: %v", err)
	}
}

// A store with a wrong option says so; one in memory, which has no error to make it with, at each call.
func TestStoresWithWrongOptions(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	for _, wrong := range []struct {
		want   string
		memory memorystore.Option
		file   filestore.Option
		redis  redisstore.Option
	}{
		{"option 1 of 1 of the ", nil, nil, nil},
		{"the clock of the ", memorystore.WithClock(nil), filestore.WithClock(nil), redisstore.WithClock(nil)},
		{`prefix "a{b" contains '{'`, memorystore.WithPrefix("a{b"), filestore.WithPrefix("a{b"),
			redisstore.WithPrefix("a{b")},
	} {
		_, memory := storecall.New(memorystore.New(wrong.memory)).Take(ctx, user, hundred, 1)
		_, file := filestore.New("limits.db", wrong.file)
		_, inRedis := redisstore.New(client, wrong.redis)
		for i, err := range []error{memory, file, inRedis} {
			if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), wrong.want) {
				t.Errorf("store %d: %v; want %q", i, err, wrong.want)
			}
		}
	}
}
