package redistest

import (
	"io"
	"net"
	"sync"
)

// Gate passes connections on to a server, until it is time to shut: what a client has begun then stays half done.
type Gate struct {
	Addr     string          // host:port, where clients connect
	Shut     <-chan struct{} // closed when it has been time
	listener net.Listener
}

// NewGate returns a Gate before a server's address, on the loopback interface. Before it passes on a part of a client's
// requests, it asks isTime, and if so it drops this part and all later ones of the connection. isTime must be safe for
// concurrent use.
func NewGate(server string, isTime func() bool) (*Gate, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	shut := make(chan struct{})
	shutting := sync.OnceFunc(func() { close(shut) })
	pass := func(target, client net.Conn) {
		defer target.Close()
		defer client.Close()
		part := make([]byte, 16<<10) // fewer than the 500 keys that a reset deletes at once
		for {
			n, err := client.Read(part)
			if err != nil {
				return
			}
			if isTime() {
				shutting()
				io.Copy(io.Discard, client) // until it gives up
				return
			}
			target.Write(part[:n])
		}
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			target, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go io.Copy(client, target)
			go pass(target, client)
		}
	}()
	return &Gate{listener.Addr().String(), shut, listener}, nil
}

// Close ends the Gate for new connections.
func (g *Gate) Close() { g.listener.Close() }
