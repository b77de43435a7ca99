package serve

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/limitctl/limitctl/internal/files"
)

// Address is the address of a listener.
type Address struct {
	network string // tcp or unix
	text    string // HOST:PORT, or the path of a socket
}

// ParseAddress reads HOST:PORT or unix:PATH. The host is required, so that a forgotten word does not open the port
// to every network.
func ParseAddress(text string) (Address, error) {
	if path, is := strings.CutPrefix(text, "unix:"); is {
		if path == "" {
			return Address{}, errors.New("names no socket; write unix:/run/limitctl/http.sock")
		}
		if err := files.CheckSocket(path); err != nil {
			return Address{}, err
		}
		return Address{network: "unix", text: path}, nil
	}
	host, port, err := net.SplitHostPort(text)
	switch {
	case err != nil:
		return Address{}, fmt.Errorf("%q is not HOST:PORT or unix:PATH; write for example 127.0.0.1:8080", text)
	case host == "" || host == "*":
		return Address{}, fmt.Errorf(
			"%q names no host; write 127.0.0.1:%s for this machine only, or 0.0.0.0:%[2]s for every network", text,
			port)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return Address{}, fmt.Errorf("%q has no port from 0 to 65535; write for example %s", text,
			net.JoinHostPort(host, "8080"))
	}
	return Address{network: "tcp", text: text}, nil
}

// String returns the address as it was written.
func (a Address) String() string {
	if a.network == "unix" {
		return "unix:" + a.text
	}
	return a.text
}

// IsLocal reports whether only this machine can reach the address.
func (a Address) IsLocal() bool { return isLocal(a.network, a.text) }

func isLocal(network, address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip, _ := netip.ParseAddr(host)
	return network != "tcp" || host == "localhost" || ip.Unmap().IsLoopback()
}

// listen listens at an address.
func (a Address) listen() (net.Listener, error) {
	listen := files.ListenUnix
	if a.network != "unix" {
		listen = func(text string) (net.Listener, error) { return net.Listen(a.network, text) }
	}
	listener, err := listen(a.text)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use by another program; end that, or choose another address", a)
	case err != nil:
		return nil, fmt.Errorf("cannot listen at %s: %w", a, err)
	}
	return listener, nil
}

// name returns the address of a listener with its actual port.
func name(address net.Addr) string {
	if address.Network() == "unix" {
		return "unix:" + address.String()
	}
	return address.String()
}
