package redact

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// written are forms in which programs write a text.
func written(text string) []string {
	inJSON, _ := json.Marshal(text)
	twice, _ := json.Marshal(string(inJSON))
	return []string{
		text, strings.ToUpper(text), strings.ToLower(text),
		url.PathEscape(text), url.QueryEscape(text), url.PathEscape(url.PathEscape(text)),
		url.UserPassword("", text).String(),
		strconv.Quote(text), strconv.QuoteToASCII(text), strconv.Quote(strconv.Quote(text)), string(inJSON),
		string(twice),
		"'" + strings.ReplaceAll(text, "'", "''") + "'",
		"'" + strings.ReplaceAll(text, "'", `'\''`) + "'",
		base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)),
	}
}

func TestRemoveKnowsSpellings(t *testing.T) {
	for _, secret := range []string{"hunter2-secret", `a'b"c\d e&f<g>`, "päß wörd-€", "%41%2fab", "😀-smile",
		"line\r\nline2",
		`\\x41\n`, "tab\there", "''''", "a+b c+d", "\xff\xfebytes", "Hunter"} {
		secrets := New(secret)
		for _, spelt := range written(secret) {
			for _, frame := range []string{"%s", "ERR unknown '%s' today", "ERR (%s)", "x%sx"} {
				text := fmt.Sprintf(frame, spelt)
				got := secrets.Remove(text)
				if strings.Contains(got, spelt) && !strings.Contains(frame, spelt) || !strings.Contains(got, Mark) ||
					len(got) > len(frame)+len(Mark)+6 {
					t.Errorf("%q: of %q is left %q", secret, text, got)
				}
			}
		}
	}
}

func TestRemove(t *testing.T) {
	for _, c := range []struct{ secret, text, want string }{
		{"hunter2", "nothing of it", "nothing of it"},
		{"hunter2", "hunter2hunter2 hunter2", "xxxxxxxxxx xxxxx"},
		{"hunter2-is-my-secret", "the hunters", "the hunters"},
		{"connect-me", "connection refused", "connection refused"},
		{"pw", "its PW is known", withheld},
		{"", "nothing", "nothing"},
		{"one second", "second argument", "xxxxx argument"},
	} {
		if got := New(c.secret).Remove(c.text); got != c.want {
			t.Errorf("%q of %q: %q, want %q", c.secret, c.text, got, c.want)
		}
	}
	var none *Secrets
	if got := none.Remove("text"); got != "text" {
		t.Errorf("no secrets: %q", got)
	}
}

func TestAnswer(t *testing.T) {
	for text, want := range map[string]string{
		"ERR unknown command 'auth', with args beginning with: 'unknown-to-us' ": "ERR unknown command 'auth'",
		"ERR unknown command `AUTH`, WITH ARGS BEGINNING WITH: `u`, `p`, ":       "ERR unknown command `AUTH`",
		"ERR hunter2 is wrong":               "ERR xxxxx is wrong",
		strings.Repeat("-", 597) + "hunter2": strings.Repeat("-", 597) + "xxx…",
		"ERR " + strings.Repeat("ö", 5000):   "ERR " + strings.Repeat("ö", 298) + "…",
	} {
		if got := New("hunter2").Answer(text); got != want {
			t.Errorf("%.60q: %q", text, got)
		}
	}
}

// A secret that is also a word of ours stays in our own texts.
func TestText(t *testing.T) {
	for _, c := range []struct{ secret, text, want string }{
		{"redis", "redis at h", "redis at h"},
		{"redis-2", "redis-2 at h", "xxxxx at h"},
		{"redis-2", "redis-, redis", "redis-, redis"},
		{"hunter-of-all", "the hunter-of-", "the hunter-of-"},
		{"h%r", "h%r", "h%r"},
		{"h%rt", "h%25rt", "xxxxx"},
		{"passwordpassword", "PASSWORDPASSWORD", "xxxxx"},
	} {
		if got := New(c.secret).Text(c.text); got != c.want {
			t.Errorf("%q of %q: %q, want %q", c.secret, c.text, got, c.want)
		}
	}
}

type answer string

func (a answer) Error() string { return string(a) }

func TestError(t *testing.T) {
	secrets := New("hunter2")
	clean := &net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}
	if got := secrets.Error(clean); got != error(clean) {
		t.Errorf("%v", got)
	}
	err := secrets.Error(fmt.Errorf("of hunter2: %w, %w", answer("not hunter2"), clean))
	if err.Error() != "of xxxxx: not xxxxx, "+clean.Error() || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
	var operation *net.OpError
	if !errors.As(err, &operation) || operation != clean {
		t.Errorf("it is no %T", operation)
	}
	var dirty answer
	if errors.As(err, &dirty) || dirty != "" {
		t.Errorf("as an answer it says %q", string(dirty))
	}
	if errors.Unwrap(err) != nil {
		t.Errorf("it unwraps to %v", errors.Unwrap(err))
	}
}

// Of replaced secrets the last few are remembered, and reading, learning and adding can run concurrently.
func TestConcurrentLearning(t *testing.T) {
	s := New("first-password")
	var working sync.WaitGroup
	for i := range 4 {
		working.Go(func() {
			for n := range 200 {
				s.Learn(fmt.Sprintf("token-number-%d-%d", i, n))
				s.Add("one of several words") // first as parts, then as a whole
				s.Add("several")
				if got := s.Remove("the first-password here"); got != "the "+Mark+" here" {
					t.Errorf("%q", got)
				}
			}
		})
	}
	working.Wait()
	for n := range 20 {
		s.Learn(fmt.Sprintf("the-last-token-%02d", n))
	}
	if got := s.Remove("the-last-token-19"); got != Mark {
		t.Errorf("%q", got)
	}
	if got := s.Remove("the-last-token-02"); !strings.Contains(got, "02") {
		t.Errorf("it remembers them all: %q", got)
	}
}
