package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/poll"
	"github.com/limitctl/limitctl/internal/serve/refusal"
	"github.com/limitctl/limitctl/internal/subjecttext"
)

// shortestToken is the shortest length of a token: fewer characters can be guessed.
const shortestToken = 16

// tokenHeader carries the token if Authorization belongs to the client, such as in requests of a proxy to /v1/auth.
const tokenHeader = "X-Limitctl-Authorization"

// The scopes of access tokens: what the bearer may do.
const (
	scopeDecide = "decide" // ask, and take units
	scopeRefund = "refund" // give units back, and settle
	scopeReset  = "reset"  // let somebody begin anew
	scopeRead   = "read"   // ask without taking, see the policies and the state of a subject
)

// scopes are all of them. A token that names none has the first ones, which is what tokens could always do.
var scopes = []string{scopeDecide, scopeRefund, scopeRead, scopeReset}

const usualScopes = 3

// AccessTokens are the access tokens for /v1. Several can be valid, so that one can replace another. They are safe for
// concurrent use.
type AccessTokens struct {
	*poll.Source[[][]byte] // nil if they are of no file
	inForce                atomic.Pointer[[]accessToken]
}

// accessToken is one of the tokens, of which only the hash is kept.
type accessToken struct {
	sum    [sha256.Size]byte
	name   string // or the line that it is on
	scopes []string
}

// ParseAccessTokens returns the access tokens of a text, one on a line. It ignores empty lines and those that begin
// with #. Fields may follow a token: name=NAME and scopes=SCOPE,SCOPE.
func ParseAccessTokens(text []byte) (*AccessTokens, error) {
	t := &AccessTokens{}
	return t, t.use(text)
}

// ReadAccessTokens returns the access tokens of a file. Look reads it again: if it cannot be read or has no token, the
// old tokens stay valid.
func ReadAccessTokens(path string, read func(path string) ([]byte, error)) (*AccessTokens, error) {
	t := &AccessTokens{}
	t.Source = poll.Files(read, func(texts [][]byte) error { return t.use(texts[0]) }, path)
	_, err := t.Look(context.Background(), false)
	return t, err
}

// Count returns the number of valid tokens.
func (t *AccessTokens) Count() int { return len(*t.inForce.Load()) }

func (t *AccessTokens) use(text []byte) error {
	var all []accessToken
	line := 0
	for raw := range bytes.Lines(text) {
		line++
		content := bytes.TrimSpace(raw)
		if len(content) == 0 || content[0] == '#' {
			continue
		}
		token, err := parseAccessToken(string(content), line)
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		for i := range all {
			switch {
			case all[i].name == token.name:
				return fmt.Errorf("line %d: an access token before it has the name %q, too", line, token.name)
			case all[i].sum == token.sum: // one of them would decide what both may do
				return fmt.Errorf("line %d: the access token %q before it is the same; keep one of the lines", line,
					all[i].name)
			}
		}
		all = append(all, token)
	}
	if all == nil {
		return errors.New("there is no access token; write one on a line, made with `openssl rand -hex 32`")
	}
	t.inForce.Store(&all)
	return nil
}

// parseAccessToken reads a line of tokens. An error does not quote the token, nor what can be a part of it.
func parseAccessToken(content string, line int) (t accessToken, err error) {
	token, rest, _ := strings.Cut(content, " ")
	switch {
	case len(token) < shortestToken:
		return t, fmt.Errorf("an access token has %d characters, and fewer than %d can be guessed; make one with "+
			"`openssl rand -hex 32`",
			len(token), shortestToken)
	case strings.ContainsFunc(content, func(r rune) bool { return r < ' ' || r > '~' }):
		return t, errors.New("an access token has a character that a header cannot carry; make one with `openssl " +
			"rand -hex 32`")
	}
	t = accessToken{sum: sha256.Sum256([]byte(token)), name: fmt.Sprint("line ", line), scopes: scopes[:usualScopes]}
	for _, field := range strings.Fields(rest) {
		name, value, _ := strings.Cut(field, "=")
		switch {
		case name == "name" && subjecttext.IsName(value):
			t.name = value
		case name == "scopes" && value != "":
			t.scopes = strings.Split(value, ",")
			if slices.ContainsFunc(t.scopes, func(scope string) bool { return !slices.Contains(scopes, scope) }) {
				return t, fmt.Errorf("an access token has the scopes %s; each is one of %s", value,
					strings.Join(scopes, ", "))
			}
		default:
			return t, errors.New("what follows an access token is name=NAME or scopes=SCOPE,SCOPE, with a name of " +
				"letters, digits, - and _")
		}
	}
	return t, nil
}

