// Package overridetable has what the tables of overrides of all stores share: the text of an override, its times,
// and IDs and versions. See [admin.OverrideTable].
package overridetable

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// MaxSize is the most bytes of an override as text.
	MaxSize = 16 << 10
	// IDSize is the number of characters in an ID, and VersionSize in a version.
	IDSize      = 8
	VersionSize = 32
)

// written is an override as JSON text. Its ID and times are stored separately. Reason and By come last: the
// text before them identifies the override.
type written struct {
	Subject     string            `json:"subject,omitempty"`
	Name        string            `json:"name,omitempty"`
	Attributes  map[string]string `json:"attributes,omitempty"` // the form of values in subjects
	Effect      string            `json:"effect"`
	Limit       string            `json:"limit,omitempty"`
	Thousandths int64             `json:"thousandths,omitempty"`
	Units       int64             `json:"units,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	By          string            `json:"by,omitempty"`
}

// Written is an override as text, without the parts that the store adds.
type Written struct {
	Text []byte
	// Which is the number of bytes before Reason and By. Overrides that are equal in them are one.
	Which int
}

// ID returns the ID of an override, a hash of its subjects and effect, so that the same override is found again.
// Once in a billion times another override has the same ID: then the next try gives another one.
func (w *Written) ID(try int) string {
	sum := sha256.Sum256(append([]byte{byte(try)}, w.Text[:w.Which]...))
	return base32.NewEncoding(idLetters).EncodeToString(sum[:5])
}

// IsOf reports whether text is the same override, perhaps with another reason.
func (w *Written) IsOf(text string) bool {
	return len(text) > w.Which && text[:w.Which] == string(w.Text[:w.Which]) && (text[w.Which] == ',' || text[w.Which] == '}')
}

// Identity returns the part of an override's text that identifies it: overrides that differ only in their times,
// reason and author have the same. It is empty for an override that cannot be set.
func Identity(o *store.Override) string {
	w, err := Encode(o, store.MinOverrideTime)
	if err != nil {
		return ""
	}
	return string(w.Text[:w.Which])
}

// Encode checks o and returns its text.
func Encode(o *store.Override, lasts time.Duration) (*Written, error) {
	if err := o.Check(lasts); err != nil {
		return nil, err
	}
	w := written{Subject: patternText(o.Subjects), Name: patternText(o.Names), Effect: o.Effect.String()}
	if len(o.Attributes) > 0 {
		w.Attributes = make(map[string]string, len(o.Attributes))
	}
	for name, value := range o.Attributes {
		w.Attributes[subjecttext.Escape(name)] = subjecttext.Escape(value)
	}
	switch o.Effect {
	case store.OverrideLimit:
		w.Limit = o.Limit.String()
	case store.OverrideTimes:
		w.Thousandths = o.Thousandths
	case store.OverrideAdd:
		w.Units = o.Units
	case store.OverrideBlock, store.OverrideExempt:
	}
	which, err := text(&w)
	if err != nil {
		return nil, err
	}
	w.Reason, w.By = o.Reason, o.By
	whole, err := text(&w)
	if err == nil && len(whole) > MaxSize {
		err = store.Invalidf("an override of %d bytes; at most %d fit", len(whole), MaxSize)
	}
	return &Written{whole, len(which) - len("}")}, err
}

// text returns an override as JSON, without escapes for HTML.
func text(w *written) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(w)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// patternText writes p in a form that can be read back.
func patternText(p store.Pattern) string {
	subject, exact := p.Exact()
	if !exact || p.String() != subject {
		return p.String()
	}
	if read, err := store.ParsePattern(subject); err == nil {
		if same, exact := read.Exact(); exact && same == subject {
			return subject
		}
	}
	return store.EscapeGlob(subject)
}

// Decode reads the text of [Encode]. The error says what is wrong with a text that limitctl did not write; it is
// for [store.ForeignError].Holds.
func Decode(text []byte) (o store.Override, err error) {
	var w written
	if len(text) > MaxSize {
		return o, fmt.Errorf("more than %d bytes that are not an override", MaxSize)
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return o, fmt.Errorf("%d bytes that are not an override", len(text))
	}
	o = store.Override{Thousandths: w.Thousandths, Units: w.Units, Reason: w.Reason, By: w.By}
	if o.Effect, err = store.ParseOverrideEffect(w.Effect); err == nil && o.Effect == store.OverrideLimit {
		o.Limit, err = store.ParseLimit(w.Limit)
	}
	if err == nil {
		o.Limit, err = normalized(o.Limit)
	}
	if err == nil {
		o.Subjects, err = pattern(w.Subject)
	}
	if err == nil {
		o.Names, err = pattern(w.Name)
	}
	for name, value := range w.Attributes {
		plainName, ok := subjecttext.Unescape(name)
		plain, ok2 := subjecttext.Unescape(value)
		if !ok || !ok2 {
			return o, fmt.Errorf("an override with the attribute %q=%q, which limitctl did not write", name, value)
		}
		if o.Attributes == nil {
			o.Attributes = map[string]string{}
		}
		o.Attributes[plainName] = plain
	}
	if err == nil {
		err = o.Check(store.MinOverrideTime)
	}
	if err != nil {
		return o, fmt.Errorf("a damaged override: %w", err)
	}
	return o, nil
}

// normalized returns a limit with its defaults, and the zero limit unchanged.
func normalized(limit store.Limit) (store.Limit, error) {
	if limit == (store.Limit{}) {
		return limit, nil
	}
	return limit.Normalize()
}

func pattern(text string) (store.Pattern, error) {
	if text == "" {
		return store.Pattern{}, nil
	}
	return store.ParsePattern(text)
}

const millisecond = store.Instant(time.Millisecond / time.Microsecond)

// Times returns the beginning and the end of an override that is set at now, in whole milliseconds.
func Times(now store.Instant, lasts time.Duration) (created, expires store.Instant) {
	created = now / millisecond * millisecond
	return created, created + store.Instant(Milliseconds(lasts))*millisecond
}

// Milliseconds returns lasts in milliseconds, rounded up.
func Milliseconds(lasts time.Duration) int64 {
	return int64((lasts + time.Millisecond - 1) / time.Millisecond)
}

// Complete fills in the parts of an override from the store, at now.
func Complete(o *store.Override, id string, created, expires, now store.Instant) {
	o.ID, o.CreatedAt, o.ExpiresAt = id, created.Time(), expires.Time()
	o.Left = time.Duration(max(0, expires-now)) * time.Microsecond
}

// CheckTimes returns what is wrong with the times of an override at now, if limitctl cannot have set it.
func CheckTimes(created, expires, now store.Instant) error {
	const longest = store.Instant(store.MaxOverrideTime / time.Microsecond)
	if created < 0 || expires <= created || expires-created > longest || created-now > longest || expires > store.MaxInstant {
		return errors.New("an override of an instant or a time that no override has")
	}
	return nil
}

// idLetters leaves out letters that are easily confused.
const idLetters = "0123456789abcdefghjkmnpqrstvwxyz"

// IDTries is the number of IDs to try.
const IDTries = 3

// ErrNoID is the error if other overrides have all of these IDs.
func ErrNoID() error { return fmt.Errorf("%w: no ID is free for an override", store.ErrRefused) }

// IsID reports whether text has the form of an ID.
func IsID(text string) bool {
	if len(text) != IDSize {
		return false
	}
	for _, c := range []byte(text) {
		if !bytes.ContainsRune([]byte(idLetters), rune(c)) {
			return false
		}
	}
	return true
}

// NewVersion returns a new, unique version.
func NewVersion() string {
	random := make([]byte, VersionSize/2)
	rand.Read(random)
	return hex.EncodeToString(random)
}

// ErrFull is the error of a full table.
func ErrFull() error {
	return fmt.Errorf("%w: %d overrides are in force, which is the most; revoke one, or set one that covers several",
		store.ErrRefused, admin.MaxOverrides)
}

// SortNewestFirst sorts overrides by their creation.
func SortNewestFirst(overrides []store.Override) {
	slices.SortFunc(overrides, func(a, b store.Override) int { return store.CompareAge(&a, &b) })
}
