package cmd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

// What somebody else has written to the keys beside the limits breaks no command, and
// decisions are made as if it were not there. What a store makes of each such value is proved in redisstore.
func TestForeignValuesUnderThePrefix(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	w, server := newWorld(t), redistest.Start(t)
	before := w.Getenv
	w.Getenv = func(name string) string {
		if name == "LIMITCTL_STORE" {
			return "redis://" + server.Addr
		}
		return before(name)
	}
	w.run(t, exitYes, "consume", "a", "--limit", "10/1h")
	w.run(t, exitYes, "override", "set", "nobody:*", "--times", "2", "--for", "1h", "--reason", "r", "--yes")
	w.run(t, exitYes, "reset", "--exact", "a", "--yes")
	keys := []string{"rl!{audit}", "rl!{override}", "rl!id"}
	for minute := time.Now().Unix() / 60; len(keys) < 7; minute++ { // this one and the next
		keys = append(keys, fmt.Sprintf("rl!{denials:%d}:%d", minute/10, minute), fmt.Sprintf("rl!{denials:%d}", minute/10))
	}
	all, _ := server.Do("KEYS", "rl!*").([]any)
	for _, key := range all {
		if !slices.Contains(keys, fmt.Sprint(key)) {
			keys = append(keys, fmt.Sprint(key))
		}
	}
	const junk = "\x1b]0;PWNED\x07\xff\r\n{\"a\":1}"
	values := [][]any{
		{"SET", junk}, {"SET", ""}, {"SET", strings.Repeat("\x00", 5000)}, {"SET", strings.Repeat("9", 3000)}, {"RPUSH", junk},
		{"SADD", junk},
		{"HSET", junk, junk}, {"HSET", "0", "9223372036854775807"}, {"ZADD", "1", junk}, {"XADD", "*", junk, junk},
		{"XADD", "*", "text", junk},
		{"XADD", "18446744073709551615-18446744073709551615", "text", "{}"},
	}
	round := 0
	with := func(value []any, keys ...string) {
		for _, key := range keys {
			server.Do("DEL", key)
			server.Do(append([]any{value[0], key}, value[1:]...)...)
		}
		round++
		w.run(t, exitYes, "check", "decided", "--limit", "10/1h")
		w.run(t, exitYes, "consume", fmt.Sprintf("decided:%d", round), "--limit", "10/1h")
		for _, args := range [][]string{
			{"inspect", "*", "--summary", "-o", "json"}, {"reset", "decided:1*", "--yes"}, {"undo", "--yes"}, {"denials"}, {"audit"},
			{"override", "list"}, {"block", "x", "--for", "1h", "--reason", "r", "--yes"}, {"unblock", "x", "--yes"}, {"handover"},
			{"doctor"}, {"dashboard", "--once"}, {"settle", "decided", "--limit", "10/1h", "--token", "a", "--cost", "1"},
		} {
			w.try(t, args...)
			if text := w.err.String(); strings.Contains(text, "panic") || strings.Contains(text, "internal error") {
				t.Errorf("with %q in %s, %q says %s", value, keys, args, text)
			}
		}
	}
	for i, value := range values {
		with(value, keys...)
		// And in one alone, so that nothing that is wrong elsewhere ends a command before it comes to that.
		for _, key := range keys {
			server.Do("DEL", key)
		}
		with(value, keys[i%len(keys)])
	}
}
