package redisserver

import (
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// LayoutRights are the additional rights of roles to read and change the keys of other limiters. They are tried on
// an unused store key.
func LayoutRights(storeKey string) []Right {
	var (
		looking  = []string{"inspect", "doctor", "reset"}
		changing = []string{"reset", "restore"}
	)
	return []Right{
		{Command: "hgetall", For: looking, Try: []any{"hgetall", storeKey}},
		{Command: "hlen", For: looking, Try: []any{"hlen", storeKey}},
		{Command: "llen", For: looking, Try: []any{"llen", storeKey}},
		{Command: "lrange", For: looking, Try: []any{"lrange", storeKey, 0, 0}},
		{Command: "scard", For: looking, Try: []any{"scard", storeKey}},
		{Command: "zcard", For: looking, Try: []any{"zcard", storeKey}},
		{Command: "zrange", For: looking, Try: []any{"zrange", storeKey, 0, 0}},
		{Command: "dump", For: changing, Try: []any{"dump", storeKey}},
		{Command: "hget", For: changing, Try: []any{"hget", storeKey, ""}},
		{Command: "hset", For: changing, Try: []any{"hset", storeKey, "", "", ""}, Writes: true}, // a value is missing
		{Command: "hdel", For: []string{"reset"}, Try: []any{"hdel", storeKey, ""}, Writes: true},
		{Command: "unlink", For: changing, Try: []any{"unlink", storeKey}, Writes: true},
		{Command: "restore", For: []string{"restore"}, Try: []any{"restore", storeKey, -1, ""}, Writes: true},
	}
}

// LayoutRule returns the words to add to a [Role.Rule] for keys of other limiters with one of these prefixes.
func (r *Role) LayoutRule(prefixes ...string) []string {
	var words []string
	for _, prefix := range prefixes {
		pattern := "~" + store.EscapeGlob(prefix) + "*"
		if !r.Writes {
			pattern = "%R" + pattern
		}
		words = append(words, pattern)
	}
	has := r.Rule("")
	for _, right := range LayoutRights("") {
		if word := "+" + right.Command; r.Needs(right) && !slices.Contains(has, word) {
			words = append(words, word)
		}
	}
	return words
}
