package serve

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// tokensOf returns the access tokens of a file with these lines.
func tokensOf(t *testing.T, lines ...string) *AccessTokens {
	t.Helper()
	tokens, err := ParseAccessTokens([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// status sends a request with a token to a handler that needs one of these scopes.
func (t *AccessTokens) status(token string, needed ...string) (int, *httptest.ResponseRecorder) {
	handler := t.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(*http.Request) []string {
		return needed
	})
	r := httptest.NewRequest("POST", "/v1/check?q=secret", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, w
}

func TestScopesOfTokens(t *testing.T) {
	all, reader, resetter := strings.Repeat("a", 32), strings.Repeat("b", 32), strings.Repeat("c", 32)
	tokens := tokensOf(t, "# tokens", all, reader+"  scopes=read name=looker", resetter+" name=ci scopes=reset,decide")
	for _, test := range []struct {
		token  string
		needed []string
		want   int
	}{
		{all, []string{scopeDecide}, 200}, {all, []string{scopeRefund}, 200}, {all, []string{scopeRead}, 200},
		{all, []string{scopeReset}, 403},
		{reader, []string{scopeRead}, 200}, {reader, []string{scopeDecide, scopeRead}, 200},
		{reader, []string{scopeDecide}, 403},
		{reader, []string{scopeRefund}, 403}, {reader, []string{scopeReset}, 403},
		{resetter, []string{scopeReset}, 200}, {resetter, []string{scopeDecide}, 200},
		{resetter, []string{scopeRead}, 403},
		{"nobody's token, but long", []string{scopeRead}, 401},
	} {
		if got, _ := tokens.status(test.token, test.needed...); got != test.want {
			t.Errorf("%.4s…, which needs %v: %d, not %d", test.token, test.needed, got, test.want)
		}
	}
	_, w := tokens.status(reader, scopeRefund)
	if !strings.Contains(w.Body.String(), `\"looker\" has the scopes read, and this needs refund`) ||
		strings.Contains(w.Body.String(), reader) {
		t.Errorf("the refusal says %s", w.Body)
	}
}

func TestLinesThatAreNoTokens(t *testing.T) {
	token := strings.Repeat("s", 32)
	for line, want := range map[string]string{
		token[:15]: "line 1: an access token has 15 characters",
		// blanks around it do not count
		"  " + token[:14]:                        "line 1: an access token has 14 characters",
		token[:15] + "\x7f":                      "line 1: an access token has a character",
		token + " scopes=":                       "line 1: what follows",
		token + " scopes=read,write":             "line 1: an access token has the scopes read,write; each is one of",
		token + " name=a/b":                      "line 1: what follows",
		token + " limit=10/1m":                   "line 1: what follows",
		token + " admin":                         "line 1: what follows",
		token + " name=a\n" + token + "x name=a": "line 2: an access token before it",
		token + " name=a\n" + token + " name=b":  `line 2: the access token "a" before it is the same`,
	} {
		_, err := ParseAccessTokens([]byte(line))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), token) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func readers(*http.Request) []string { return []string{scopeRead} }

// The access log names the token by its name, and holds neither it nor the query.
func TestTheAccessLog(t *testing.T) {
	token := strings.Repeat("a", 32)
	tokens := tokensOf(t, token+" name=gateway")
	var text bytes.Buffer
	log := &AccessLog{Log: slog.New(slog.NewTextHandler(&text, nil)), Listener: "http", Tokens: tokens}
	for _, sent := range []string{token, "something else that is long"} {
		r := httptest.NewRequest("POST", "/v1/check?q=secret", nil)
		r.Header.Set("Authorization", "Bearer "+sent)
		answered := log.Begin(r)
		tokens.Wrap(http.NotFoundHandler(), readers).ServeHTTP(httptest.NewRecorder(), r)
		answered(404, time.Millisecond)
	}
	lines := strings.Split(text.String(), "\n")
	const line = "msg=request door=http method=POST path=/v1/check status=404 took=1ms from=192.0.2.1:1234"
	if !strings.HasSuffix(lines[0], line+" token=gateway") || !strings.HasSuffix(lines[1], line) ||
		strings.Contains(text.String(), "secret") || strings.Contains(text.String(), token) {
		t.Errorf("the log says\n%s", &text)
	}
}