// Wrap answers requests without a valid token with 401, and those whose token has none of the needed scopes with 403:
// needs returns those of which a request needs one. The next handler does not see the header with the token.
func (t *AccessTokens) Wrap(next http.Handler, needs func(*http.Request) []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, field := t.of(r)
		if token == nil {
			w.Header().Set("WWW-Authenticate", `Bearer realm="limitctl"`)
			refusal.Write(w, outcome.Unauthorized.Status, outcome.Unauthorized.Word,
				"this needs an access token: Authorization: Bearer TOKEN")
			return
		}
		needed := needs(r)
		if !slices.ContainsFunc(needed, func(scope string) bool { return slices.Contains(token.scopes, scope) }) {
			refusal.Write(w, http.StatusForbidden, outcome.Unauthorized.Word, fmt.Sprintf(
				"the access token %q has the scopes %s, and this needs %s", token.name,
				strings.Join(token.scopes, ", "),
				strings.Join(needed, " or ")))
			return
		}
		delete(r.Header, field)
		next.ServeHTTP(w, r)
	})
}

// of returns the token of a request, nil for none, and the header field that has it.
func (t *AccessTokens) of(r *http.Request) (token *accessToken, field string) {
	for _, field = range []string{tokenHeader, "Authorization"} {
		if token = t.find(r.Header[field]); token != nil {
			break
		}
	}
	return token, field
}

// Admits refuses a gRPC call, unless these values of its metadata authorization are a token with the scope decide.
func (t *AccessTokens) Admits(values []string) error {
	if token := t.find(values); token == nil || !slices.Contains(token.scopes, scopeDecide) {
		return status.Error(codes.Unauthenticated,
			"this needs an access token that may decide: authorization: Bearer TOKEN")
	}
	return nil
}

// find returns the token that the values of a header field are. It takes the same time for wrong and right tokens.
func (t *AccessTokens) find(values []string) *accessToken {
	if len(values) != 1 {
		return nil
	}
	scheme, token, found := strings.Cut(values[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	given, all, at := sha256.Sum256([]byte(strings.TrimSpace(token))), *t.inForce.Load(), -1
	for i := range all {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given[:], all[i].sum[:]), i, at)
	}
	if at < 0 {
		return nil
	}
	return &all[at]
}

// WithoutBrowsers refuses requests that a page in a browser sends. Any page can make the browser send a POST to
// this machine without a question, and so use up or give back units of others. Programs send no Origin. A token
// also keeps pages out, since they do not know it.
//
// Requests of proxies at the paths that begin with except have the fields of their clients, and so pass.
func WithoutBrowsers(next http.Handler, except string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fromPage(r.Header) && !strings.HasPrefix(r.URL.Path, except) {
			refusal.Write(w, http.StatusForbidden, outcome.Unauthorized.Word,
				"a page in a browser may not call this server, since it has no access tokens (--token-file)")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fromPage reports whether a page sent a request, and not a program or a person. Browsers send one of these fields
// with every request that can change something.
func fromPage(header http.Header) bool {
	if len(header["Origin"]) > 0 {
		return true
	}
	site := header.Get("Sec-Fetch-Site")
	return site != "" && site != "none"
}

// AccessLog writes a line for each request of a listener, or for each gRPC call. It names the access token by its name,
// and holds no query, since that can be a secret.
type AccessLog struct {
	Log      *slog.Logger
	Listener string
	Tokens   *AccessTokens // nil for none
}

// Begin notes a request before its handler removes the token. The returned function writes its line.
func (l *AccessLog) Begin(r *http.Request) (answered func(status int, took time.Duration)) {
	var token *accessToken
	if l.Tokens != nil {
		token, _ = l.Tokens.of(r)
	}
	return func(status int, took time.Duration) { l.write(r.Method, r.URL.Path, status, took, r.RemoteAddr, token) }
}

// Called writes the line of a gRPC call that has ended with that code. authorization is the value of its metadata.
func (l *AccessLog) Called(path, code string, took time.Duration, from string, authorization []string) {
	var token *accessToken
	if l.Tokens != nil {
		token = l.Tokens.find(authorization)
	}
	l.write(http.MethodPost, path, code, took, from, token)
}

func (l *AccessLog) write(method, path string, status any, took time.Duration, from string, token *accessToken) {
	args := []any{"door", l.Listener, "method", method, "path", path, "status", status, "took", took, "from", from}
	if token != nil {
		args = append(args, "token", token.name)
	}
	l.Log.Info("request", args...)
}
