package connect

import (
	"context"
	"strings"
	"testing"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/redistest"
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
