package serve

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Times of requests whose bodies can have any length.
const (
	// patience is how long a client may send or read nothing, in all.
	patience = 30 * time.Second
	// slowest is the rate, in bytes a second, at which a client uses up no patience.
	slowest = 1 << 10
	// leftover is how long the server waits for the rest of a body after the answer, if nobody needs it. Until then
	// its connection makes no room for others.
	leftover = 2 * time.Second
)

// brief bounds the time for the rest of a body that the answer did not need, within the time of the whole request.
func brief(next http.Handler, whole time.Duration) http.Handler {
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

// patient sets the times of requests whose bodies can have any length. A client may take at most 30 seconds more
// than its bytes would take at 1 KiB a second. Only the time in which the server waits for the client counts.
func patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		body := &patientBody{ReadCloser: r.Body, control: control, left: patience, ended: r.Body == http.NoBody}
		if !body.ended {
			r.Body = body
		}
		defer func() { // the rest of the body, and of the answer
			if !body.wanted {
				body.left = leftover
			}
			control.SetReadDeadline(time.Now().Add(body.left))
			control.SetWriteDeadline(time.Now().Add(patience))
		}()
		next.ServeHTTP(&patientWriter{ResponseWriter: w, control: control, left: patience}, r)
	})
}

// spent returns the remaining patience after n bytes in a time.
func spent(left, took time.Duration, n int) time.Duration {
	return min(patience, left-took+time.Duration(n)*time.Second/slowest)
}

// patientBody is the body of a request.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
	left    time.Duration
	wanted  bool // somebody has begun to read it
	// ended: from now on net/http reads, to notice that the client leaves, and waits without a bound.
	ended bool
}

func (b *patientBody) Read(p []byte) (n int, err error) {
	if b.ended {
		return b.ReadCloser.Read(p)
	}
	b.wanted = true
	begun := time.Now()
	b.control.SetReadDeadline(begun.Add(b.left))
	n, err = b.ReadCloser.Read(p)
	b.left = spent(b.left, time.Since(begun), n)
	b.ended = errors.Is(err, io.EOF)
	return n, err
}

// patientWriter is the answer to a request.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	left    time.Duration
}

// Unwrap is for [http.ResponseController].
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *patientWriter) Write(p []byte) (n int, err error) {
	begun := time.Now()
	w.control.SetWriteDeadline(begun.Add(w.left))
	n, err = w.ResponseWriter.Write(p)
	w.left = spent(w.left, time.Since(begun), n)
	return n, err
}

// FlushError sends what was written.
func (w *patientWriter) FlushError() error {
	begun := time.Now()
	w.control.SetWriteDeadline(begun.Add(w.left))
	err := w.control.Flush()
	w.left = spent(w.left, time.Since(begun), 0)
	return err
}
