package store_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Store keys of other limiters hold any bytes, and patterns of them can, too.
func TestPatternOfStoreKeys(t *testing.T) {
	for _, test := range []struct {
		pattern, storeKey string
		want              bool
	}{
		{"*", "\xff\xfe", true},
		{"rate:?", "rate:\xff", true},
		{"rate:\xff*", "rate:\xfe\x01", false},
		{"rate:\xff*", "rate:\ufffdx", false},
		{"rate:\ufffd*", "rate:\xffx", false},
		{"rate:[\x80-\xff]", "rate:\xc3", true},
		{"rate:[\x80-\xff]", "rate:é", false},
		{"\\\xff*", "\xffa", true},
		{"LIMITS:{LIMITER/*", "LIMITS:{LIMITER/1.2.3.4/10/1/minute}", true},
		{"{*}:hits", "{ab:default}:hits", true},
	} {
		p, err := store.ParseStoreKeyPattern(test.pattern)
		if err != nil {
			t.Errorf("%q: %v", test.pattern, err)
			continue
		}
		if got := p.Match(test.storeKey); got != test.want {
			t.Errorf("%q selects %q: %v", test.pattern, test.storeKey, got)
		}
		if test.want && (!redisMatch(p.RedisGlob(), test.storeKey) ||
			!strings.HasPrefix(test.storeKey, p.LiteralBeginning())) {
			t.Errorf("%q selects %q, which has to match %q and begin with %q", test.pattern, test.storeKey,
				p.RedisGlob(),
				p.LiteralBeginning())
		}
	}
	for _, wrong := range []string{"", "[a", "a\\", "[]", strings.Repeat("x", 4000) + "*"} {
		if p, err := store.ParseStoreKeyPattern(wrong); err == nil {
			t.Errorf("%.20q is read as %q", wrong, p)
		}
	}
}

// Whatever a key is, it is selected by itself, by itself with escapes, and by its beginning.
func TestPatternOfAnyStoreKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		storeKey := string(rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "key"))
		exact, err := store.ExactStoreKeyPattern(storeKey)
		if err != nil || !exact.Match(storeKey) || !redisMatch(exact.RedisGlob(), storeKey) {
			t.Fatalf("exactly it is %q, %v", exact, err)
		}
		escaped, err := store.ParseStoreKeyPattern(store.EscapeGlob(storeKey))
		if err != nil || !escaped.Match(storeKey) {
			t.Fatalf("escaped it is %q, %v", escaped, err)
		}
		begun, err := store.ParseStoreKeyPattern(store.EscapeGlob(storeKey) + "*")
		if err != nil || !begun.Match(storeKey+"x") || !redisMatch(begun.RedisGlob(), storeKey+"\xff") ||
			begun.LiteralBeginning() != storeKey {
			t.Fatalf("its beginning is %q, %v", begun, err)
		}
	})
}
