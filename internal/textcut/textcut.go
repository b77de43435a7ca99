// Package textcut cuts columns of names to a width so that people can still tell the names
// apart.
package textcut

import (
	"encoding/base32"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

const (
	// ellipsis stands for what is left out. It is one column wide.
	ellipsis = "…"
	// leastWidth is the least width at which [Distinct] keeps different subjects different.
	leastWidth = 8
	// leastTag and mostTag are how many characters of a hash stand behind a "~".
	leastTag, mostTag = 4, 12
)

// Distinct cuts subjects to a width in columns of a terminal. If one is too wide, the beginning that all have in common
// is taken away from each. It is returned as prefix, to be shown once, and ends behind a ":" or "/". It is no wider
// than the column, with an ellipsis behind it, and empty if all subjects are the same one. What is still too wide is
// cut in the middle. Different subjects that would look the same end in "~" and some characters of a hash, so that they
// differ, from [leastWidth] on. Subjects have to be printable.
func Distinct(subjects []string, width int) (prefix string, cut []string) {
	tooWide := func(text string) bool { return displaywidth.String(text) > width }
	cut = slices.Clone(subjects)
	if !slices.ContainsFunc(subjects, tooWide) {
		return "", cut
	}
	prefix = prefixOf(subjects, width)
	rest := make([]string, len(subjects))
	for i, subject := range subjects {
		rest[i] = subject[len(prefix):]
		if cut[i] = rest[i]; tooWide(rest[i]) {
			cut[i] = middle(rest[i], width)
		}
	}
	for tag := leastTag; tag <= min(mostTag, width-2); tag++ {
		alike := alike(rest, cut)
		if len(alike) == 0 {
			break
		}
		for _, i := range alike {
			end := "~" + hash(rest[i])[:tag]
			cut[i] = displaywidth.TruncateString(rest[i], width-len(end)-1, "") + ellipsis + end
		}
	}
	return prefix, cut
}

// prefixOf returns the longest beginning that all subjects have in common, that ends behind a ":" or "/", is narrower
// than the column, and leaves something of each. Subjects that are all the same have none.
func prefixOf(subjects []string, width int) string {
	common := subjects[0]
	for _, subject := range subjects[1:] {
		n := 0
		for n < len(common) && n < len(subject) && common[n] == subject[n] {
			n++
		}
		common = common[:n]
	}
	for end := len(common); end > 0; end-- {
		prefix := common[:end]
		if strings.ContainsAny(prefix[end-1:], ":/") && displaywidth.String(prefix) < width &&
			!slices.Contains(subjects, prefix) && slices.ContainsFunc(
			subjects, func(subject string) bool { return subject != subjects[0] }) {
			return prefix
		}
	}
	return ""
}

// middle returns the beginning and the end of a text, with an ellipsis in place of what is too much.
func middle(text string, width int) string {
	if width <= 0 {
		return ""
	}
	head := displaywidth.TruncateString(text, width/2, "")
	room, end := width-1-displaywidth.String(head), len(text)
	var rest []string
	for characters := displaywidth.StringGraphemes(text[len(head):]); characters.Next(); {
		rest = append(rest, characters.Value())
	}
	for _, character := range slices.Backward(rest) {
		if room -= displaywidth.String(character); room < 0 {
			break
		}
		end -= len(character)
	}
	return head + ellipsis + text[end:]
}

// alike returns those that are cut and look like a different one.
func alike(whole, cut []string) (found []int) {
	first, several := map[string]string{}, map[string]bool{}
	for i, text := range cut {
		if other, known := first[text]; !known {
			first[text] = whole[i]
		} else if other != whole[i] {
			several[text] = true
		}
	}
	for i, text := range cut {
		if several[text] && text != whole[i] {
			found = append(found, i)
		}
	}
	return found
}

// hash returns a hash of a text, the same on every machine.
func hash(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	const digits = "abcdefghijkmnpqrstuvwxyz23456789"
	return base32.NewEncoding(digits).WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
}
