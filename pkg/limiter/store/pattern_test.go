package store_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestParsePatternErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "subject is empty; it needs at least one character"},
		{"a\n", `subject "a\n" contains the control character U+000A; leave it out`},
		{"{a}*", `pattern "{a}*" contains '{', which delimits the subject in a key; leave it out`},
		{"*\xff", `pattern "*\xff" is not valid UTF-8`},
		{`a\`, `pattern "a\\" ends in a lone backslash; write \\ for the backslash itself`},
		{"[", `pattern "[" has a "[" without its "]"; write \[ for the bracket itself`},
		{`[a\]`, `pattern "[a\\]" has a "[" without its "]"; write \[ for the bracket itself`},
		{"[]", `pattern "[]" has an empty set; put at least one character between the brackets`},
		{strings.Repeat("a", store.MaxSubjectLength+1),
			`subject "aaaaaaaaaaaaaaaaaaaa"… is 1025 bytes long; at most 1024 fit`},
	} {
		p, err := store.ParsePattern(test.text)
		if err == nil || err.Error() != test.want {
			t.Errorf("%q: the error is\n  %v\nnot\n  %s", test.text, err, test.want)
			continue
		}
		checkOneLine(t, err)
		if p.String() != "" || p.Match(test.text) {
			t.Errorf("%q: a pattern %q comes with an error", test.text, p)
		}
	}
}

// Redis recurses at each star and gives up on a deep recursion, so a glob with more stars than that would miss keys.
func TestRedisGlobOfManyStars(t *testing.T) {
	for _, stars := range []int{50, 99, 100, 101, 1000, 1023} {
		pattern := strings.Repeat("*a", stars)
		p, err := store.ParsePattern(pattern)
		must(t, err)
		subject := strings.Repeat("a", stars)
		if !p.Match(subject) || !redisMatch(p.RedisGlob(), subject) {
			t.Errorf("%d stars: Redis misses what the pattern selects", stars)
		}
		if n := strings.Count(p.RedisGlob(), "*"); n != min(stars, 100) {
			t.Errorf("%d stars are %d for Redis", stars, n)
		}
		if p.Match(subject[1:]) || redisMatch(p.RedisGlob(), subject[:min(stars, 99)-1]) {
			t.Errorf("%d stars: a subject is selected that is too short", stars)
		}
	}
}

// member is one of a set, and set all of one, in the grammar of ParsePattern's documentation.
var (
	member = regexp.MustCompile(`(\\.|[^]\\])(?:-(\\.|[^]\\]))?`)
	set    = regexp.MustCompile(`^\[\^?(?:` + member.String() + `)+\]`)
)

// expression is what a glob means as a regular expression; nil for a glob that breaks the grammar.
func expression(text string) *regexp.Regexp {
	if text == "" || !utf8.ValidString(text) || strings.ContainsAny(text, "{}") ||
		strings.ContainsFunc(text, unicode.IsControl) {
		return nil
	}
	re := "^"
	for rest := text; rest != ""; {
		first, size := utf8.DecodeRuneInString(rest)
		switch first {
		case '*':
			re += "(?s:.)*"
		case '?':
			re += "(?s:.)"
		case '[':
			size = len(set.FindString(rest))
			if size == 0 || rest[:size] == "[^]" {
				return nil
			}
			members, negated := strings.CutPrefix(rest[1:size-1], "^")
			re += map[bool]string{true: "[^", false: "["}[negated]
			for _, m := range member.FindAllStringSubmatch(members, -1) {
				from, _ := utf8.DecodeLastRuneInString(m[1])
				to, _ := utf8.DecodeLastRuneInString(cmp.Or(m[2], m[1]))
				re += fmt.Sprintf(`\x{%x}-\x{%x}`, min(from, to), max(from, to))
			}
			re += "]"
		case '\\':
			escaped, more := utf8.DecodeRuneInString(rest[1:])
			if size += more; more == 0 {
				return nil
			}
			re += regexp.QuoteMeta(string(escaped))
		default:
			re += regexp.QuoteMeta(string(first))
		}
		rest = rest[size:]
	}
	return regexp.MustCompile(re + "$")
}

// redisMatch decides as the MATCH of a Redis server does about the globs that we send: they have stars, and characters
// with a backslash or without.
func redisMatch(glob, text string) bool {
	literals := []string{""}
	for i := 0; i < len(glob); i++ {
		switch {
		case glob[i] == '*':
			literals = append(literals, "")
			continue
		case glob[i] == '?' || glob[i] == '[':
			return false
		case glob[i] == '\\' && i+1 < len(glob):
			i++
		}
		literals[len(literals)-1] += glob[i : i+1]
	}
	last := len(literals) - 1
	rest, begins := strings.CutPrefix(text, literals[0])
	if last == 0 || !begins {
		return begins && rest == ""
	}
	for _, literal := range literals[1:last] {
		_, after, found := strings.Cut(rest, literal)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, literals[last])
}

// endsInNetwork reports whether a text, or what follows one of its colons, is a network.
func endsInNetwork(text string) bool {
	for rest, more := text, true; more; _, rest, more = strings.Cut(rest, ":") {
		if _, err := netip.ParsePrefix(rest); err == nil {
			return true
		}
	}
	return false
}

func checkPattern(t interface{ Fatalf(string, ...any) }, text, subject string) {
	const prefix, name = "r*l", "login/ip"
	// What a scan sends to Redis.
	scan := func(p store.Pattern) string { return store.EscapeGlob(prefix) + ":{" + p.RedisGlob() + "}:*" }

	if exact, err := store.ExactPattern(subject); err == nil {
		again, err := store.ParsePattern(exact.String())
		if same, is := again.Exact(); err != nil || !exact.Match(subject) || !is || same != subject {
			t.Fatalf("the exact pattern of %q is %q", subject, exact)
		}
		if exact.Match(text) != (text == subject) || redisMatch(exact.RedisGlob(), text) != (text == subject) {
			t.Fatalf("the exact pattern of %q selects %q", subject, text)
		}
		escaped, err := store.ParsePattern(store.EscapeGlob(subject))
		if err != nil {
			t.Fatalf("%q escaped: %v", subject, err)
		}
		if literal, ok := escaped.Exact(); !ok || literal != subject {
			t.Fatalf("%q escaped selects exactly %q, %t", subject, literal, ok)
		}
		if !redisMatch(scan(exact), admin.OwnLayout(prefix).StoreKey(store.Key{Subject: subject, Name: name})) {
			t.Fatalf("Redis misses %q by %q", subject, scan(exact))
		}
	}

	if endsInNetwork(text) {
		return // networks have tests of their own
	}
	p, err := store.ParsePattern(text)
	meaning := expression(text)
	ok := meaning != nil
	if len(text) > store.MaxSubjectLength {
		ok = err == nil // how long what it selects may be is another test's
	}
	if ok != (err == nil) {
		t.Fatalf("%q is a glob: %t, but the error is %v", text, ok, err)
	}
	if err != nil {
		checkOneLine(t, err)
		if text != "" && len(text) <= store.MaxSubjectLength && !strings.Contains(err.Error(), strconv.Quote(text)) {
			t.Fatalf("%q is not in its error %v", text, err)
		}
		return
	}
	if p.String() != text {
		t.Fatalf("%q is written %q", text, p)
	}
	if literal, exact := p.Exact(); exact {
		if p.Match(subject) != (subject == literal) || !p.Match(literal) {
			t.Fatalf("%q selects %q besides exactly %q", text, subject, literal)
		}
	}
	if len(text) > 1000 || !utf8.ValidString(subject) {
		return // an expression knows no bytes, and has a bound
	}
	matches := p.Match(subject)
	if want := meaning.MatchString(subject); matches != want {
		t.Fatalf("%q selects %q: %t", text, subject, matches)
	}
	if key := (store.Key{Subject: subject, Name: name}); matches && key.Validate() == nil {
		if !redisMatch(p.RedisGlob(), subject) {
			t.Fatalf("%q selects %q, but by %q Redis does not", text, subject, p.RedisGlob())
		}
		if storeKey := admin.OwnLayout(prefix).StoreKey(key); !redisMatch(scan(p), storeKey) {
			t.Fatalf("%q selects %q, but Redis misses %q by %q", text, subject, storeKey, scan(p))
		}
	}
}

func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{
		{"user:42", "user:42"}, {"tenant:acme:*", "tenant:acme:user:42"}, {"a?c", "a用c"}, {"[^ab]*", "cab"},
		{`\*`, "*"},
		{`a\`, `a\`}, {"[", "["}, {"[]", "]"}, {`[\]-a]`, "^"}, {"[z-a]", "m"}, {"**a**b", "ab"}, {"*a*b*a", "abababa"},
		{`\\*`, `\x`}, {"[用-龥]?", "用户"}, {"*\xff", "\xff"}, {"[a-]", "-"}, {"[^^]", "^"}, {`*\**`, "a*b"},
		{"{a}*", "{a}"},
		{strings.Repeat("*a", 101), strings.Repeat("a", 101)},
		{"a-b^c", "a-b^c"}, {`user:\[42\]`, "user:[42]"}, {"[*]", "*"}, {"[a-a]b", "ab"}, {`[\]]`, "]"}, {"a{", "a{"},
		{`\u\s\e\r`, "ab]-^"}, {"user:42", "user:421"}, {"user:42", "USER:42"}, {"tenant:acme:*", "tenant:acme:"},
		{"tenant:acme:*", "xtenant:acme:x"}, {"a?c", "abbc"}, {"[9-0]", "5"}, {`[a\-c]`, "b"}, {`a\*b*`, "aXb"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, subject string) { checkPattern(t, text, subject) })
}

// Globs out of the characters that mean something, with a subject that each selects and one a character away from it: a
// fuzzer rarely finds such a pair.
func TestPatternOfAnyGlob(t *testing.T) {
	letters := []rune(`ab:-^*?[]\é用`)
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			text := rapid.StringOfN(rapid.RuneFrom(letters), 1, 10, -1).Draw(t, "pattern")
			meaning := expression(text)
			if meaning == nil {
				checkPattern(t, text, "a")
				continue
			}
			selected := strings.ReplaceAll(meaning.String(), "(?s:.)", "[ab:*?é用-]")
			subject := []rune(rapid.StringMatching(selected).Draw(t, "subject"))
			checkPattern(t, text, string(subject))
			if len(subject) > 0 {
				i := rapid.IntRange(0, len(subject)-1).Draw(t, "place")
				subject[i] = rapid.SampledFrom(letters).Draw(t, "other")
				checkPattern(t, text, string(subject))
				checkPattern(t, text, string(append(subject[:i], subject[i+1:]...)))
			}
		}
	})
}

// Store keys of other limiters hold any bytes, and patterns of them can, too.
func TestPatternOfStoreKeys(t *testing.T) {
	for _, test := range []struct {
		pattern, storeKey string
		want              bool
	}{
		{"rate:?", "rate:\xff", true}, {"rate:\xff*", "rate:\ufffdx", false}, {"rate:\ufffd*", "rate:\xffx", false},
		{"rate:[\x80-\xff]", "rate:\xc3", true}, {"rate:[\x80-\xff]", "rate:é", false}, {"{*}:hits", "{ab}:hits", true},
	} {
		p, err := store.ParseStoreKeyPattern(test.pattern)
		if err != nil || p.Match(test.storeKey) != test.want {
			t.Errorf("%q selects %q: %v, %v", test.pattern, test.storeKey, !test.want, err)
		}
	}
	if p, err := store.ParseStoreKeyPattern(strings.Repeat("x", 4000) + "*"); err == nil {
		t.Errorf("it is read as %q", p)
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
