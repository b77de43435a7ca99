//go:build demo

package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// A gate passes on connections to a server. While it is armed, it asks before each part of a client's requests whether
// it is time, and from then on passes nothing more: what the client began stays half done.
type gate struct {
	address  string
	listener net.Listener
	armed    atomic.Pointer[armed]
}

type armed struct {
	isTime func() bool
	shut   chan struct{} // closed when it was time
	once   sync.Once
}

func newGate(server string) (*gate, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gate{address: listener.Addr().String(), listener: listener}
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
			go func() {
				io.Copy(client, target)
				client.Close()
			}()
			go g.pass(target, client)
		}
	}()
	return g, nil
}

func (g *gate) pass(target, client net.Conn) {
	defer target.Close()
	part := make([]byte, 16<<10) // fewer than 500 keys, of which a reset deletes so many at once
	for {
		n, err := client.Read(part)
		if err != nil {
			return
		}
		if a := g.armed.Load(); a != nil && a.isTime() {
			a.once.Do(func() { close(a.shut) })
			io.Copy(io.Discard, client) // until it has ended
			return
		}
		if _, err := target.Write(part[:n]); err != nil {
			return
		}
	}
}

// arm arms the gate, and returns what is closed when it is shut. disarm lets everything through.
func (g *gate) arm(isTime func() bool) (shut <-chan struct{}) {
	a := &armed{isTime: isTime, shut: make(chan struct{})}
	g.armed.Store(a)
	return a.shut
}

func (g *gate) disarm() { g.armed.Store(nil) }

func (g *gate) close() { g.listener.Close() }
