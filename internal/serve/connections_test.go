package serve

import (
	"errors"
	"net"
	"testing"
)

// broken is a listener that cannot accept.
type broken struct {
	net.Listener
	err error
}

func (b *broken) Accept() (net.Conn, error) { return nil, b.err }

// A failure to accept is reported; the end of a listener is no failure.
func TestWhyNothingIsAcceptedIsTold(t *testing.T) {
	inner, told := &broken{err: errors.New("too many open files")}, 0
	l := &connections{Listener: inner, most: 1, failed: func(error) { told++ }}
	if _, err := l.Accept(); !errors.Is(err, inner.err) || told != 1 {
		t.Errorf("%v was told %d times", err, told)
	}
	inner.err = net.ErrClosed
	if l.Accept(); told != 1 {
		t.Error("the end of a listener is told as an error")
	}
}
