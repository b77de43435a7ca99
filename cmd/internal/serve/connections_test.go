package serve

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// one is a listener of connections that hands out one.
type one struct {
	net.Listener
	conn net.Conn
}

func (l *one) Accept() (net.Conn, error) { return l.conn, nil }
func (l *one) Close() error              { return nil }

// A request that was read counts until somebody begins to answer it, or its connection ends, since net/http drops
// it if it is shut down before.
func TestWhoAsksIsNotIdle(t *testing.T) {
	for name, end := range map[string]func(l *connections, c net.Conn){
		"is answered": func(l *connections, c net.Conn) {
			r := httptest.NewRequest("GET", "/", nil)
			began := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			l.handle(began).ServeHTTP(httptest.NewRecorder(), r.WithContext(l.context(r.Context(), c)))
		},
		"goes away": func(_ *connections, c net.Conn) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			defer there.Close()
			l := &connections{Listener: &one{conn: here}, most: 1, tell: func(int, bool) {}}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			l.stop()
			idle := l.idle()
			isIdle := func() bool {
				select {
				case <-idle:
					return true
				default:
					return false
				}
			}
			if isIdle() {
				t.Error("a new connection does not count")
			}
			l.changed(c, http.StateActive)
			if isIdle() {
				t.Error("a request that nobody answers yet does not count")
			}
			end(l, c)
			if !isIdle() {
				t.Error("there is nobody, and that is not told")
			}
		})
	}
}

// broken is a listener that cannot accept.
type broken struct {
	net.Listener
	err error
}

func (b *broken) Accept() (net.Conn, error) { return nil, b.err }

// A failure to accept is reported once a minute; the end of a listener is no failure.
func TestWhyNothingIsAcceptedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, told := &broken{err: errors.New("too many open files")}, 0
		l := &connections{Listener: inner, most: 1, failed: func(error) { told++ }}
		for second := range 120 {
			if _, err := l.Accept(); !errors.Is(err, inner.err) {
				t.Fatal(err)
			}
			if want := 1 + second/60; told != want {
				t.Fatalf("after %d s it was told %d times, not %d", second, told, want)
			}
			time.Sleep(time.Second)
		}
		inner.err = net.ErrClosed
		if l.Accept(); told != 2 {
			t.Error("the end of a listener is told as an error")
		}
	})
}
