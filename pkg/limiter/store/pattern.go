package store

import (
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// Pattern selects subjects: one subject exactly, all that match a glob, or all in a network.
// The zero Pattern selects nothing; see [ParsePattern] and [ExactPattern].
type Pattern struct {
	subject string       // the exact subject, if it is neither a glob nor a network
	glob    string       // as it was written, if it is one of these
	tokens  []globToken  // of the glob, or of what stands before the network
	network netip.Prefix // in which the last value is
}

// globToken is one element of a glob: it stands for one character out of a set, or for any number of any characters.
type globToken struct {
	star    bool
	negated bool // without ranges it stands for any character
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
// A network at the end, as in ip:203.0.113.0/24 or ip:2001:db8::/32, selects the subjects whose last value is an
// address or a network inside it. A glob can stand before it, as in *:ip:203.0.113.0/24, and a network alone
// selects subjects that are addresses. An address that is a network's is masked.
//
// A text with none of these selects exactly that subject.
func ParsePattern(text string) (Pattern, error) {
	return parsePattern(text, ExactPattern, checkPart)
}

func parsePattern(text string, exactly func(string) (Pattern, error), check func(what, text string, most int) error) (Pattern, error) {
	before, network, isNetwork := cutNetwork(text)
	if !isNetwork && !strings.ContainsAny(text, `*?[\`) {
		return exactly(text)
	}
	if err := check("pattern", text, 2*MaxSubjectLength); err != nil {
		return Pattern{}, err
	}
	if isNetwork {
		tokens, _, err := parseGlob(before)
		return Pattern{glob: before + network.String(), tokens: tokens, network: network}, err
	}
	tokens, literal, err := parseGlob(text)
	switch {
	case err != nil:
		return Pattern{}, err
	case literal == "":
		return Pattern{glob: text, tokens: tokens}, nil
	}
	exact, err := exactly(literal) // every special character was escaped
	if err == nil {
		exact.glob = text
	}
	return exact, err
}

// parseGlob reads a glob. literal is the one text that it matches, if there is but one.
func parseGlob(text string) (tokens []globToken, literal string, err error) {
	var b strings.Builder
	isLiteral := true
	for rest := text; rest != ""; {
		r, size := decodeCharacter(rest)
		rest = rest[size:]
		token := globToken{}
		switch r {
		case '*':
			if n := len(tokens); n > 0 && tokens[n-1].star {
				continue // "**" is "*"
			}
			token.star = true
		case '?':
			token.negated = true
		case '[':
			if token, rest, err = parseSet(text, rest); err != nil {
				return nil, "", err
			}
		default:
			if r == '\\' {
				if rest == "" {
					return nil, "", Invalidf(`pattern %q ends in a lone backslash; write \\ for the backslash itself`, text)
				}
				r, size = decodeCharacter(rest)
				rest = rest[size:]
			}
			token = oneRune(r)
		}
		if isLiteral = isLiteral && token.isOneRune(); isLiteral {
			b.WriteString(characterText(token.ranges[0].low))
		}
		tokens = append(tokens, token)
	}
	if !isLiteral {
		return tokens, "", nil
	}
	return tokens, b.String(), nil
}

// oneRune is the token of a plain character.
func oneRune(r rune) globToken { return globToken{ranges: []runeRange{{r, r}}} }

// isOneRune tells a token written as a plain or escaped character, which is
// the only kind with a single range of a single rune outside a set.
func (t *globToken) isOneRune() bool {
	return !t.star && !t.negated && len(t.ranges) == 1 && t.ranges[0].low == t.ranges[0].high
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
func (p Pattern) IsZero() bool { return p.subject == "" && p.glob == "" }

// Exact returns the only subject that p selects, if p is neither a glob nor a network.
func (p Pattern) Exact() (subject string, exact bool) { return p.subject, p.subject != "" }

// LiteralBeginning returns the text with which all subjects begin that p selects. It may be empty.
func (p Pattern) LiteralBeginning() string {
	if p.subject != "" {
		return p.subject
	}
	var b strings.Builder
	for _, t := range p.elements() {
		if !t.isOneRune() {
			break
		}
		b.WriteString(characterText(t.ranges[0].low))
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
	if p.network.IsValid() {
		return p.match(subject, networksIn(subject))
	}
	return p.match(subject, nil)
}

// match is Match of a subject that ends in these networks.
func (p *Pattern) match(subject string, networks []networkAt) bool {
	switch {
	case p.subject != "" || p.glob == "":
		return p.subject != "" && subject == p.subject
	case p.network.IsValid():
		for i := range networks {
			if in := &networks[i]; in.Bits() >= p.network.Bits() && p.network.Contains(in.Addr()) &&
				matchTokens(p.tokens, subject[:in.at]) {
				return true
			}
		}
		return false
	}
	return matchTokens(p.tokens, subject)
}

// matchTokens reports whether a glob matches a text. It is greedy with one backtracking point: only the
// last star can usefully take one more character.
func matchTokens(tokens []globToken, subject string) bool {
	token, rest := 0, subject
	lastStar, starRest := -1, ""
	for {
		switch {
		case token < len(tokens) && tokens[token].star:
			lastStar, starRest = token, rest
			token++
			continue
		case rest == "" && token == len(tokens):
			return true
		case rest != "" && token < len(tokens):
			r, size := decodeCharacter(rest)
			if tokens[token].matches(r) {
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
	for _, set := range t.ranges {
		if set.low <= r && r <= set.high {
			return !t.negated
		}
	}
	return t.negated
}

// maxRedisStars bounds the stars of a glob for Redis, which recurses at each: at more than a thousand it selects
// nothing or, in old versions, overflows its stack. A hundred stars narrow a scan down well enough.
const maxRedisStars = 100

// RedisGlob returns a glob for Redis's MATCH that selects at least every subject that p selects: Redis matches
// bytes, so an element for one character becomes "*". A scan with it must also call Match. Characters that Redis
// would read as a glob are escaped.
func (p Pattern) RedisGlob() string {
	if p.subject != "" {
		return EscapeGlob(p.subject)
	}
	var b strings.Builder
	stars := 0
	for _, t := range p.elements() {
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

// elements are the tokens of a glob that selects at least what p does, and exactly that if p is no network.
func (p *Pattern) elements() []globToken {
	switch {
	case p.network.IsValid():
		return append(appendLiteral(slices.Clone(p.tokens), networkBeginning(p.network)), globToken{star: true})
	case p.subject != "":
		return appendLiteral(nil, p.subject)
	}
	return p.tokens
}

func appendLiteral(tokens []globToken, text string) []globToken {
	for text != "" {
		r, size := decodeCharacter(text)
		tokens, text = append(tokens, oneRune(r)), text[size:]
	}
	return tokens
}

// EscapeGlob returns a glob that matches exactly literal.
func EscapeGlob(literal string) string {
	_, _, isNetwork := cutNetwork(literal)
	if !isNetwork && !strings.ContainsAny(literal, `*?[]^-\`) {
		return literal
	}
	slash := -1 // one with a backslash before it is no network's
	if isNetwork {
		slash = strings.LastIndexByte(literal, '/')
	}
	var b strings.Builder
	for i, c := range []byte(literal) {
		if i == slash || strings.IndexByte(`*?[]^-\`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
