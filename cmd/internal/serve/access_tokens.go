package serve

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
)

// shortestToken is the shortest length of a token: fewer characters can be guessed.
const shortestToken = 16

// tokenHeader carries the token if Authorization belongs to the client, such as in requests of a proxy to /v1/auth.
const tokenHeader = "X-Limitctl-Authorization"

// AccessTokens are the access tokens for /v1. Several can be valid, so that one can replace another. They are safe for
// concurrent use.
type AccessTokens struct {
	file    *watched
	inForce atomic.Pointer[[][sha256.Size]byte]
}

// ParseAccessTokens returns the access tokens of a text, one on a line. It ignores empty lines and those that begin with #.
func ParseAccessTokens(text []byte) (*AccessTokens, error) {
	t := new(AccessTokens)
	return t, t.use(text)
}

// ReadAccessTokens returns the access tokens of a file, which Refresh reads again.
func ReadAccessTokens(path string, read func(path string) ([]byte, error)) (*AccessTokens, error) {
	t := &AccessTokens{file: &watched{read: read, paths: []string{path}}}
	_, err := t.Refresh()
	return t, err
}

// Refresh reads the file again, and reports whether the tokens have changed. If the file cannot be read or has no
// token, the old tokens stay valid, and each cause is returned once.
func (t *AccessTokens) Refresh() (changed bool, err error) {
	return t.file.refresh(func(texts [][]byte) error { return t.use(texts[0]) })
}

// Stale returns why the file cannot be read again; empty if it can.
func (t *AccessTokens) Stale() string { return t.file.stale() }

// Count returns the number of valid tokens.
func (t *AccessTokens) Count() int { return len(*t.inForce.Load()) }

func (t *AccessTokens) use(text []byte) error {
	var all [][sha256.Size]byte
	for line := range bytes.Lines(text) {
		token := bytes.TrimSpace(line)
		switch {
		case len(token) == 0 || token[0] == '#':
			continue
		case len(token) < shortestToken:
			return fmt.Errorf("an access token has %d characters, and fewer than %d can be guessed; make one with `openssl rand -hex 32`",
				len(token), shortestToken)
		case bytes.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
			return errors.New("an access token has a character that a header cannot carry; make one with `openssl rand -hex 32`")
		}
		all = append(all, sha256.Sum256(token))
	}
	if all == nil {
		return errors.New("there is no access token; write one on a line, made with `openssl rand -hex 32`")
	}
	t.inForce.Store(&all)
	return nil
}

// Wrap answers requests without a valid token with 401. The next handler does not see the header with the token.
func (t *AccessTokens) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{tokenHeader, "Authorization"} {
			if t.allow(r.Header[name]) {
				delete(r.Header, name)
				next.ServeHTTP(w, r)
				return
			}
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="limitctl"`)
		refusal.Write(w, outcome.Unauthorized.Status, outcome.Unauthorized.Word, "this needs an access token: Authorization: Bearer TOKEN")
	})
}

// allow takes the same time for wrong and right tokens.
func (t *AccessTokens) allow(values []string) bool {
	if len(values) != 1 {
		return false
	}
	scheme, token, found := strings.Cut(values[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	given, same := sha256.Sum256([]byte(strings.TrimSpace(token))), 0
	for _, known := range *t.inForce.Load() {
		same |= subtle.ConstantTimeCompare(given[:], known[:])
	}
	return same == 1
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
