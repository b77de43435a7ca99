package connect

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The error names a mismatch of TLS between URL and port, for every kind of URL.
func TestPortSpeaksOtherwise(t *testing.T) {
	plain := redistest.Start(t)
	locked := redistest.Start(t, "--requirepass", "hunter2")
	a := newAuthority(t)
	secure := redistest.Start(t, a.serve(t, net.IPv4(127, 0, 0, 1))...)
	watched := redistest.StartSentinel(t)
	for url, want := range map[string]string{
		"rediss://" + plain.Addr:                                       errPlainPort.Error(),
		"rediss://" + locked.Addr:                                      errPlainPort.Error(),
		"rediss+cluster://" + plain.Addr:                               errPlainPort.Error(),
		"redis://" + secure.Addr:                                       errTLSPort.Error(),
		"redis+cluster://" + secure.Addr:                               errTLSPort.Error(),
		"redis+sentinel://" + secure.Addr + "/mymaster":                errTLSPort.Error(),
		"rediss+sentinel://" + watched.Sentinels[0].Addr + "/mymaster": errPlainPort.Error(),
	} {
		_, err := take(url, "user:42", 4*time.Second)
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant an ErrUnavailable that says %q", url, err, want)
		}
	}
	// A silent port is no mismatch.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, scheme := range []string{"redis", "rediss"} {
		_, err := take(scheme+"://"+listener.Addr().String(), "user:42", 500*time.Millisecond)
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "no answer in time") {
			t.Errorf("%s to a silent port: %v", scheme, err)
		}
	}
}
