package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy passes bytes between clients and a server, and does to them what networks do when
// they fail. Clients and server do not notice it otherwise.
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

// Fault is what a [Proxy] does to the connections that go through it. The zero Fault
// passes everything on.
type Fault struct {
	// Delay is how much later each reply comes.
	Delay time.Duration
	// Drop: no reply comes. The server gets the commands.
	Drop bool
	// Cut, if positive, is after how many bytes of a reply the connection ends.
	Cut int
	// Refuse: connections end at once, before anything is passed on.
	Refuse bool
}

// link is a client's connection and the one to the server behind it.
type link struct {
	client, server net.Conn
	silent         bool // it swallows everything
}

// LaunchProxy runs a proxy to the server at an address, until Stop.
func LaunchProxy(upstream string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: listener.Addr().String(), upstream: upstream, listener: listener, links: map[*link]bool{}}
	p.serving.Go(p.accept)
	return p, nil
}

// StartProxy runs a proxy until the test ends; see [LaunchProxy].
func StartProxy(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	return started(tb, func() (*Proxy, error) { return LaunchProxy(upstream) })
}

// Forget makes the connections that there are silent: they stay open, and nothing comes
// out of them any more, as behind a router that has lost its table. New ones work.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.silent = true
	}
}

// Suffer begins a fault, in place of the last. The connections that there are get it,
// too. Those that one ended, or silenced, stay so.
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

// keep remembers a link, unless it is not to be.
func (p *Proxy) keep(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.fault.Refuse {
		return false
	}
	p.links[l] = true
	return true
}

// pass copies one way of a link until either side ends, which ends the other one. A
// silent link swallows an end, too.
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
		case replies && n > 0 && fault.Drop:
			some = nil
		case replies && n > 0 && fault.Cut > 0:
			to.Write(some[:min(n, fault.Cut)])
			l.close()
			return
		case replies && n > 0 && fault.Delay > 0:
			time.Sleep(fault.Delay)
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
