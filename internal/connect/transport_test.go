package connect

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func transportOf(ctx context.Context, url string, options Options) (redisserver.Transport, error) {
	u, access, err := Redis(url, options)
	if err != nil {
		return redisserver.Transport{}, err
	}
	return u.Transport(ctx, access)
}

func TestTransport(t *testing.T) {
	sentinel := redistest.Scripted(t, func(words []string) string {
		if strings.EqualFold(words[0], "sentinel") {
			return "*2\r\n" + redistest.Bulk("10.9.8.7") + redistest.Bulk("6380")
		}
		if strings.EqualFold(words[0], "hello") {
			return "-ERR unknown command\r\n"
		}
		return "+OK\r\n"
	})
	for url, want := range map[string]struct {
		tls, unchecked, logsIn bool
		told                   string
	}{
		"redis://h":                           {},
		"redis://u@h":                         {},
		"redis://u:p@h":                       {logsIn: true, told: "h:6379"},
		"unix://u:p@/s":                       {logsIn: true},
		"redis+cluster://u:p@h,i:1":           {logsIn: true, told: "h:6379 i:1"},
		"rediss://h?tls_insecure=true":        {tls: true, unchecked: true},
		"rediss+cluster://u:p@h":              {tls: true, logsIn: true, told: "h:6379"},
		"redis+sentinel://" + sentinel + "/m": {},
		"redis+sentinel://" + sentinel + "/m?sentinel_password=p": {told: sentinel},
		"redis+sentinel://u:p@" + sentinel + "/m":                 {logsIn: true, told: "10.9.8.7:6380"},
		"redis+sentinel://u:p@" + sentinel + "/m?sentinel_password=p": {
			logsIn: true, told: sentinel + " 10.9.8.7:6380"},
	} {
		with := options(nil)
		with.Password = ""
		got, err := transportOf(t.Context(), url, with)
		if err != nil || got.TLS != want.tls || got.Unchecked != want.unchecked || got.LogsIn != want.logsIn ||
			strings.Join(got.PasswordTo, " ") != want.told {
			t.Errorf("%s: %+v, %v; want %+v", url, got, err, want)
		}
	}
	with := options(nil) // has a password for URLs without one
	if got, err := transportOf(t.Context(), "redis://h", with); err != nil || !got.LogsIn || len(got.PasswordTo) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// No error contains what a Sentinel or its master repeats of a login.
func TestSentinelErrorsHoldNoPassword(t *testing.T) {
	t.Parallel()
	const master, sentinel = "hunter2 of the master", "hunter3'of \"the sentinel"
	echo := func(words []string) string { return "-ERR no " + strings.Join(words, " ") + "\r\n" }
	quote := func(words []string) string { return "-WRONG " + strconv.Quote(strings.Join(words, " ")) + "\r\n" }
	junk := func(words []string) string { return "?" + strings.Join(words, " ") + "\r\n" }
	names := func(address string) func(words []string) string {
		host, port, _ := strings.Cut(address, ":")
		return func(words []string) string {
			if strings.EqualFold(words[0], "sentinel") {
				return "*2\r\n" + redistest.Bulk(host) + redistest.Bulk(port)
			}
			return "+OK\r\n"
		}
	}
	for name, sentinelSays := range map[string]func([]string) string{
		"echo": echo, "quote": quote, "junk": junk,
		"master echoes":     names(redistest.Scripted(t, echo)),
		"master is another": names(master + ":x"),
	} {
		address := redistest.Scripted(t, sentinelSays)
		url := "redis+sentinel://u:hunter2%20of%20the%20master@" + address +
			"/m?sentinel_password=hunter3'of%20%22the%20sentinel"
		backend, _, err := Open(url, Options{Prefix: "rl", Timeout: 2 * time.Second, ReadFile: files(nil).read})
		if err != nil {
			t.Fatal(err)
		}
		_, err = storecall.New(backend).Take(t.Context(), store.Key{Subject: "user:1"}, store.Limit{
			Count: 1, Period: time.Second}, 1)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, secret := range []string{master, sentinel, "of the sent", "of the mast", "hunter2 of", "hunter3"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", name, err)
			}
		}
		backend.Close()
	}
}
