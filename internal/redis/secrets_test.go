package redisserver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// echoes are ways in which servers repeat what they were sent, as a refusal or as a nonsensical answer.
func echoes() map[string]func(words []string) string {
	oneLine := strings.NewReplacer("\r", " ", "\n", " ").Replace
	quoted := func(words []string, quote func(string) string) string {
		parts := make([]string, len(words))
		for i, word := range words {
			parts[i] = quote(word)
		}
		return strings.Join(parts, " ")
	}
	cut := func(word string) string { return word[:min(len(word), 20)] }
	return map[string]func(words []string) string{
		"redis": func(words []string) string {
			arguments := quoted(words[1:], func(w string) string { return "'" + oneLine(w) + "'" })
			return "-ERR unknown command '" + words[0] + "', with args beginning with: " + arguments + "\r\n"
		},
		"plain": func(words []string) string { return "-ERR cannot do " + oneLine(strings.Join(words, " ")) + "\r\n" },
		"upper": func(words []string) string {
			return "-ERR CANNOT DO " + strings.ToUpper(oneLine(strings.Join(words, " "))) + "\r\n"
		},
		"quoted": func(words []string) string { return "-WRONG " + quoted(words, strconv.Quote) + "\r\n" },
		"cut": func(words []string) string {
			return "-ERR unknown " + quoted(words, func(w string) string { return "'" + cut(oneLine(w)) + "'" }) +
				"\r\n"
		},
		"busy": func(words []string) string { return "-LOADING " + oneLine(strings.Join(words, " ")) + "\r\n" },
		"junk": func(words []string) string { return "=" + oneLine(strings.Join(words, " ")) + "\r\n" },
		"type": func(words []string) string { return "?" + oneLine(strings.Join(words, " ")) + "\r\n" },
	}
}

// mayNotShow fails if a text contains eight bytes of a secret, or all of it.
func mayNotShow(t *testing.T, what, text, secret string) {
	t.Helper()
	size := min(8, len(secret))
	for i := 0; i+size <= len(secret); i++ {
		if part := strings.ToLower(secret[i : i+size]); strings.Contains(strings.ToLower(text), part) {
			t.Errorf("%s shows %q of %q: %s", what, part, secret, text)
			return
		}
	}
}

// texts returns the texts of all errors in a chain.
func texts(err error) []string {
	if err == nil {
		return nil
	}
	all := []string{err.Error(), fmt.Sprintf("%+v", err)}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		all = append(all, texts(e.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			all = append(all, texts(each)...)
		}
	}
	var answer redis.Error
	if errors.As(err, &answer) {
		all = append(all, answer.Error())
	}
	return all
}

// Whatever a server or a Sentinel answers to a login, no error contains the password.
func TestErrorsHoldNoPassword(t *testing.T) {
	names := func(host, port string) redis.FailoverOptions {
		return redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{
			redistest.Scripted(t, func(words []string) string {
				if strings.EqualFold(words[0], "sentinel") {
					return "*2\r\n" + redistest.Bulk(host) + redistest.Bulk(port)
				}
				return "+OK\r\n"
			})}}
	}
	secrets := []string{"hunter2-secret", "it's \"quoted\" & so on", "two words-of-it", "line\r\nanother-line",
		"päßwörter-€",
		`back\\slash\x41\n`, strings.Repeat("long0123456", 30), "%41%42%43%44%45"}
	for name, echo := range echoes() {
		for _, secret := range secrets {
			address := redistest.Scripted(t, echo)
			single := &redis.Options{Addr: address, Username: "u", Password: secret, MaxRetries: -1,
				DialTimeout: time.Second}
			provided := *single
			provided.Password, provided.CredentialsProvider = "", func() (string, string) { return "u", secret }
			host, port, _ := net.SplitHostPort(address)
			sentinel, ofSentinel, another := names(host, port), names("", ""), names(secret, "x")
			ofSentinel.SentinelAddrs, ofSentinel.SentinelPassword = []string{address}, secret
			sentinel.Password, another.Password = secret, secret
			for kind, client := range map[string]redis.UniversalClient{
				"Sentinel":            redisserver.NewFailoverClient(ofSentinel, time.Second),
				"a Sentinel's":        redisserver.NewFailoverClient(sentinel, time.Second),
				"named by a Sentinel": redisserver.NewFailoverClient(another, time.Second),
				"server":              redis.NewClient(single), "provider": redis.NewClient(&provided),
				"cluster": redis.NewClusterClient(
					&redis.ClusterOptions{Addrs: []string{address}, Username: "u", Password: secret,
						MaxRedirects: -1}),
			} {
				backend, err := redisstore.Own(client)
				must(t, err)
				what := fmt.Sprintf("%s, %s", name, kind)
				_, err = storecall.New(backend).Take(context.Background(), store.Key{Subject: "user:1"},
					store.Limit{Count: 1, Period: time.Second}, 1)
				if err == nil {
					t.Errorf("%s: no error", what)
				}
				for _, text := range texts(err) {
					mayNotShow(t, what, text, secret)
				}
				for _, err := range backend.Scan(context.Background(), admin.Query{}) {
					for _, text := range texts(err) {
						mayNotShow(t, what+", scan", text, secret)
					}
				}
				backend.Close()
			}
		}
	}
}

// replyError is an error reply.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// An error without its secret still matches errors.Is and errors.As.
func TestCleanedErrorsKeepTheirKind(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Password: "hunter2-secret"})
	defer client.Close()
	servers := redisserver.New(client, "rl", "other-secret")
	refused := servers.Explain(errors.Join(errors.New("around other-secret"),
		replyError("ERR hunter2-secret is wrong")))
	if !errors.Is(refused, store.ErrRefused) {
		t.Errorf("%v is no refusal", refused)
	}
	mayNotShow(t, "refusal", refused.Error(), "hunter2-secret")
	mayNotShow(t, "refusal", refused.Error(), "other-secret")
	dial := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "hunter2-secret"}}
	away := servers.Explain(dial)
	if !errors.Is(away, store.ErrUnavailable) || !strings.Contains(away.Error(), "no such host") {
		t.Errorf("%v does not say why", away)
	}
	for _, text := range texts(away) {
		mayNotShow(t, "away", text, "hunter2-secret")
	}
	busy := servers.Explain(replyError("LOADING hunter2-secret"))
	if !errors.Is(busy, store.ErrUnavailable) || !redisserver.IsErrorReply(busy, "LOADING xxxxx") {
		t.Error(busy)
	}
	timeout := servers.Explain(context.DeadlineExceeded)
	if !errors.Is(timeout, context.DeadlineExceeded) {
		t.Errorf("%v", timeout)
	}
}

// A field with a meaning for the doctor stays unchanged, whatever the password is.
func TestRedactField(t *testing.T) {
	for _, c := range []struct{ secret, value, want string }{
		{"hunter2", "7.0.0-hunter2", "7.0.0-xxxxx"},
		{"master", "master", "master"},
		{"1", "1", "1"},
		{"7.4", "7.4.1", "7.4.1"},
		{"on", "ip=london,state=online", "its text is withheld, since the password may be in it"},
		{"a,b=c", "ip=a,b=c,d", "ip=xxxxx,d"},
	} {
		client := redis.NewClient(&redis.Options{Password: c.secret})
		defer client.Close()
		if got := redisserver.New(client, "").RedactField(c.value); got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.secret, c.value, got, c.want)
		}
	}
}
