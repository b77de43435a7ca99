// Package redact removes known secrets from texts: from those of others, such as servers that repeat what they were
// sent, and as the last line of defence from our own.
//
// It looks for the secrets themselves and not for texts that look like one: as they are, and in the usual escapes of
// a URL, a quoted text, JSON and base64, whole or cut off at the end. It does not find what somebody hides on purpose.
package redact

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/texts"
)

// Mark replaces a secret.
const Mark = "xxxxx"

// withheld replaces a text of others that contains a secret too short to be replaced: its letters would be replaced
// in many places, which would show where it was.
const withheld = "its text is withheld, since the password may be in it"

const (
	// short is the length from which a secret is replaced. A text of others with a shorter one is withheld.
	short = 4
	// word is the length from which a secret of letters is no word of ours, and a beginning of a secret no accident.
	word = 8
	// mostOfOthers is the most bytes of a text of others. Nobody reads more.
	mostOfOthers = 600
	// mostLearned is how many replaced secrets are remembered.
	mostLearned = 8
)

// Secrets are texts that must not be shown. A nil or empty *Secrets has none. It is safe for concurrent use.
type Secrets struct {
	mu            sync.RWMutex
	list, learned []string
}

// New returns Secrets with these texts, except empty ones.
func New(secrets ...string) *Secrets {
	s := new(Secrets)
	s.Add(secrets...)
	return s
}

// Add adds secrets that became known later.
func (s *Secrets) Add(secrets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range secrets {
		if text != "" && !slices.Contains(s.list, text) {
			s.list = append(s.list, text)
		}
	}
}

// Learn adds a secret that replaces earlier ones, such as a token for each connection. Only the last few are
// remembered.
func (s *Secrets) Learn(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != "" && !slices.Contains(s.learned, text) {
		s.learned = append(slices.Clone(s.learned[max(0, len(s.learned)-mostLearned+1):]), text)
	}
}

func (s *Secrets) all() []string {
	if s == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Concat(s.list, s.learned)
}

// Remove returns an untrusted text without the secrets.
func (s *Secrets) Remove(text string) string {
	secrets := s.all()
	var parts []string
	for _, secret := range secrets {
		if utf8.RuneCountInString(secret) < short {
			for _, written := range spellings(secret) {
				if strings.Contains(strings.ToLower(text), strings.ToLower(written)) {
					return withheld
				}
			}
		}
		// A program that splits a text at its spaces may repeat one word of it.
		for _, part := range strings.FieldsFunc(
			secret, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			if utf8.RuneCountInString(part) >= short {
				parts = append(parts, part)
			}
		}
	}
	return replace(removeCut(replace(text, secrets), secrets), parts)
}

// removeCut replaces beginnings of the secrets by [Mark], because servers cut what they repeat.
func removeCut(text string, secrets []string) string {
	for _, secret := range secrets {
		for _, w := range spellings(secret) {
			if len(w) <= word {
				continue
			}
			for i := strings.Index(text, w[:word]); i >= 0; i = strings.Index(text, w[:word]) {
				n := word
				for n < len(w) && i+n < len(text) && text[i+n] == w[n] {
					n++
				}
				text = text[:i] + Mark + text[i+n:] // shorter than before, so this ends
			}
		}
	}
	return text
}

// Answer is [Secrets.Remove] for an error reply of a server. It also removes useless parts: the arguments that
// Redis repeats, and what exceeds the length of a line.
func (s *Secrets) Answer(text string) string {
	const arguments = "with args beginning with"
	for i := 0; i+len(arguments) <= len(text); i++ {
		if strings.EqualFold(text[i:i+len(arguments)], arguments) {
			text = strings.TrimRight(text[:i], " ,")
			break
		}
	}
	text = s.Remove(text) // before it is cut, perhaps within a secret
	if len(text) > mostOfOthers {
		text = texts.Prefix(text, mostOfOthers) + "…"
	}
	return text
}

// Text returns a text of our own without the secrets, as a precaution. A short secret, or one that is a short word,
// stays: it is most likely a word of ours, and its removal from a sentence would reveal it.
func (s *Secrets) Text(text string) string {
	isOurs := func(secret string) bool {
		isLetter := func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }
		return utf8.RuneCountInString(secret) < short || len(secret) < word && strings.TrimFunc(secret, isLetter) == ""
	}
	return replace(text, slices.DeleteFunc(s.all(), isOurs))
}

// replace replaces the secrets of at least [short] characters by [Mark].
func replace(text string, secrets []string) string {
	var written []string
	for _, secret := range secrets {
		if utf8.RuneCountInString(secret) >= short {
			written = append(written, spellings(secret)...)
		}
	}
	slices.SortFunc(written, func(a, b string) int { return len(b) - len(a) }) // one can begin with another
	pairs := make([]string, 0, 2*len(written))
	for _, w := range written {
		pairs = append(pairs, w, Mark)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// spellings are the forms in which programs write a secret.
func spellings(secret string) []string {
	inner := func(quoted string) string { return quoted[1 : len(quoted)-1] }
	inJSON, _ := json.Marshal(secret) // a string always can
	all := []string{
		secret, strings.ToLower(secret), strings.ToUpper(secret), strings.ToValidUTF8(secret, "\ufffd"),
		url.PathEscape(secret), url.QueryEscape(secret), url.UserPassword("", secret).String()[1:],
		url.PathEscape(url.PathEscape(secret)),
		inner(strconv.Quote(secret)), inner(strconv.QuoteToASCII(secret)), inner(string(inJSON)),
		strings.ReplaceAll(secret, "'", "''"), strings.ReplaceAll(secret, "'", `'\''`),
	}
	for _, written := range slices.Clone(all) { // quoted once more, in an error or a log
		all = append(all, inner(strconv.Quote(written)))
	}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding,
		base64.RawURLEncoding} {
		all = append(all, e.EncodeToString([]byte(secret)))
	}
	return all
}

// Error returns an error of others without secrets in its text, which still matches [errors.Is] and [errors.As]
// like err; it is err itself if there is no secret.
func (s *Secrets) Error(err error) error {
	if err == nil {
		return nil
	}
	dirty := err.Error()
	if text := s.Remove(dirty); text != dirty {
		return &cleaned{text, err, s}
	}
	return err
}

// cleaned is an error with another text. It does not unwrap, since the original contains the secret.
type cleaned struct {
	text    string
	err     error
	secrets *Secrets
}

func (e *cleaned) Error() string        { return e.text }
func (e *cleaned) Is(target error) bool { return errors.Is(e.err, target) }

// As finds what err is, unless that has the secret in its text.
func (e *cleaned) As(target any) bool {
	if !errors.As(e.err, target) {
		return false
	}
	found := reflect.ValueOf(target).Elem()
	if err, is := found.Interface().(error); is && e.secrets.Remove(err.Error()) != err.Error() {
		found.SetZero()
		return false
	}
	return true
}
