package redisstore_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func takeOne(backend store.Store) error {
	_, err := storecall.New(backend).Take(ctx, user, hundred, 1)
	return err
}

// A client that the application has made serves it after the store is closed, and other stores, too.
func TestTheApplicationsClientStaysOpen(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	var stores [2]*redisstore.Store
	for i := range stores {
		var err error
		if stores[i], err = redisstore.New(client); err != nil {
			t.Fatal(err)
		}
		must(t, takeOne(stores[i]))
	}
	must(t, stores[0].Close())
	if err := takeOne(stores[0]); !errors.Is(err, store.ErrClosed) {
		t.Errorf("the closed store answers %v", err)
	}
	if err := errors.Join(client.Ping(ctx).Err(), takeOne(stores[1])); err != nil {
		t.Errorf("with the client of a closed store: %v", err)
	}
	// Its owner may close it first. The store then is no server that is away.
	must(t, client.Close())
	if err := takeOne(stores[1]); !errors.Is(err, store.ErrClosed) || store.IsAway(err) {
		t.Errorf("on a closed client: %v", err)
	}
	if err := stores[1].Close(); err != nil {
		t.Error(err)
	}
}

// A client of the store's own is closed with it, whoever has made it.
func TestAnOwnClientIsClosedWithTheStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var conn net.Conn
	options := redis.Options{Addr: server.Addr, Dialer: func(ctx context.Context, network, address string) (_ net.Conn, err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return conn, err
	}}
	for name, open := range map[string]func() (*redisstore.Store, error){
		"Open": func() (*redisstore.Store, error) { return redisstore.Open(options) },
		"Own":  func() (*redisstore.Store, error) { return redisstore.Own(redis.NewClient(&options)) },
	} {
		backend, err := open()
		must(t, err)
		must(t, takeOne(backend))
		for range 2 {
			if err := backend.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := conn.Write([]byte("PING\r\n")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: its connection is open: %v", name, err)
		}
		if err := takeOne(backend); !errors.Is(err, store.ErrClosed) || store.IsAway(err) {
			t.Errorf("%s: once closed: %v", name, err)
		}
	}
}

func TestWhatNoStoreIsMadeOn(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]redis.UniversalClient{"nil": nil, "a nil client": (*redis.Client)(nil),
		"a nil client of a Cluster": (*redis.ClusterClient)(nil), "a nil ring": (*redis.Ring)(nil)} {
		for how, open := range map[string]func(redis.UniversalClient, ...redisstore.Option) (*redisstore.Store, error){
			"New": redisstore.New, "Own": redisstore.Own} {
			if backend, err := open(client); backend != nil || !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%s on %s: %v, %v", how, name, backend, err)
			}
		}
	}
	if backend, err := redisstore.Open(redis.Options{}, redisstore.WithPrefix("a b{")); backend != nil ||
		!errors.Is(err, store.ErrInvalid) {
		t.Errorf("with an unfit prefix: %v, %v", backend, err)
	}
}
