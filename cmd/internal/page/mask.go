package page

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// mask replaces values by marks: one value has one mark as long as the process runs, and a mark tells nothing of its
// value to those who do not know the process's secret. A nil mask replaces nothing.
type mask struct{ secret []byte }

func newMask() *mask {
	m := &mask{make([]byte, sha256.Size)}
	rand.Read(m.secret)
	return m
}

// value is the mark of a value.
func (m *mask) value(text string) string {
	if m == nil {
		return text
	}
	const shown = 5 // bytes, so that two of a million values rarely have one mark
	sum := hmac.New(sha256.New, m.secret)
	sum.Write([]byte(text))
	return "~" + hex.EncodeToString(sum.Sum(nil)[:shown])
}

// subject masks the values of a subject's attributes, or all of a subject without any.
func (m *mask) subject(text string) string {
	if m == nil {
		return text
	}
	attributes, ok := policy.ParseSubject(text)
	if !ok {
		return m.value(text)
	}
	parts := make([]string, len(attributes))
	for i, a := range attributes {
		parts[i] = a.Name + ":" + m.value(a.Value)
	}
	return strings.Join(parts, ":")
}

// whom masks the subjects of an override.
func (m *mask) whom(o *store.Override) string {
	if m == nil {
		return allowance.Whom(o)
	}
	var parts []string
	switch subject, exact := o.Subjects.Exact(); {
	case exact:
		parts = append(parts, m.subject(subject))
	case !o.Subjects.IsZero():
		parts = append(parts, m.value(o.Subjects.String()))
	case len(o.Attributes) == 0:
		return "*"
	}
	for _, name := range slices.Sorted(maps.Keys(o.Attributes)) {
		parts = append(parts, name+"="+m.value(o.Attributes[name]))
	}
	return strings.Join(parts, " ")
}

// limit returns the name of a limit without what may be attributes. A long name is shortened where denials are counted, and
// may not be parsed any more.
func (m *mask) limit(name string) string {
	if m != nil {
		name, _, _ = strings.Cut(name, ":")
	}
	return name
}
