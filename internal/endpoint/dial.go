package endpoint

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// newTimes returns an empty histogram of times in microseconds.
func newTimes() *hdrhistogram.Histogram { return hdrhistogram.New(1, time.Hour.Microseconds(), 3) }

// Openings implements [Client].
func (t *httpTarget) Openings() Openings {
	t.openMu.Lock()
	defer t.openMu.Unlock()
	return Openings{Count: t.connects.TotalCount(), LongBodies: t.long.Load(), Connect: hdrhistogram.Import(
		t.connects.Export()),
		TLS: hdrhistogram.Import(t.handshakes.Export())}
}

// open opens a connection, with TLS if needed, and measures the time. The error is ready for the caller.
func (t *httpTarget) open(ctx context.Context) (net.Conn, error) {
	begin := time.Now()
	record := func(h *hdrhistogram.Histogram, d time.Duration) {
		t.openMu.Lock()
		defer t.openMu.Unlock()
		_ = h.RecordValue(min(max((d+time.Microsecond-1).Microseconds(), 0), h.HighestTrackableValue()))
	}
	conn, err := t.dialer.DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, failed(ctx, connecting, err)
	}
	connected := time.Now()
	if t.tls != nil {
		secure := tls.Client(conn, t.tls)
		if err = secure.HandshakeContext(ctx); err == nil && t.speaksHTTP2() &&
			secure.ConnectionState().NegotiatedProtocol != "h2" {
			err = errNoHTTP2
		}
		if err != nil {
			conn.Close()
			return nil, failed(ctx, connecting, err)
		}
		conn = secure
		record(t.handshakes, time.Since(connected))
	}
	record(t.connects, connected.Sub(begin))
	return conn, nil
}

// discard reads a body. If it is long, the rest is not read.
func (t *httpTarget) discard(body io.Reader) (long bool, err error) {
	n, err := io.CopyN(io.Discard, body, maxBody)
	if n == maxBody {
		t.long.Add(1)
		return true, nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return false, err
}

// TestHostFlag is the flag that permits a host beyond loopback.
const TestHostFlag = "i-may-test-this-host"

// checkHost returns a [store.ErrInvalid] if the host of a URL is neither loopback nor permitted.
//
// Loopback is localhost and the addresses of this machine in their usual form. Another name is not loopback, even
// if it resolves to this machine: its owner can change that at any time. For the same reason [dialer] checks the
// address of localhost.
func checkHost(target *url.URL, permitted []string) error {
	host := target.Hostname()
	// Texts with the host are safe to paste.
	const characters = "abcdefghijklmnopqrstuvwxyz0123456789-._:%"
	if strings.Trim(host, characters+strings.ToUpper(characters)) != "" {
		return store.Invalidf("the host %q has a character that no host has; write it in its ASCII form", host)
	}
	if isLoopback(host) || slices.ContainsFunc(
		permitted, func(one string) bool { return plainHost(one) == plainHost(host) }) {
		return nil
	}
	return store.Invalidf("%s is not on this machine; if you may send it such requests, add --%s %s", host,
		TestHostFlag, host)
}

// plainHost returns a host for comparison: in lower case, without brackets and a dot at the end.
func plainHost(host string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

func isLoopback(host string) bool {
	if plainHost(host) == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.WithZone("").Unmap().IsLoopback()
}

// dialer returns a dialer for a host that [checkHost] accepted. For loopback it refuses other addresses, whatever
// localhost resolves to.
func dialer(host string) *net.Dialer {
	d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: false}}
	if isLoopback(host) {
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || !to.Addr().WithZone("").Unmap().IsLoopback() {
				return store.Invalidf("%s leads to %s, which is not on this machine", host, address)
			}
			return nil
		}
	}
	return d
}

// unlimited is the time bound of a request that has no other.
const unlimited = 30 * time.Second

func (t *httpTarget) timeout() time.Duration { return cmp.Or(max(t.Timeout, 0), unlimited) }

// bounded returns a context that has a deadline.
func (t *httpTarget) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, is := ctx.Deadline(); is {
		return ctx, func() {}
	}
	return store.BudgetContext(ctx, t.timeout())
}
