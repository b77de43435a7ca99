// Package redact removes known secrets from texts: from those of others, such as servers that repeat what they were
// sent, and as the last line of defence from our own.
//
// It looks for the secrets themselves and not for texts that look like one. It finds them in any spelling: with the
// escapes of a URL, a quoted text, JSON or HTML, in another case, or cut off. It cannot find what somebody hides on
// purpose: a server that knows a password can spell it backwards.
package redact

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/texts"
)

// Mark replaces a secret.
const Mark = "xxxxx"

// Withheld replaces a text of others that contains a secret too short to be replaced: its letters would be replaced
// in many places, which would show where it was.
const Withheld = "its text is withheld, since the password may be in it"

const (
	// short is the length from which a secret is replaced. A text of others with a shorter one is withheld.
	short = 4
	// cutOff is the length from which the beginning of a longer secret is replaced, since texts are often cut. A
	// shorter part is replaced before the end of a text or a quotation.
	cutOff = 8
	// mostOfOthers is the most bytes of a text of others. Nobody reads more.
	mostOfOthers = 600
)

// Secrets are texts that must not be shown. A nil or empty *Secrets has none. It is safe for concurrent use.
type Secrets struct {
	mu      sync.RWMutex
	list    []*secret
	learned []*secret
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
		s.add(text, false)
		// A program that splits a text at its spaces may repeat one word of it.
		if words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }); len(words) > 1 {
			for _, word := range words {
				if utf8.RuneCountInString(word) >= short {
					s.add(word, true)
				}
			}
		}
	}
}

func (s *Secrets) add(text string, isPart bool) {
	if text == "" {
		return
	}
	for i, known := range s.list {
		if known.text != text {
			continue
		}
		if known.isPart && !isPart { // others may be reading the list
			whole := *known
			whole.isPart = false
			s.list = slices.Clone(s.list)
			s.list[i] = &whole
		}
		return
	}
	s.list = append(s.list, newSecret(text, isPart))
}

// mostLearned is how many replaced secrets are remembered.
const mostLearned = 8

// Learn adds a secret that replaces earlier ones, such as a token for each connection. Only the last few are
// remembered.
func (s *Secrets) Learn(text string) {
	if text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.learned, func(known *secret) bool { return known.text == text }) {
		return
	}
	s.learned = append(slices.Clone(s.learned[max(0, len(s.learned)-mostLearned+1):]), newSecret(text, false))
}

func (s *Secrets) all() []*secret {
	if s == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.learned) == 0 {
		return s.list
	}
	return slices.Concat(s.list, s.learned)
}

// Remove returns an untrusted text without the secrets, and without parts of them at which it is cut.
func (s *Secrets) Remove(text string) string {
	secrets := s.all()
	for _, secret := range secrets {
		if len(secret.units) < short && secret.isIn(text) {
			return Withheld
		}
	}
	return replace(text, secrets, func(secret *secret, matched int, rest string) bool {
		whole := min(len(secret.units), cutOff)
		return matched >= whole || matched >= short && endsThere(rest)
	})
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
	if len(text) > mostOfOthers {
		text = texts.Prefix(text, mostOfOthers) + "…"
	}
	return s.Remove(text)
}

// Text returns a text of our own without the secrets, as a precaution. A short secret, or one that is a short word,
// stays: it is most likely a word of ours, and its removal from a sentence would reveal it.
func (s *Secrets) Text(text string) string {
	return replace(text, s.all(), func(secret *secret, matched int, _ string) bool {
		return !secret.isPart && !secret.isWord && len(secret.units) >= short && matched == len(secret.units)
	})
}

// replace replaces secrets by [Mark] if enough of a secret matches. It replaces overlapping secrets as a whole.
func replace(text string, secrets []*secret, enough func(secret *secret, matched int, rest string) bool) string {
	if len(secrets) == 0 {
		return text
	}
	var b strings.Builder
	from, hidden := 0, 0 // the end of what is copied, and the end of a secret
	for at := range len(text) {
		for _, secret := range secrets {
			matched, end := secret.match(text[at:])
			if at+end <= hidden || !enough(secret, matched, text[at+end:]) {
				continue
			}
			if at > hidden || hidden == 0 {
				b.WriteString(text[from:at])
				b.WriteString(Mark)
			}
			hidden, from = at+end, at+end
		}
	}
	return b.String() + text[from:]
}

// endsThere reports whether rest, after a part of a secret, shows that the text was cut there.
func endsThere(rest string) bool {
	rest = strings.TrimLeft(rest, `\`)
	return rest == "" || strings.IndexByte("'\"`\r\n)>]", rest[0]) >= 0 || strings.HasPrefix(rest, "...") || strings.HasPrefix(rest, "…")
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
