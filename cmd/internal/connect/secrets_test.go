package connect

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// No error contains what a Sentinel or its master repeats of a login.
func TestSentinelErrorsHoldNoPassword(t *testing.T) {
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
		url := "redis+sentinel://u:hunter2%20of%20the%20master@" + address + "/m?sentinel_password=hunter3'of%20%22the%20sentinel"
		backend, _, err := Open(url, Options{Prefix: "rl", Timeout: 2 * time.Second, ReadFile: files(nil).read})
		if err != nil {
			t.Fatal(err)
		}
		_, err = storecall.New(backend).Take(t.Context(), store.Key{Subject: "user:1"}, store.Limit{Count: 1, Period: time.Second}, 1)
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
