package redisserver

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"
)

// failoverAddress is go-redis' address of a client that gets its master from Sentinels.
const failoverAddress = "FailoverClient"

// WatchMaster makes errors name the server to which the client is connected, if it gets that from Sentinels. It
// adds a hook to the client.
func (s *Servers) WatchMaster() {
	if client, ok := s.client.(*redis.Client); ok && s.address == failoverAddress {
		client.AddHook(dialHook{dialled: func(address string) { s.master.Store(&address) }})
	}
}

// dialHook is a [redis.Hook] that gets the address of each connection.
type dialHook struct {
	PassHook
	dialled func(address string)
}

// DialHook implements [redis.Hook].
func (h dialHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err == nil {
			h.dialled(conn.RemoteAddr().String())
		}
		return conn, err
	}
}

// serverAddress names the server or servers in messages.
func (s *Servers) serverAddress() string {
	if address := s.master.Load(); address != nil {
		return s.secrets.Text(*address)
	}
	return s.address
}
