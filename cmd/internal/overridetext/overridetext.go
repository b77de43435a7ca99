// Package overridetext describes an override for people, with the same words everywhere.
package overridetext

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Effect returns the effect of an override in a word or two: "600/1m", "×3", "+500", "block".
func Effect(o *store.Override) string {
	switch o.Effect {
	case store.OverrideLimit:
		return o.Limit.String()
	case store.OverrideTimes:
		return "×" + Factor(o.Thousandths)
	case store.OverrideAdd:
		return fmt.Sprintf("%+d", o.Units)
	default:
		return o.Effect.String()
	}
}

// Factor writes a factor that is given in thousandths, such as "2.5" for 2500.
func Factor(thousandths int64) string {
	return strconv.FormatFloat(float64(thousandths)/1000, 'f', -1, 64)
}

// Pattern writes a pattern in a form that can be read back. The zero pattern is everything.
func Pattern(p store.Pattern) string {
	if p.IsZero() {
		return "*"
	}
	subject, exact := p.Exact()
	if exact && strings.ContainsAny(subject, `*?[\`) {
		return store.EscapeGlob(subject)
	}
	return p.String()
}

// Whom returns the subjects of an override: a pattern, or a policy's attributes.
func Whom(o *store.Override) string {
	if len(o.Attributes) == 0 {
		return Pattern(o.Subjects)
	}
	var parts []string
	if !o.Subjects.IsZero() {
		parts = append(parts, Pattern(o.Subjects))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Attributes)) {
		parts = append(parts, name+"="+o.Attributes[name])
	}
	return strings.Join(parts, " ")
}

// All returns the subjects of an override, its limits if they are not all, and its effect.
func All(o *store.Override) string {
	text := Whom(o)
	if !o.Names.IsZero() {
		text += ", limit " + Pattern(o.Names)
	}
	return text + ", " + Effect(o)
}
