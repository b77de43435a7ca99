package serve

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Times of requests whose bodies can have any length.
const (
	// clientDelay is the most time that a client can keep the server waiting, in all.
	clientDelay = 30 * time.Second
	// slowest is the rate, in bytes a second, at which a client causes no delay.
	slowest = 1 << 10
	// leftover is how long the server waits for the rest of a body after the answer, if nobody needs it. Until then
	// its connection makes no room for others.
	leftover = 2 * time.Second
)

// boundRest bounds the time for the rest of a body that the answer did not need, within the time of the whole request.
func boundRest(next http.Handler, whole time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			begun := time.Now()
			defer func() {
				left := min(leftover, whole-time.Since(begun))
				http.NewResponseController(w).SetReadDeadline(time.Now().Add(left))
			}()
		}
		next.ServeHTTP(w, r)
	})
}

// boundProgress sets the times of requests whose bodies can have any length. A client may take at most 30 seconds
// more than its bytes would take at 1 KiB a second. Only the time in which the server waits for the client counts.
func boundProgress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		body := &timedBody{ReadCloser: r.Body, ended: r.Body == http.NoBody,
			time: clientTime{clientDelay, control.SetReadDeadline}}
		if !body.ended {
			r.Body = body
		}
		defer func() { // the rest of the body, and of the answer
			left := leftover
			if body.wanted {
				left = body.time.left
			}
			control.SetReadDeadline(time.Now().Add(left))
			control.SetWriteDeadline(time.Now().Add(clientDelay))
		}()
		next.ServeHTTP(&timedWriter{ResponseWriter: w, control: control, time: clientTime{clientDelay, control.SetWriteDeadline}}, r)
	})
}

// clientTime is the time that a client can still keep the server waiting, in one direction.
type clientTime struct {
	left time.Duration
	set  func(deadline time.Time) error
}

// spend waits for the client in exchange, and counts the time and the bytes.
func (t *clientTime) spend(exchange func() (n int, err error)) (n int, err error) {
	begun := time.Now()
	t.set(begun.Add(t.left))
	n, err = exchange()
	t.left = min(clientDelay, t.left-time.Since(begun)+time.Duration(n)*time.Second/slowest)
	return n, err
}

// timedBody is the body of a request.
type timedBody struct {
	io.ReadCloser
	time   clientTime
	wanted bool // somebody has begun to read it
	// ended: from now on net/http reads, to notice that the client leaves, and waits without a bound.
	ended bool
}

func (b *timedBody) Read(p []byte) (n int, err error) {
	if b.ended {
		return b.ReadCloser.Read(p)
	}
	b.wanted = true
	n, err = b.time.spend(func() (int, error) { return b.ReadCloser.Read(p) })
	b.ended = errors.Is(err, io.EOF)
	return n, err
}

// timedWriter is the answer to a request.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	time    clientTime
}

// Unwrap is for [http.ResponseController].
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *timedWriter) Write(p []byte) (n int, err error) {
	return w.time.spend(func() (int, error) { return w.ResponseWriter.Write(p) })
}

// FlushError sends what was written.
func (w *timedWriter) FlushError() error {
	_, err := w.time.spend(func() (int, error) { return 0, w.control.Flush() })
	return err
}
