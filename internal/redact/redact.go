// Package redact takes secrets that are known out of texts: out of those of others,
// such as servers that repeat what they were sent, and as the last line of defence out
// of our own.
//
// It looks for the secrets themselves and not for what looks like one. It finds them
// however they are written: with the escapes of a URL, of a quoted text, of JSON or HTML, in
// other case, cut off. It cannot find what somebody means to hide from it: a server that
// has a password can spell it backwards.
package redact

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/textprefix"
)

// Mark stands where a secret was.
const Mark = "xxxxx"

// Withheld stands for a text of others that holds a secret too short to be replaced:
// every other letter would go with it, and where it stood would show.
const Withheld = "its text is withheld, since the password may be in it"

const (
	// short is how many characters a secret has at least that is replaced. A text of
	// others with a shorter one is withheld.
	short = 4
	// cutOff is how many characters of a longer secret are enough to replace them, for a
	// text is often cut somewhere. Less is enough before what ends a text or a quotation.
	cutOff = 8
	// mostOfOthers bounds a text of others, in bytes. Nobody reads more.
	mostOfOthers = 600
)

// Secrets are texts that nobody is to see. A nil or empty *Secrets has none. It is safe
// for concurrent use.
type Secrets struct {
	mu      sync.RWMutex
	list    []*secret
	learned []*secret
}

// New returns Secrets with those given. Empty ones are left out.
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
		// Who takes a text apart at its spaces may repeat one word of it.
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

// mostLearned is how many secrets are remembered that keep being replaced.
const mostLearned = 8

// Learn adds a secret that takes the place of those learned before, such as a token that
// is another one for each connection. Only the last few are remembered.
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

// Foreign returns a text of others without the secrets, and without parts of them that
// it breaks off in.
func (s *Secrets) Foreign(text string) string {
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

// Answer is [Secrets.Foreign] for an error that a server answered. It also leaves out
// what helps nobody: the arguments that Redis repeats, and what is beyond any line's
// length.
func (s *Secrets) Answer(text string) string {
	const arguments = "with args beginning with"
	for i := 0; i+len(arguments) <= len(text); i++ {
		if strings.EqualFold(text[i:i+len(arguments)], arguments) {
			text = strings.TrimRight(text[:i], " ,")
			break
		}
	}
	if len(text) > mostOfOthers {
		text = textprefix.Of(text, mostOfOthers) + "…"
	}
	return s.Foreign(text)
}

// Text returns a text of our own without the secrets, should one have come into it. A
// short secret, or one that is a short word, is as likely to be a word of ours, and stays:
// to take it out of a sentence would tell it.
func (s *Secrets) Text(text string) string {
	return replace(text, s.all(), func(secret *secret, matched int, _ string) bool {
		return !secret.isPart && !secret.isWord && len(secret.units) >= short && matched == len(secret.units)
	})
}

// replace puts [Mark] in the place of secrets if enough of them is there. Where several
// overlap, it replaces all that any of them covers.
func replace(text string, secrets []*secret, enough func(secret *secret, matched int, rest string) bool) string {
	if len(secrets) == 0 {
		return text
	}
	var b strings.Builder
	from, hidden := 0, 0 // what is copied already, and up to where a secret goes
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

// endsThere reports whether what follows a part of a secret says that a text was cut
// there.
func endsThere(rest string) bool {
	rest = strings.TrimLeft(rest, `\`)
	return rest == "" || strings.IndexByte("'\"`\r\n)>]", rest[0]) >= 0 || strings.HasPrefix(rest, "...") || strings.HasPrefix(rest, "…")
}

// Error returns an error of others whose text has no secret, and that is for
// [errors.Is] and [errors.As] what err is; it is err if there was none.
func (s *Secrets) Error(err error) error {
	if err == nil {
		return nil
	}
	dirty := err.Error()
	if text := s.Foreign(dirty); text != dirty {
		return &cleaned{text, err, s}
	}
	return err
}

// cleaned is an error with another text. It does not unwrap: what it was has the secret.
type cleaned struct {
	text    string
	err     error
	secrets *Secrets
}

func (e *cleaned) Error() string        { return e.text }
func (e *cleaned) Is(target error) bool { return errors.Is(e.err, target) }

// As finds what err is, unless that has the secret in its own text.
func (e *cleaned) As(target any) bool {
	if !errors.As(e.err, target) {
		return false
	}
	found := reflect.ValueOf(target).Elem()
	if err, is := found.Interface().(error); is && e.secrets.Foreign(err.Error()) != err.Error() {
		found.SetZero()
		return false
	}
	return true
}
