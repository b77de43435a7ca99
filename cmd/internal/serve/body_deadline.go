package serve

import (
	"net/http"
	"time"
)

// leftover is how long the server waits for the rest of a body after the answer, if nobody needs it. Until then its
// connection makes no room for others.
const leftover = 2 * time.Second

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
