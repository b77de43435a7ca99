// Package serve is the server's frame: its listeners, its bounds and times, the authentication of clients, and an
// end that loses no request.
package serve

import (
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
	// Doors are the listeners.
	Doors []Door
	// Health learns when the server begins to drain.
	Health *Health
	// Delay is how long a server that stops still accepts new connections, until balancers send no more. Drain
	// bounds the time of the whole end.
	Delay, Drain time.Duration
	// Refreshes are called every [refreshEvery], and with asked set after each value of Hangups. Each has its own
	// goroutine.
	Refreshes []func(ctx context.Context, asked bool)
	// Background functions are each called once in a goroutine, and return when ctx ends. The end does not wait
	// long for one that hangs.
	Background []func(ctx context.Context)
	// Hangups receives a value when an operator wants files to be read again. It may be nil.
	Hangups <-chan struct{}
	// Ready gets the addresses by the doors' names, once all of them listen.
	Ready func(addresses map[string]string) error
	// Remove removes the file of a socket that an earlier run left.
	Remove func(path string) error
	Events Events
	Log    *slog.Logger
	// listen, if set, replaces the network in tests.
	listen func(Address) (net.Listener, error)
	// openFiles, if set, is the number of files that the process may open, in tests.
	openFiles func() (n int, known bool)
}

// Events are callbacks of the listeners. Each can be nil.
type Events struct {
	// Connections gets each change of the number of a door's open connections.
	Connections func(door string, change int)
	// ConnectionRefused is called for each connection that was closed because too many are open.
	ConnectionRefused func(door string)
}

// Door is a listener and its handler.
type Door struct {
	// Name is the name of the door in logs and metrics.
	Name    string
	Address Address
	// Handler answers HTTP. If it is nil, Server answers another protocol.
	Handler http.Handler
	Server  Server
	// Certificates are for TLS; nil means no TLS.
	Certificates *Certificates
	// Open: clients need neither a token nor a certificate.
	Open bool
	// MaxConnections bounds the open connections. Run lowers it to fit the files of the process.
	MaxConnections int
	// Files is the number of files that a connection keeps open; 0 means 1.
	Files int
	// Patience is the time for a request, from its header to the end of its answer. If it is 0 the handler sets the
	// times; see [patient].
	Patience time.Duration
	// Operators: the door is for operators, and so it closes last. Its idle connections get no time to linger
	// unless Lingers is set.
	Operators, Lingers bool
}

// Server answers the connections of a listener. Serve returns after Shutdown, which waits until all is answered or
// ctx ends. A Server can have a method ConnState, like that of package grpc, to report which of its connections
// have a request under way.
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

// opened is a door that listens.
type opened struct {
	*Door
	connections *connections
	server      Server
	ended       chan struct{}
}

// Run serves until ctx ends, and then until the last request is answered or Drain is over: then it returns a
// [*CutError].
func Run(ctx context.Context, o *Options) error {
	o.fit()
	doors, err := openDoors(o)
	if err != nil {
		return err
	}
	ended := make(chan error, len(doors))
	addresses := map[string]string{}
	for _, door := range doors {
		addresses[door.Name] = name(door.connections.Addr())
		o.Log.Info("listening", "door", door.Name, "address", addresses[door.Name], "tls", door.Certificates != nil)
		if !local(door.connections.Addr()) {
			door.warn(o.Log)
		}
		panics.Go(func() error { defer close(door.ended); return door.serve() }, func(err error) { ended <- err })
	}
	defer func() {
		for _, door := range doors {
			door.server.Close()
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
		return fmt.Errorf("a door has closed by itself: %w", err)
	}
	o.Health.draining.Store(true)
	o.Log.Info("draining", "at_most", o.Drain.String())
	return drain(context.WithoutCancel(ctx), o, doors)
}

// warn logs what a door that the network reaches lacks.
func (d *opened) warn(log *slog.Logger) {
	if d.Certificates == nil {
		log.Warn("the network reaches the door without TLS", "door", d.Name)
	}
	if d.Open {
		log.Warn("anybody who reaches the door may ask, without a token or a certificate", "door", d.Name)
	}
}

// openDoors listens at all doors or at none.
func openDoors(o *Options) (doors []*opened, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, door := range doors {
			door.connections.Close()
		}
		doors = nil
	}()
	for i := range o.Doors {
		door := &o.Doors[i]
		listen := o.listen
		if listen == nil {
			listen = func(a Address) (net.Listener, error) { return a.listen(o.Remove) }
		}
		listener, err := listen(door.Address)
		if err != nil {
			return doors, fmt.Errorf("--%s: %w", door.flag(), err)
		}
		bounded := &connections{Listener: listener, most: door.MaxConnections, tell: func(change int, refused bool) {
			if change != 0 && o.Events.Connections != nil {
				o.Events.Connections(door.Name, change)
			}
			if refused && o.Events.ConnectionRefused != nil {
				o.Events.ConnectionRefused(door.Name)
			}
		}, failed: func(err error) { o.Log.Error("no connection can be accepted", "door", door.Name, "error", err) }}
		server := door.Server
		if server == nil {
			server = door.newHTTP(bounded, o)
		} else if telling, can := server.(interface {
			ConnState(func(net.Conn, http.ConnState))
		}); can {
			telling.ConnState(bounded.changed)
		}
		doors = append(doors, &opened{door, bounded, server, make(chan struct{})})
	}
	return doors, nil
}

// flag returns the flag for the address of the door.
func (d *Door) flag() string {
	if d.Operators || d.Server != nil {
		return d.Name
	}
	return "listen"
}

// newHTTP returns the HTTP server of a door.
func (d *Door) newHTTP(on *connections, o *Options) *http.Server {
	handler := d.Handler
	if d.Patience == 0 {
		handler = patient(handler)
	} else {
		handler = brief(handler, d.Patience)
	}
	return &http.Server{
		Handler:           on.handle(closing(handler, o.Health)),
		ConnContext:       on.context,
		ConnState:         on.changed,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       d.Patience,
		WriteTimeout:      d.Patience,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10,
			SendPingTimeout: idleTime / 4, WriteByteTimeout: headerTime,
		},
		ErrorLog: slog.NewLogLogger(o.Log.With("door", d.Name).Handler(), slog.LevelDebug),
	}
}

// closing hints to clients of a server that drains to use another connection.
func closing(next http.Handler, health *Health) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if health.Draining() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

func (d *opened) serve() error {
	server, isHTTP := d.server.(*http.Server)
	switch {
	case d.Certificates == nil:
		return d.server.Serve(d.connections)
	case isHTTP:
		server.TLSConfig = d.Certificates.Config("h2", "http/1.1")
		return server.ServeTLS(d.connections, "", "")
	}
	return d.server.Serve(d.Certificates.listener(d.connections))
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
