// Package serve is the server's frame: its listeners, its bounds and times, the authentication of clients, and an
// end that loses no request.
package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
)

// Options say where the server listens and what it answers there.
type Options struct {
	Listeners []Listener
	// Health learns when the server begins to drain.
	Health *Health
	// Delay is how long a server that stops still accepts new connections, until balancers send no more. Drain
	// bounds the time of the whole end.
	Delay, Drain time.Duration
	// Background functions are each called once in a goroutine, and return when ctx ends. The end does not wait
	// long for one that hangs.
	Background []func(ctx context.Context)
	// Ready gets the addresses by the listeners' names, once all of them are open.
	Ready func(addresses map[string]string) error
	// Connections gets each change of the number of a listener's open connections, and ConnectionRefused each that was
	// closed because too many are open.
	Connections       func(listener string, change int)
	ConnectionRefused func(listener string)
	Log               *slog.Logger
	// listen, if set, replaces the network in tests.
	listen func(Address) (net.Listener, error)
}

// Listener is an address of the server, and what answers there.
type Listener struct {
	// Name is the name of the listener in logs and metrics.
	Name    string
	Address Address
	// Handler answers HTTP. If it is nil, Server answers another protocol.
	Handler http.Handler
	Server  Server
	// Certificates are for TLS; nil means no TLS.
	Certificates *Certificates
	// Open: clients need neither a token nor a certificate.
	Open bool
	// MaxConnections bounds the open connections.
	MaxConnections int
	// RequestTime is the time for a request, from its header to the end of its answer.
	RequestTime time.Duration
	// Operators: the listener is for operators, and so it closes last. Its idle connections get no time to linger.
	Operators bool
}

// Server answers the connections of a listener. Serve returns after Shutdown, which waits until all is answered or
// ctx ends. A Server can have a method ConnState, like that of package envoy, to report which of its connections have
// a request under way.
type Server interface {
	Serve(net.Listener) error
	Shutdown(ctx context.Context) error
	// Close ends the rest.
	Close() error
}

// Times and sizes that bound every connection.
const (
	// headerTime is how long a client may take to send the header of a request.
	headerTime = 10 * time.Second
	// idleTime is how long a connection may stay open between two requests. Balancers close theirs after a minute;
	// the side that closes first loses no request.
	idleTime = 2 * time.Minute
	// maxHeader is the most bytes of the header of a request.
	maxHeader = 64 << 10
	// maxStreams is the most requests at a time on one HTTP/2 connection.
	maxStreams = 250
)

// refreshEvery is the time between two readings of files: a change must be in force within a second.
const refreshEvery = 500 * time.Millisecond

// opened is a listener that is open.
type opened struct {
	*Listener
	connections *connections
	server      Server
	ended       chan struct{}
}

// Run serves until ctx ends, and then until the last request is answered or Drain is over: then it returns an
// [ErrCut].
func Run(ctx context.Context, o *Options) error {
	listeners, err := openListeners(o)
	if err != nil {
		return err
	}
	ended := make(chan error, len(listeners))
	addresses := map[string]string{}
	for _, listener := range listeners {
		addresses[listener.Name] = name(listener.connections.Addr())
		o.Log.Info("listening", "door", listener.Name, "address", addresses[listener.Name], "tls",
			listener.Certificates != nil)
		if addr := listener.connections.Addr(); !isLocal(addr.Network(), addr.String()) {
			for _, lacks := range listener.Lacks() {
				o.Log.Warn(lacks, "door", listener.Name)
			}
		}
		panics.Go(func() error { defer close(listener.ended); return listener.serve() }, func(err error) {
			ended <- err
		})
	}
	defer func() {
		for _, listener := range listeners {
			listener.server.Close()
		}
	}()
	defer o.background(ctx)()
	if o.Ready != nil {
		if err := o.Ready(addresses); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
	case err := <-ended:
		return fmt.Errorf("a listener has closed by itself: %w", err)
	}
	o.Health.draining.Store(true)
	o.Log.Info("draining", "at_most", o.Drain.String())
	return drain(context.WithoutCancel(ctx), o, listeners)
}

// Lacks returns what the listener lacks if the network reaches it.
func (l *Listener) Lacks() (lacks []string) {
	if l.Certificates == nil {
		lacks = append(lacks, "the network reaches the listener without TLS")
	}
	if l.Open {
		lacks = append(lacks, "anybody who reaches the listener can call it, without an access token or a certificate")
	}
	return lacks
}

// openListeners opens all listeners or none.
func openListeners(o *Options) (listeners []*opened, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, listener := range listeners {
			listener.connections.Close()
		}
		listeners = nil
	}()
	for i := range o.Listeners {
		listener := &o.Listeners[i]
		listen := o.listen
		if listen == nil {
			listen = Address.listen
		}
		socket, err := listen(listener.Address)
		if err != nil {
			return listeners, fmt.Errorf(
				"--%s: %w", cmp.Or(map[string]string{"http": "listen"}[listener.Name], listener.Name), err)
		}
		bounded := &connections{
			Listener: socket, most: listener.MaxConnections,
			tell: func(change int, refused bool) {
				o.Connections(listener.Name, change)
				if refused {
					o.ConnectionRefused(listener.Name)
				}
			},
			failed: func(err error) {
				o.Log.Error("no connection can be accepted", "door", listener.Name, "error", err)
			},
		}
		server := listener.Server
		if server == nil {
			server = listener.newHTTP(bounded, o)
		} else if telling, can := server.(interface {
			ConnState(func(net.Conn, http.ConnState))
		}); can {
			telling.ConnState(bounded.changed)
		}
		listeners = append(listeners, &opened{listener, bounded, server, make(chan struct{})})
	}
	return listeners, nil
}

// newHTTP returns the HTTP server of a listener.
func (l *Listener) newHTTP(on *connections, o *Options) *http.Server {
	return &http.Server{
		Handler: on.handle(l.Handler, o.Health),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, connOf(c))
		},
		ConnState:         on.changed,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       l.RequestTime,
		WriteTimeout:      l.RequestTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: 1 << 20,
			MaxReceiveBufferPerStream: 256 << 10,
			SendPingTimeout:           idleTime / 4, WriteByteTimeout: headerTime,
		},
		ErrorLog: slog.NewLogLogger(o.Log.With("door", l.Name).Handler(), slog.LevelDebug),
	}
}

func (l *opened) serve() error {
	server, isHTTP := l.server.(*http.Server)
	switch {
	case l.Certificates == nil:
		return l.server.Serve(l.connections)
	case isHTTP:
		server.TLSConfig = l.Certificates.Config("h2", "http/1.1")
		return server.ServeTLS(l.connections, "", "")
	}
	return l.server.Serve(l.Certificates.listener(l.connections))
}

// spareHeap is how much more garbage the server makes before a collection.
const spareHeap = 32 << 20 // bytes

// SpareHeap makes garbage collections less frequent, until release is called. Go collects when the heap has
// doubled. The heap of a server is a few MiB, and under load it doubles hundreds of times a second, which costs a
// fifth of the processors' time. A block of memory that is never written counts as heap but takes no room, since
// the system gives it no pages. A large heap still at most doubles, so memory stays bounded, which a higher GOGC
// would not ensure. If the operator has set GOMEMLIMIT, nothing changes, since the block would count towards it.
func SpareHeap() (release func()) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return func() {}
	}
	block := make([]byte, spareHeap)
	return func() { runtime.KeepAlive(block) }
}
