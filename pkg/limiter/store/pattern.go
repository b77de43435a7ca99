package store

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/subjecttext"
)

// Pattern selects subjects: one subject exactly, all that match a glob, or all in a network.
// The zero Pattern selects nothing; see [ParsePattern] and [ExactPattern].
type Pattern struct {
	subject string       // the exact subject, if it is neither a glob nor a network
	glob    string       // as it was written, if it has special characters or a network
	begin   string       // what all subjects begin with
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
	p, err := parseGlob(text)
	if err == nil && p.glob != "" {
		err = checkPart("pattern", text, 2*MaxSubjectLength)
	}
	if err == nil && p.tokens == nil && !p.network.IsValid() {
		err = Key{Subject: p.subject}.Validate()
	}
	if err != nil {
		return Pattern{}, err
	}
	return p, nil
}

// ParseStoreKeyPattern reads a glob as [ParsePattern] does, over subjects or store keys of other limiters, which can
// hold any bytes. A byte that is not part of a character in UTF-8 is a character by itself.
func ParseStoreKeyPattern(text string) (Pattern, error) {
	if _, err := ExactStoreKeyPattern(text); err != nil {
		return Pattern{}, err
	}
	return parseGlob(text)
}

// ExactPattern selects exactly that subject, glob characters included.
func ExactPattern(subject string) (Pattern, error) {
	if err := (Key{Subject: subject}).Validate(); err != nil {
		return Pattern{}, err
	}
	return Pattern{subject: subject, begin: subject}, nil
}

// ExactStoreKeyPattern selects exactly that text, whatever bytes it has.
func ExactStoreKeyPattern(text string) (Pattern, error) {
	if most := 2 * MaxSubjectLength; text == "" || len(text) > most {
		return Pattern{}, checkPart("pattern", text, most)
	}
	return Pattern{subject: text, begin: text}, nil
}

// parseGlob reads a pattern of any bytes.
func parseGlob(text string) (p Pattern, err error) {
	in, literal := globReader{text, text}, true
	before, network, isNetwork := cutNetwork(text)
	if isNetwork {
		in.rest = before
	}
	for in.rest != "" {
		r, escaped, ok := in.next()
		token := globToken{ranges: []runeRange{{r, r}}}
		switch {
		case !ok:
			return Pattern{}, Invalidf(`pattern %q ends in a lone backslash; write \\ for the backslash itself`, text)
		case escaped:
		case r == '*':
			if n := len(p.tokens); n > 0 && p.tokens[n-1].star {
				continue // "**" is "*"
			}
			token = globToken{star: true}
		case r == '?':
			token = globToken{negated: true}
		case r == '[':
			if token, err = in.set(); err != nil {
				return Pattern{}, err
			}
		}
		if literal = literal && token.isOneRune(); literal {
			p.begin += token.text()
		}
		p.tokens = append(p.tokens, token)
	}
	switch {
	case isNetwork:
		if p.glob, p.network = before+network.String(), network; literal {
			p.begin += networkBeginning(network)
		}
	case !literal:
		p.glob = text
	default:
		if p.subject, p.tokens = p.begin, nil; p.subject != text { // every special character was escaped
			p.glob = text
		}
	}
	return p, nil
}

// globReader reads the rest of a glob.
type globReader struct{ text, rest string }

// next returns a character, and whether a backslash stands before it. ok is false at the end.
func (in *globReader) next() (r rune, escaped, ok bool) {
	r, size := decodeCharacter(in.rest)
	in.rest = in.rest[size:]
	if escaped = r == '\\'; escaped {
		r, size = decodeCharacter(in.rest)
		in.rest = in.rest[size:]
	}
	return r, escaped, size > 0
}

// set reads a set after its "[".
func (in *globReader) set() (set globToken, err error) {
	if after, found := strings.CutPrefix(in.rest, "^"); found {
		set.negated, in.rest = true, after
	}
	for {
		low, escaped, ok := in.next()
		if low == ']' && !escaped {
			if len(set.ranges) == 0 {
				err = Invalidf("pattern %q has an empty set; put at least one character between the brackets", in.text)
			}
			return set, err
		}
		high := low
		if strings.HasPrefix(in.rest, "-") && !strings.HasPrefix(in.rest, "-]") {
			in.rest = in.rest[1:]
			high, _, ok = in.next()
		}
		if !ok {
			return set, Invalidf(`pattern %q has a "[" without its "]"; write \[ for the bracket itself`, in.text)
		}
		set.ranges = append(set.ranges, runeRange{min(low, high), max(low, high)})
	}
}

// isOneRune reports whether t stands for one character, as a plain or an escaped one does.
func (t *globToken) isOneRune() bool {
	return !t.star && !t.negated && len(t.ranges) == 1 && t.ranges[0].low == t.ranges[0].high
}

