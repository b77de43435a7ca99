package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
	"github.com/limitctl/limitctl/internal/sys"
)

const (
	// maxBody bounds a body, in bytes.
	maxBody = 64 << 10
	// firstBody is the initial memory for a body, and mostKept the most that is kept for the next request.
	firstBody = 1 << 10
	mostKept  = 8 << 10
)

// errTooLarge: a body is longer than maxBody.
var errTooLarge = fmt.Errorf("the body is larger than %d bytes", maxBody)

// readBody appends the body of r to b.
func readBody(r *http.Request, b []byte) ([]byte, error) {
	if r.ContentLength > maxBody {
		return b, errTooLarge
	}
	for {
		if len(b) > maxBody {
			return b, errTooLarge
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF && len(b) <= maxBody {
			return b, nil
		}
		if err != nil && err != io.EOF {
			return b, err
		}
	}
}

// refuseBody answers if a body could not be read. It does not wait for the rest.
func (l *listener) refuseBody(w http.ResponseWriter, err error) {
	w.Header().Set("Connection", "close")
	if errors.Is(err, errTooLarge) {
		refusal.Write(w, http.StatusRequestEntityTooLarge, outcome.Usage.Word, err.Error())
		return
	}
	if sys.IsTimeout(err) {
		refusal.Write(w, http.StatusRequestTimeout, outcome.Interrupted.Word, "the body did not arrive in time: "+err.Error())
		return
	}
	refusal.Write(w, http.StatusBadRequest, outcome.Usage.Word, "the body could not be read: "+err.Error())
}
