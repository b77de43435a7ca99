package redisserver

import (
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Right is the right to run a Redis command that limitctl uses.
type Right struct {
	// Command is the command in the form of an ACL: "get", "memory|usage".
	Command string
	// For are the limitctl commands that use it.
	For []string
	// Try is a call of it on an unused key that never changes anything.
	Try []any
	// Else says what is missing without the right; empty if the commands then fail.
	Else string
	// Writes: it changes keys itself, unlike a script, which may only read.
	Writes bool
	// Beside: it is for keys beside the limits, whose names begin with "<prefix>!".
	Beside bool
	// Before is the command that replaces it on servers that are too old for it; empty if there is none.
	Before string
}

// Commands returns the limitctl commands that need rights. Shell completion needs those of inspect, and block,
// unblock and exempt those of override.
func Commands() []string {
	return []string{"check", "inspect", "denials", "audit", "consume", "refund", "reset", "undo", "override", "doctor"}
}

// Rights returns the rights that users need, each with a try on an unused key under prefix.
func Rights(prefix string) []Right {
	key := admin.OwnLayout(prefix).StoreKey(store.Key{Subject: "limitctl", Name: "no-such-limit"})
	const noScript, nothing = "0000000000000000000000000000000000000000", "return 1"
	var (
		deciding = []string{"consume", "refund", "reset"}
		changing = append(deciding, "undo", "override")
		reading  = append(deciding, "undo", "check")
		scripted = []string{"check", "override"}
		looking  = []string{"inspect", "doctor"}
		scanning = append(looking, "reset")
		doctor   = []string{"doctor"}
		timed    = slices.DeleteFunc(Commands(), func(command string) bool { return command == "audit" })
		onLimits = slices.DeleteFunc(slices.Clone(timed), func(command string) bool { return command == "denials" })
	)
	beside := prefix + "!{limitctl}"
	ofDenials := func(command string, writes bool, more ...any) Right {
		return Right{Command: command, For: []string{"consume"}, Try: append([]any{command, beside}, more...),
			Else: "who is denied is not counted or shown", Writes: writes, Beside: true}
	}
	readingDenials := ofDenials("hgetall", false)
	readingDenials.For = append(readingDenials.For, "inspect", "denials")
	return []Right{
		{Command: "evalsha_ro", For: scripted, Try: []any{"evalsha_ro", noScript, 1, key}, Before: "evalsha"},
		{Command: "eval_ro", For: scripted, Try: []any{"eval_ro", nothing, 1, key}, Before: "eval"},
		{Command: "evalsha", For: changing, Try: []any{"evalsha", noScript, 1, key}},
		{Command: "eval", For: changing, Try: []any{"eval", nothing, 1, key}},
		{Command: "get", For: []string{"check", "consume", "reset", "undo"}, Try: []any{"get", key}},
		{Command: "getrange", For: onLimits, Try: []any{"getrange", key, 0, 0}},
		{Command: "exists", For: append(deciding, "check"), Try: []any{"exists", key}},
		{Command: "strlen", For: append(reading, looking...), Try: []any{"strlen", key}},
		{Command: "type", For: append(reading, looking...), Try: []any{"type", key},
			Else: "the type of a foreign value is not shown"},
		{Command: "time", For: timed, Try: []any{"time"}},
		{Command: "set", For: changing, Try: []any{"set", key, "", "xx"}, Writes: true},
		{Command: "setrange", For: deciding, Try: []any{"setrange", key, 0, ""},
			Else:   "a sliding log is rewritten at each take",
			Writes: true},
		{Command: "pexpireat", For: deciding, Try: []any{"pexpireat", key, 1},
			Else:   "a sliding log is rewritten at each take",
			Writes: true},
		{Command: "del", For: []string{"refund", "reset"}, Try: []any{"del", key},
			Else:   "a full refund leaves an unused record behind",
			Writes: true},
		{Command: "unlink", For: []string{"reset", "override"}, Try: []any{"unlink", key}, Writes: true},
		{Command: "scan", For: scanning, Try: []any{"scan", 0, "match", key, "count", 1}},
		{Command: "pttl", For: scanning, Try: []any{"pttl", key}},
		{Command: "dbsize", For: scanning, Try: []any{"dbsize"}, Else: "scans show no progress"},
		{Command: "memory|usage", For: []string{"inspect"}, Try: []any{"memory", "usage", key},
			Else: "the sizes of keys are not shown"},
		{Command: "pexpiretime", For: []string{"reset"}, Try: []any{"pexpiretime", key},
			Else:   "a backup's expiry can be a millisecond off",
			Before: "pttl"},
		readingDenials,
		ofDenials("hmget", false, ""),
		ofDenials("hlen", false),
		ofDenials("hset", true, "", "", ""), // a value is missing, which the server notices after the check of rights
		ofDenials("hdel", true, ""),
		// a number that no entry can have
		{Command: "xadd", For: []string{"reset", "undo"}, Try: []any{"xadd", beside, "0-0", "", ""},
			Else: "the audit is kept on each machine alone", Writes: true, Beside: true},
		{Command: "xrevrange", For: []string{"audit"}, Try: []any{"xrevrange", beside, "+", "-", "count", 1},
			Else: "the audit of this machine alone is shown", Beside: true},
		{Command: "ping", For: doctor, Try: []any{"ping"}},
		{Command: "info", For: doctor, Try: []any{"info", "server"}},
		{Command: "config|get", For: doctor, Try: []any{"config", "get", "maxmemory"}},
		{Command: "acl|dryrun", For: doctor, Try: []any{"acl", "dryrun", "default", "ping"},
			Else: "rights are not checked"},
	}
}

// ClusterRights are the additional rights of users in a Cluster. limitctl's own client does not need "command", which
// the client of a service calls when it has to follow a slot.
func ClusterRights() []Right {
	all := Commands()
	scanning := []string{"inspect", "reset"}
	return []Right{
		{Command: "cluster|slots", For: all, Try: []any{"cluster", "slots"}},
		{Command: "command", For: all, Try: []any{"command", "count"},
			Else: "go-redis' own Cluster client asks for it again at each call of a moving slot"},
		{Command: "asking", For: all, Try: []any{"asking"}, Else: "keys of a moving slot are not followed"},
		{Command: "cluster|nodes", For: append(scanning, "doctor"), Try: []any{"cluster", "nodes"}},
		{Command: "cluster|getkeysinslot", For: scanning, Try: []any{"cluster", "getkeysinslot", 0, 1}},
		{Command: "cluster|info", For: []string{"doctor"}, Try: []any{"cluster", "info"}},
	}
}

// KeyRule returns the word of an ACL that gives access to the keys under prefix.
func KeyRule(prefix string, writes bool) string { return keyRule(prefix, ":*", writes) }

// BesideRule returns the word of an ACL that gives access to the keys beside the limits.
func BesideRule(prefix string, writes bool) string { return keyRule(prefix, "!*", writes) }

func keyRule(prefix, rest string, writes bool) string {
	pattern := "~" + store.EscapeGlob(prefix) + rest
	if !writes {
		return "%R" + pattern
	}
	return pattern
}