// text is the text of a token of one character.
func (t *globToken) text() string {
	if r := t.ranges[0].low; r < firstByte {
		return string(r)
	}
	return string([]byte{byte(t.ranges[0].low - firstByte)})
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

// IsZero reports whether p is the zero Pattern.
func (p Pattern) IsZero() bool { return p.subject == "" && p.glob == "" }

// Exact returns the only subject that p selects, if p is neither a glob nor a network.
func (p Pattern) Exact() (subject string, exact bool) { return p.subject, p.subject != "" }

// LiteralBeginning returns the text with which all subjects begin that p selects. It may be empty.
func (p Pattern) LiteralBeginning() string { return p.begin }

// String returns the pattern as [ParsePattern] reads it; empty for the zero Pattern.
func (p Pattern) String() string {
	if _, _, isNetwork := cutNetwork(p.subject); p.glob == "" && (isNetwork || strings.ContainsAny(p.subject, `*?[\`)) {
		return EscapeGlob(p.subject)
	}
	return cmp.Or(p.glob, p.subject)
}

// Match reports whether p selects subject, in time of at most the product of their lengths.
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

// matchTokens reports whether a glob matches a text. Only the last star can usefully take one more character.
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

// maxRedisStars bounds the stars of a glob for Redis, which recurses at each.
const maxRedisStars = 100

// RedisGlob returns a glob for Redis's MATCH that selects at least what p does. A scan with it must also call Match.
func (p Pattern) RedisGlob() string {
	if p.subject != "" {
		return EscapeGlob(p.subject)
	}
	var b strings.Builder
	stars, last := 0, false
	for _, t := range p.tokens {
		if one := t.isOneRune(); one {
			b.WriteString(EscapeGlob(t.text()))
			last = false
		} else if !last {
			b.WriteByte('*')
			if stars++; stars == maxRedisStars {
				return b.String() // this star stands for all that follows
			}
			last = true
		}
	}
	if p.network.IsValid() {
		b.WriteString(networkBeginning(p.network) + "*")
	}
	return b.String()
}

// EscapeGlob returns a glob that matches exactly literal.
func EscapeGlob(literal string) string {
	slash := -1 // one with a backslash before it is no network's
	if _, _, isNetwork := cutNetwork(literal); isNetwork {
		slash = strings.LastIndexByte(literal, '/')
	}
	var b strings.Builder
	for i, c := range []byte(literal) {
		if i == slash || strings.IndexByte(`*?[]\`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// cutNetwork takes a text apart that ends in a network behind a colon, or is one. A subject is made of
// names and values in turn, so the network is looked for where a value begins.
func cutNetwork(text string) (before string, network netip.Prefix, ok bool) {
	if !strings.Contains(text, "/") {
		return "", netip.Prefix{}, false
	}
	if name, _, _ := strings.Cut(text, ":"); !subjecttext.IsName(name) {
		if network, err := netip.ParsePrefix(text); err == nil {
			return "", network.Masked(), true
		}
	}
	colons := 0
	// where else one begins, such as behind a glob for several names and values, the first counts
	for at, c := range text {
		if c != ':' {
			continue
		}
		colons++
		here, err := netip.ParsePrefix(text[at+1:])
		if err == nil && (colons%2 == 1 || !ok) {
			before, network, ok = text[:at+1], here.Masked(), true
		}
		if err == nil && colons%2 == 1 {
			break
		}
	}
	return before, network, ok
}

// parseNetwork reads a value of a subject that is an address or a network. IPv6 can be escaped.
func parseNetwork(value string) (netip.Prefix, bool) {
	if strings.Contains(value, "%") {
		var ok bool
		if value, ok = subjecttext.Unescape(value); !ok {
			return netip.Prefix{}, false
		}
	}
	if strings.Contains(value, "/") {
		network, err := netip.ParsePrefix(value)
		return network, err == nil
	}
	address, err := netip.ParseAddr(value)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address.WithZone(""), address.BitLen()), true
}

// networkAt is a network, or an address, that a subject ends in, and where it begins there.
type networkAt struct {
	at int
	netip.Prefix
}

// networksIn returns what can be read as a network at the end of a subject, behind any of its colons.
func networksIn(subject string) (all []networkAt) {
	for at := 0; ; {
		if network, ok := parseNetwork(subject[at:]); ok {
			all = append(all, networkAt{at, network})
		}
		next := strings.IndexByte(subject[at:], ':')
		if next < 0 {
			return all
		}
		at += next + 1
	}
}

// networkBeginning is what all values in a network begin with: its whole octets, for IPv4. IPv6 has many spellings.
func networkBeginning(network netip.Prefix) string {
	if !network.Addr().Is4() {
		return ""
	}
	octets := network.Addr().As4()
	var b []byte
	for _, octet := range octets[:min(network.Bits()/8, 3)] {
		b = append(strconv.AppendUint(b, uint64(octet), 10), '.')
	}
	return string(b)
}

// NetworkOf returns the network of ipv4 or ipv6 bits that the last value of a subject is in, or that itself if it is
// wider.
func NetworkOf(subject string, ipv4, ipv6 int) (network netip.Prefix, ok bool) {
	all := networksIn(subject)
	if len(all) == 0 {
		return netip.Prefix{}, false
	}
	network = all[0].Prefix
	if network.Addr().Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	bits := ipv6
	if network.Addr().Is4() {
		bits = ipv4
	}
	return netip.PrefixFrom(network.Addr(), min(bits, network.Bits())).Masked(), true
}
