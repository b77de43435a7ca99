package doctor

import (
	"strings"
	"testing"

	redisserver "github.com/limitctl/limitctl/internal/redis"
)

func TestJudgeTransport(t *testing.T) {
	far, near := []string{"10.0.0.1:6379"}, []string{"127.0.0.1:6379", "[::1]:6379", "localhost:6379"}
	for name, c := range map[string]struct {
		transport redisserver.Transport
		nodes     []string
		want      string
	}{
		"no password":    {redisserver.Transport{}, far, ""},
		"near":           {redisserver.Transport{LogsIn: true, PasswordTo: near}, near, ""},
		"far":            {redisserver.Transport{LogsIn: true, PasswordTo: far}, nil, "unencrypted to 10.0.0.1:6379: "},
		"a far node":     {redisserver.Transport{LogsIn: true, PasswordTo: near}, far, "unencrypted to 10.0.0.1:6379: "},
		"a far Sentinel": {redisserver.Transport{PasswordTo: []string{"S:26379"}}, far, "unencrypted to s:26379: "},
		"many": {redisserver.Transport{LogsIn: true, PasswordTo: []string{"e:1", "d:1", "c:1"}}, []string{"b:1", "a:1", "a:1"},
			"unencrypted to a:1, b:1, c:1, d:1, e:1: "},
		"encrypted": {redisserver.Transport{TLS: true, LogsIn: true, PasswordTo: far}, far, ""},
		"checked by nobody": {redisserver.Transport{TLS: true, Unchecked: true, LogsIn: true, PasswordTo: far}, far,
			"certificate is not checked"},
		"no password, no check": {redisserver.Transport{TLS: true, Unchecked: true}, nil, "certificate is not checked"},
	} {
		found := judgeTransport(c.transport, c.nodes, strings.ToLower)
		switch {
		case c.want == "" && len(found) > 0:
			t.Errorf("%s: %+v", name, found)
		case c.want != "" && (len(found) != 1 || found[0].Status != Warn || !strings.Contains(found[0].Summary, c.want) ||
			found[0].Advice == "" || found[0].Check != "transport"):
			t.Errorf("%s: %+v", name, found)
		}
	}
}
