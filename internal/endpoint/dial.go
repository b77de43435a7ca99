package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// dialed opens connections, and measures the time.
type dialed struct {
	dialer  *net.Dialer
	openMu  sync.Mutex
	connect *hdrhistogram.Histogram
	tls     *hdrhistogram.Histogram
	long    atomic.Int64
}

func newDialed(host string) dialed {
	h := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, time.Hour.Microseconds(), 3) }
	return dialed{dialer: dialer(host), connect: h(), tls: h()}
}

// Openings implements [Connected].
func (d *dialed) Openings() Openings {
	d.openMu.Lock()
	defer d.openMu.Unlock()
	return Openings{
		Count: d.connect.TotalCount(), LongBodies: d.long.Load(),
		Connect: hdrhistogram.Import(d.connect.Export()), TLS: hdrhistogram.Import(d.tls.Export()),
	}
}

// open opens a connection to a target, with TLS if needed. The error is ready for the caller.
func (d *dialed) open(ctx context.Context, t *httpTarget) (net.Conn, error) {
	begin := time.Now()
	conn, err := d.dialer.DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, failed(ctx, connecting, err)
	}
	connected, encrypted := time.Now(), time.Time{}
	if t.tls != nil {
		secure := tls.Client(conn, t.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, failed(ctx, connecting, err)
		}
		conn, encrypted = secure, time.Now()
	}
	d.openMu.Lock()
	defer d.openMu.Unlock()
	recordMicroseconds(d.connect, connected.Sub(begin))
	if !encrypted.IsZero() {
		recordMicroseconds(d.tls, encrypted.Sub(connected))
	}
	return conn, nil
}

// discard reads a body. If it is long, the rest is not read.
func (d *dialed) discard(body io.Reader) (long bool, err error) {
	n, err := io.CopyN(io.Discard, body, maxBody)
	if n == maxBody {
		d.long.Add(1)
		return true, nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return false, err
}

func recordMicroseconds(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max((d+time.Microsecond-1).Microseconds(), 0), h.HighestTrackableValue()))
}
