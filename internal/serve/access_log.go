package serve

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// bearerKey is the key of a *bearer in the context of a request.
type bearerKey struct{}

// bearer is the name of the access token of a request, once that is known.
type bearer struct{ name string }

// noteBearer notes the name of a request's access token for the access log, if there is one.
func noteBearer(ctx context.Context, name string) {
	if b, is := ctx.Value(bearerKey{}).(*bearer); is {
		b.name = name
	}
}

// AccessLog writes a line for each request of a listener, or for each gRPC call. It names the access token by its name, and holds
// no query, since that can be a secret.
type AccessLog struct {
	Log      *slog.Logger
	Listener string
}

// Wrap prepares the requests to the next handler for the log.
func (l *AccessLog) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), bearerKey{}, new(bearer))))
	})
}

// Answered writes the line of a request that was prepared and then answered with a status.
func (l *AccessLog) Answered(r *http.Request, status int, took time.Duration) {
	token := ""
	if b, is := r.Context().Value(bearerKey{}).(*bearer); is {
		token = b.name
	}
	l.write(r.Method, r.URL.Path, status, took, r.RemoteAddr, token)
}

// Called writes the line of a gRPC call that has ended with that code. token is the name of its access token, empty for none.
func (l *AccessLog) Called(path, code string, took time.Duration, from, token string) {
	l.write(http.MethodPost, path, code, took, from, token)
}

func (l *AccessLog) write(method, path string, status any, took time.Duration, from, token string) {
	args := []any{"door", l.Listener, "method", method, "path", path, "status", status, "took", took, "from", from}
	if token != "" {
		args = append(args, "token", token)
	}
	l.Log.Info("request", args...)
}
