package grpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
)

// Server answers calls on its listeners until it is shut down.
type Server struct {
	options  Options
	buffered atomic.Int64 // bytes of incomplete requests
	unread   atomic.Int64 // bytes of unwritten answers, when their connections last reported

	mu        sync.Mutex
	listeners []net.Listener
	conns     map[*conn]struct{}
	stopping  bool
	gone      chan struct{} // closed when it is stopping and the last connection has ended
	sweeping  bool
	onState   func(net.Conn, http.ConnState)
}

// New returns a server.
func New(options Options) *Server {
	options.Bounds.setDefaults()
	return &Server{options: options, conns: map[*conn]struct{}{}, gone: make(chan struct{})}
}

// ConnState sets a function that gets each connection as active when it gets its first call, and as idle when it
// has none any more. It is for a listener that bounds its connections. Call it before Serve.
func (s *Server) ConnState(told func(net.Conn, http.ConnState)) { s.onState = told }

// Serve answers the connections of the listener, which it closes at the end. It can be a TLS listener that offers
// the protocol "h2". After Shutdown the error is [http.ErrServerClosed], like that of an HTTP server.
func (s *Server) Serve(listener net.Listener) error {
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return errors.Join(http.ErrServerClosed, listener.Close())
	}
	s.listeners = append(s.listeners, listener)
	if !s.sweeping {
		s.sweeping = true
		panics.Go(s.sweep, s.told)
	}
	s.mu.Unlock()
	defer listener.Close()
	pause := time.Duration(0)
	for {
		accepted, err := listener.Accept()
		if err == nil {
			pause = 0
			s.accept(accepted)
			continue
		}
		s.mu.Lock()
		stopping := s.stopping
		s.mu.Unlock()
		if stopping {
			return http.ErrServerClosed
		}
		// Wait for errors to pass, such as too many open files.
		if temporary, is := errors.AsType[interface {
			error
			Temporary() bool
		}](err); !is || !temporary.Temporary() {
			return err
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		time.Sleep(pause)
	}
}

func (s *Server) accept(accepted net.Conn) {
	c := newConn(s, accepted)
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		accepted.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	panics.Go(c.serve, func(err error) {
		s.told(err)
		c.kill()
		s.forget(c)
	})
}

// refusal returns the status of a call that may not be made, or nil.
func (s *Server) refusal(r *request) *Status {
	if r.refusal != nil || s.options.Admits == nil || s.options.Open[r.path] {
		return r.refusal
	}
	return s.options.Admits(r.authorization)
}

// told passes a panic to OnBug.
func (s *Server) told(err error) {
	if bug, is := errors.AsType[*panics.Error](err); is && s.options.OnBug != nil {
		s.options.OnBug(bug)
	}
}

// ended passes the result of a call to OnEnd and OnCall.
func (c *conn) ended(s *stream, status *Status) {
	code := OK
	if status != nil {
		code = status.Code
	}
	options := &c.server.options
	if options.OnEnd != nil {
		options.OnEnd(code)
	}
	if options.OnCall != nil {
		options.OnCall(&Call{Path: s.path, Code: code, Took: time.Since(s.opened), From: c.net.RemoteAddr(), Caller: s.caller})
	}
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.stopping && len(s.conns) == 0 {
		s.closeGone()
	}
}

func (s *Server) closeGone() {
	select {
	case <-s.gone:
	default:
		close(s.gone)
	}
}

func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// sweep ends what takes too long, until the server has stopped.
func (s *Server) sweep() error {
	ticker := time.NewTicker(s.options.Bounds.Stall / 10)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			for _, c := range s.connections() {
				c.sweep(now)
			}
		case <-s.gone:
			return nil
		}
	}
}

// stop accepts no more connections.
func (s *Server) stop() {
	s.mu.Lock()
	s.stopping = true
	listeners := s.listeners
	if len(s.conns) == 0 {
		s.closeGone()
	}
	s.mu.Unlock()
	for _, listener := range listeners {
		listener.Close()
	}
}

// Shutdown accepts no more connections and calls, and waits for the calls under way. If ctx ends before, it returns
// ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	for _, c := range s.connections() {
		c.drain()
	}
	select {
	case <-s.gone:
		return nil
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Close ends the listeners and all calls.
func (s *Server) Close() error {
	s.stop()
	for _, c := range s.connections() {
		c.kill()
	}
	return nil
}
