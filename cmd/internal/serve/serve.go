// Package serve is the server: its listeners, from the first request to the last.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
)

// Options say where the server listens and what it answers there.
type Options struct {
	// Doors are the handlers by the address that each listens on.
	Doors []Door
	// Drain is how long requests may take to end once the server is to stop.
	Drain time.Duration
	Log   *slog.Logger
}

// Door is an address and what is answered there.
type Door struct {
	Name    string
	Address string
	Handler http.Handler
}

// Run serves until ctx ends, and then until the last request is answered or Drain is over.
func Run(ctx context.Context, options Options) error {
	ended := make(chan error, len(options.Doors))
	var servers []*http.Server
	for _, door := range options.Doors {
		listener, err := net.Listen("tcp", door.Address)
		if err != nil {
			return fmt.Errorf("%s: %w", door.Name, err)
		}
		server := &http.Server{Handler: door.Handler, ReadHeaderTimeout: 10 * time.Second}
		servers = append(servers, server)
		options.Log.Info("listening", "door", door.Name, "address", listener.Addr().String())
		panics.Go(func() error { return server.Serve(listener) }, func(err error) { ended <- err })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), options.Drain)
	defer cancel()
	for _, server := range servers {
		err = errors.Join(err, server.Shutdown(drain))
	}
	return err
}
