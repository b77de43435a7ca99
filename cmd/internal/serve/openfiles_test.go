package serve

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The listeners keep no more connections than there are files, and no listener uses those of another.
func TestConnectionsFitTheOpenFiles(t *testing.T) {
	own := 64 + 10*runtime.GOMAXPROCS(0)
	for _, test := range []struct {
		name      string
		limit     int // 0 means unknown
		listeners []Listener
		want      []int
		warns     int
	}{
		{"enough", own + 10_256, []Listener{{MaxConnections: 10_000}, {MaxConnections: 256}}, []int{10_000, 256}, 0},
		{"one too few", own + 10_255, []Listener{{MaxConnections: 10_000}, {MaxConnections: 256}}, []int{9_999, 256}, 1},
		{"few", 120, []Listener{{MaxConnections: 10_000}, {MaxConnections: 256}}, []int{45, 45}, 2},
		{"shared by two", own + 2256, []Listener{{MaxConnections: 10_000}, {MaxConnections: 10_000}, {MaxConnections: 256}},
			[]int{1000, 1000, 256}, 2},
		{"nearly none", 3, []Listener{{MaxConnections: 10_000}, {MaxConnections: 10_000}, {MaxConnections: 256}, {MaxConnections: 5}},
			[]int{1, 1, 1, 1}, 4},
		{"not known", 0, []Listener{{MaxConnections: 10_000}}, []int{10_000}, 0},
	} {
		text := new(bytes.Buffer)
		o := &Options{Listeners: test.listeners, Log: slog.New(slog.NewTextHandler(text, nil)),
			openFiles: func() (int, bool) { return test.limit, test.limit > 0 }}
		o.fit()
		var got []int
		for i := range o.Listeners {
			got = append(got, o.Listeners[i].MaxConnections)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v connections, not %v", test.name, got, test.want)
		}
		if n := strings.Count(text.String(), "level=WARN"); n != test.warns {
			t.Errorf("%s: %d warnings:\n%s", test.name, n, text)
		}
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
