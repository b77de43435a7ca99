package serve

import (
	"log/slog"
	"net/http"
	"time"
)

// AccessLog writes a line for each request of a listener, or for each gRPC call. It names the access token by its name, and holds
// no query, since that can be a secret.
type AccessLog struct {
	Log      *slog.Logger
	Listener string
	Tokens   *AccessTokens // nil for none
}

// Begin notes a request before its handler removes the token. The returned function writes its line.
func (l *AccessLog) Begin(r *http.Request) (answered func(status int, took time.Duration)) {
	token := ""
	if l.Tokens != nil {
		if found, _ := l.Tokens.of(r); found != nil {
			token = found.name
		}
	}
	return func(status int, took time.Duration) { l.write(r.Method, r.URL.Path, status, took, r.RemoteAddr, token) }
}

// Called writes the line of a gRPC call that has ended with that code. authorization is the value of its metadata.
func (l *AccessLog) Called(path, code string, took time.Duration, from string, authorization []string) {
	token := ""
	if l.Tokens != nil {
		if found := l.Tokens.find(authorization); found != nil {
			token = found.name
		}
	}
	l.write(http.MethodPost, path, code, took, from, token)
}

func (l *AccessLog) write(method, path string, status any, took time.Duration, from, token string) {
	args := []any{"door", l.Listener, "method", method, "path", path, "status", status, "took", took, "from", from}
	if token != "" {
		args = append(args, "token", token)
	}
	l.Log.Info("request", args...)
}
