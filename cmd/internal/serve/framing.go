package serve

import (
	"bytes"
	"net/http"
	"strings"
	"sync/atomic"
)

// framing looks in all that a client sends for the fields that say how long a body is. If a request has both, another server
// can believe the other one, and what it takes for the rest of the body is a request here. So such a request is the last one of
// its connection (RFC 9112, section 6.1). net/http goes by Transfer-Encoding, in HTTP/1.0 by Content-Length, and removes the
// other field before a handler can see it. It requires a field's name at the beginning of a line. Fields of other requests
// of the connection count, too, and a line of a body that looks like one: that costs a connection and nothing else.
type framing struct {
	seen atomic.Uint32 // bits of the fields that were sent so far

	// The beginning of the line that the last bytes ended in; only for the goroutine that reads. No field can follow if
	// past is set.
	line [longestField]byte
	n    int
	past bool
}

const (
	lengthField, encodingField = "content-length", "transfer-encoding"
	longestField               = len(encodingField)

	sawLength, sawEncoding = 1, 2
)

// read takes in the next bytes.
func (f *framing) read(p []byte) {
	for len(p) > 0 && f.seen.Load() != sawLength|sawEncoding {
		if f.past {
			end := bytes.IndexByte(p, '\n')
			if end < 0 {
				return
			}
			f.n, f.past, p = 0, false, p[end+1:]
			continue
		}
		next := p[0]
		p = p[1:]
		if next == '\n' {
			f.n = 0
			continue
		}
		f.line[f.n] = next
		f.n++
		switch text := f.line[:f.n]; {
		case f.n == len(lengthField) && strings.EqualFold(string(text), lengthField):
			f.seen.Or(sawLength)
		case f.n == len(encodingField) && strings.EqualFold(string(text), encodingField):
			f.seen.Or(sawEncoding)
		}
		first := next | 0x20
		f.past = f.n == longestField || f.n == 1 && first != lengthField[0] && first != encodingField[0]
	}
}

// hide is for bytes that are encrypted: any request with a body of unknown length can have had both fields.
func (f *framing) hide() { f.seen.Store(sawLength | sawEncoding) }

// isLast reports whether a request can have another length than the one that it was read by.
func (f *framing) isLast(r *http.Request) bool {
	switch {
	case r.ProtoMajor != 1:
		return false
	case r.ProtoAtLeast(1, 1):
		return len(r.TransferEncoding) > 0 && f.seen.Load()&sawLength != 0
	}
	return f.seen.Load()&sawEncoding != 0
}

// lastAnswer is the answer to the last request of a connection.
type lastAnswer struct{ http.ResponseWriter }

// Unwrap is for [http.ResponseController].
func (w *lastAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sets the field that ends the connection: an early answer (1xx) of an upstream has removed it.
func (w *lastAnswer) WriteHeader(status int) {
	if status >= 200 {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}
