package connect

import (
	"path/filepath"
	"strings"
	"testing"
)

// URLs of one store have one address, and those of different stores have different ones.
func TestAddress(t *testing.T) {
	here := must(filepath.Abs("limits.db"))
	seen := map[string]string{}
	for want, urls := range map[string][]string{
		"redis localhost:6379 db 0": {"redis://localhost", "redis://localhost:6379/0",
			"rediss://u:ZQsecret@LOCALHOST.?db=0",
			"redis://127.0.0.1", "valkey://localhost", "valkeys://u:ZQsecret@localhost",
			"redis://[::1]:6379"},
		"redis localhost:6379 db 1":     {"redis://localhost/1", "redis://:ZQsecret@localhost?db=1"},
		"redis localhost:6380 db 0":     {"redis://localhost:6380"},
		"redis cache.example:6379 db 0": {"redis://cache.example", "redis://Cache.Example:6379/"},
		"redis+cluster a:6379,b:7000 db 0": {"redis+cluster://a,b:7000", "rediss+cluster://u:ZQsecret@b:7000,a:6379",
			"redis+cluster://a,b:7000,a/"},
		"redis+sentinel a:26379,b:26379 master m db 0": {"redis+sentinel://a,b/m", "valkeys+sentinel://a,b/m",
			"redis+sentinel://b:26379,a/m/0?sentinel_password=ZQsecret&sentinel_username=s"},
		"redis+sentinel a:26379,b:26379 master m db 2": {"redis+sentinel://a,b/m/2"},
		"redis+sentinel a:26379,b:26379 master n db 0": {"redis+sentinel://a,b/n"},
		"unix /run/redis.sock db 0": {
			"unix:///run/redis.sock", "unix://u:ZQsecret@/run/redis.sock?db=0"},
		"file /var/limits.db": {"file:/var/limits.db", "file:///var/limits.db", "file:/var/x/../limits.db"},
		"file " + here:        {"file:limits.db", "file:./limits.db"},
		"memory":              {"memory:"},
	} {
		for _, url := range urls {
			got, err := Address(url)
			if got != want || err != nil || strings.Contains(got, "ZQ") {
				t.Errorf("%s is %q, %v; want %q", url, got, err, want)
			}
			if other := seen[got]; other != "" && other != want {
				t.Errorf("%s and %s are one", want, other)
			}
			seen[got] = want
		}
	}
}
