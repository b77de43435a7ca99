package limiter

import (
	"strings"
	"unicode/utf8"
)

// Pattern selects subjects: one subject exactly, or all that match a glob.
// The zero Pattern selects nothing; see [ParsePattern] and [ExactPattern].
type Pattern struct {
	subject string // the exact subject, when tokens is nil
	glob    string // as it was written, if with the characters of a glob
	tokens  []globToken
}

// globToken is one element of a glob: it stands for one character out of a
// set, or for any number of any characters.
type globToken struct {
	star    bool
	any     bool // any one character
	negated bool
	ranges  []runeRange
}

type runeRange struct{ low, high rune }

// ParsePattern reads a glob over subjects:
//
//	?        one character
//	*        any number of characters, ":" among them
//	[ab0-9]  one character of the set; [^ab] one that is not in it
//	\c       the character c itself
//
// A text with none of these characters selects exactly that subject.
func ParsePattern(text string) (Pattern, error) {
	return parsePattern(text, ExactPattern, checkPart)
}

func parsePattern(text string, exactly func(string) (Pattern, error), check func(what, text string, most int) error) (Pattern, error) {
	if !strings.ContainsAny(text, `*?[\`) {
		return exactly(text)
	}
	if err := check("pattern", text, 2*MaxSubjectLength); err != nil {
		return Pattern{}, err
	}
	p := Pattern{glob: text}
	rest := text
	literal, isLiteral := strings.Builder{}, true
	for rest != "" {
		r, size := decodeCharacter(rest)
		rest = rest[size:]
		token := globToken{}
		switch r {
		case '*':
			if n := len(p.tokens); n > 0 && p.tokens[n-1].star {
				continue // "**" is "*"
			}
			token.star = true
		case '?':
			token.any = true
		case '[':
			var err error
			if token, rest, err = parseSet(text, rest); err != nil {
				return Pattern{}, err
			}
		default:
			if r == '\\' {
				if rest == "" {
					return Pattern{}, Invalidf(`pattern %q ends in a lone backslash; write \\ for the backslash itself`, text)
				}
				r, size = decodeCharacter(rest)
				rest = rest[size:]
			}
			token.ranges = []runeRange{{r, r}}
		}
		if isLiteral = isLiteral && token.isOneRune(); isLiteral {
			literal.WriteString(characterText(token.ranges[0].low))
		}
		p.tokens = append(p.tokens, token)
	}
	if isLiteral { // every special character was escaped
		exact, err := exactly(literal.String())
		if err == nil {
			exact.glob = text
		}
		return exact, err
	}
	return p, nil
}

// isOneRune tells a token written as a plain or escaped character, which is
// the only kind with a single range of a single rune outside a set.
func (t *globToken) isOneRune() bool {
	return !t.star && !t.any && !t.negated && len(t.ranges) == 1 && t.ranges[0].low == t.ranges[0].high
}

// parseSet reads a set after its "[" and returns what follows its "]".
func parseSet(text, rest string) (set globToken, after string, err error) {
	unclosed := func() (globToken, string, error) {
		return globToken{}, "", Invalidf(`pattern %q has a "[" without its "]"; write \[ for the bracket itself`, text)
	}
	next := func() (r rune, escaped, ok bool) {
		if rest == "" {
			return 0, false, false
		}
		r, size := decodeCharacter(rest)
		rest = rest[size:]
		if r != '\\' {
			return r, false, true
		}
		r, size = decodeCharacter(rest)
		rest = rest[size:]
		return r, true, size > 0
	}
	if after, found := strings.CutPrefix(rest, "^"); found {
		set.negated, rest = true, after
	}
	for {
		low, escaped, ok := next()
		if !ok {
			return unclosed()
		}
		if low == ']' && !escaped {
			if len(set.ranges) == 0 {
				return globToken{}, "", Invalidf("pattern %q has an empty set; put at least one character between the brackets", text)
			}
			return set, rest, nil
		}
		high := low
		if strings.HasPrefix(rest, "-") && !strings.HasPrefix(rest, "-]") {
			rest = rest[1:]
			if high, _, ok = next(); !ok {
				return unclosed()
			}
		}
		set.ranges = append(set.ranges, runeRange{min(low, high), max(low, high)})
	}
}

// ExactPattern selects exactly that subject, glob characters included.
func ExactPattern(subject string) (Pattern, error) {
	if err := (Key{Subject: subject}).Validate(); err != nil {
		return Pattern{}, err
	}
	return Pattern{subject: subject}, nil
}

// ParseStoreKeyPattern reads a glob as [ParsePattern] does, over subjects or store keys of other
// limiters, which can hold any bytes: braces, control characters and what is not UTF-8. A byte
// that is not part of a character in UTF-8 is a character by itself.
func ParseStoreKeyPattern(text string) (Pattern, error) {
	return parsePattern(text, ExactStoreKeyPattern, checkLength)
}

// ExactStoreKeyPattern selects exactly that text, whatever bytes it has.
func ExactStoreKeyPattern(text string) (Pattern, error) {
	if err := checkLength("pattern", text, 2*MaxSubjectLength); err != nil {
		return Pattern{}, err
	}
	return Pattern{subject: text}, nil
}

// checkLength is checkPart for a text of any bytes.
func checkLength(what, text string, most int) error {
	if text == "" || len(text) > most {
		return checkPart(what, text, most)
	}
	return nil
}

// firstByte is the character that stands for the byte 0, where that is not UTF-8, and so on.
const firstByte = utf8.MaxRune + 1

// decodeCharacter returns the first character of a text, as patterns see it.
func decodeCharacter(text string) (character rune, size int) {
	if character, size = utf8.DecodeRuneInString(text); character == utf8.RuneError && size == 1 {
		return firstByte + rune(text[0]), 1
	}
	return character, size
}

// characterText is the text of a character.
func characterText(character rune) string {
	if character >= firstByte {
		return string([]byte{byte(character - firstByte)})
	}
	return string(character)
}

// IsZero reports whether p is the zero Pattern.
func (p Pattern) IsZero() bool { return p.subject == "" && p.tokens == nil }

// Exact returns the one subject that p selects, if p is not a glob.
func (p Pattern) Exact() (subject string, exact bool) {
	return p.subject, p.tokens == nil && p.subject != ""
}

// LiteralBeginning returns what all subjects begin with that p selects. It may be empty.
func (p Pattern) LiteralBeginning() string {
	if p.tokens == nil {
		return p.subject
	}
	var b strings.Builder
	for i := range p.tokens {
		if !p.tokens[i].isOneRune() {
			break
		}
		b.WriteString(characterText(p.tokens[i].ranges[0].low))
	}
	return b.String()
}

// String returns the pattern as it was written.
func (p Pattern) String() string {
	if p.glob == "" {
		return p.subject
	}
	return p.glob
}

// Match reports whether p selects subject. It takes time in proportion to
// len(pattern) × len(subject) at worst, for any pattern.
func (p Pattern) Match(subject string) bool {
	if p.tokens == nil {
		return p.subject != "" && subject == p.subject
	}
	// Greedy matching with one backtracking point: only the last star can
	// usefully take one more character.
	token, rest := 0, subject
	lastStar, starRest := -1, ""
	for {
		switch {
		case token < len(p.tokens) && p.tokens[token].star:
			lastStar, starRest = token, rest
			token++
			continue
		case rest == "" && token == len(p.tokens):
			return true
		case rest != "" && token < len(p.tokens):
			r, size := decodeCharacter(rest)
			if p.tokens[token].matches(r) {
				token, rest = token+1, rest[size:]
				continue
			}
		}
		if lastStar < 0 || starRest == "" {
			return false
		}
		_, size := decodeCharacter(starRest)
		starRest = starRest[size:]
		token, rest = lastStar+1, starRest
	}
}

func (t *globToken) matches(r rune) bool {
	if t.any {
		return true
	}
	for _, set := range t.ranges {
		if set.low <= r && r <= set.high {
			return !t.negated
		}
	}
	return t.negated
}

// maxRedisStars bounds the stars of a glob for Redis, which recurses at each:
// at more than a thousand it selects nothing or, in old versions, overflows its
// stack. A hundred stars narrow a scan down well enough.
const maxRedisStars = 100

// RedisGlob returns a glob for Redis's MATCH that selects at least every
// subject p does: Redis matches bytes, so what stands for one character here is
// widened to "*" there. Whoever scans with it asks Match again. Characters that
// Redis would read as a glob are escaped.
func (p Pattern) RedisGlob() string {
	if p.tokens == nil {
		return EscapeGlob(p.subject)
	}
	var b strings.Builder
	stars := 0
	for i := range p.tokens {
		t := &p.tokens[i]
		if t.isOneRune() {
			b.WriteString(EscapeGlob(characterText(t.ranges[0].low)))
		} else if !strings.HasSuffix(b.String(), "*") || strings.HasSuffix(b.String(), `\*`) {
			b.WriteByte('*')
			if stars++; stars == maxRedisStars {
				break // this star stands for all that follows
			}
		}
	}
	return b.String()
}

// EscapeGlob returns a glob that matches exactly literal.
func EscapeGlob(literal string) string {
	if !strings.ContainsAny(literal, `*?[]^-\`) {
		return literal
	}
	var b strings.Builder
	for _, c := range []byte(literal) {
		if strings.IndexByte(`*?[]^-\`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
