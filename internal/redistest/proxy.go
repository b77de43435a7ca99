package redistest

import (
	"net"
	"sync"
	"testing"
)

// Proxy passes bytes between clients and a server, and simulates network failures. Otherwise clients and server do
// not notice it.
type Proxy struct {
	Addr     string // host:port
	upstream string
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	fault Fault
	links map[*link]bool
	ended bool
}

// Fault is what a [Proxy] does to its connections. The zero Fault passes everything on.
type Fault struct {
	// Cut, if positive, ends the connection after that many bytes of a reply.
	Cut int
	// Refuse ends connections at once.
	Refuse bool
}

// link is a client's connection and the matching one to the server.
type link struct {
	client, server net.Conn
	silent         bool // it drops everything
}

// StartProxy runs a proxy to the server at an address, until the test ends.
func StartProxy(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	return started(tb, func() (*Proxy, error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		p := &Proxy{Addr: listener.Addr().String(), upstream: upstream, listener: listener, links: map[*link]bool{}}
		p.serving.Go(p.accept)
		return p, nil
	})
}

// Forget makes existing connections silent: they stay open and nothing comes through, as behind a router that has
// lost its table. New ones work.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.silent = true
	}
}

// Suffer replaces the current fault, also for existing connections. Those that a fault has ended or silenced stay
// so.
func (p *Proxy) Suffer(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
	if fault.Refuse {
		for l := range p.links {
			l.close()
		}
	}
}

// Heal ends all faults.
func (p *Proxy) Heal() { p.Suffer(Fault{}) }

// Stop ends all connections and the proxy.
func (p *Proxy) Stop() {
	p.listener.Close()
	p.mu.Lock()
	p.ended = true
	for l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	p.serving.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.upstream)
		if err != nil {
			client.Close()
			continue
		}
		l := &link{client: client, server: server}
		if !p.keep(l) {
			l.close()
			continue
		}
		var ways sync.WaitGroup
		ways.Go(func() { p.pass(l, server, client, false) })
		ways.Go(func() { p.pass(l, client, server, true) })
		p.serving.Go(func() {
			ways.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.links, l)
		})
	}
}

// keep records a link, unless the fault refuses it.
func (p *Proxy) keep(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.fault.Refuse {
		return false
	}
	p.links[l] = true
	return true
}

// pass copies one direction of a link until either side ends, and then ends the other one. A silent link also hides
// an end.
func (p *Proxy) pass(l *link, to, from net.Conn, replies bool) {
	bytes := make([]byte, 64<<10)
	for {
		n, err := from.Read(bytes)
		p.mu.Lock()
		fault, silent := p.fault, l.silent
		p.mu.Unlock()
		some := bytes[:n]
		switch {
		case silent && err != nil:
			return
		case silent:
			continue
		case replies && n > 0 && fault.Cut > 0:
			to.Write(some[:min(n, fault.Cut)])
			l.close()
			return
		}
		if _, failed := to.Write(some); err != nil || failed != nil {
			l.close()
			return
		}
	}
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}
