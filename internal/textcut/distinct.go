// Package textcut cuts columns of names to a width so that people can still tell the names
// apart.
package textcut

import (
	"slices"
	"strings"
)

// ellipsis stands for what is left out. It is one column wide.
const ellipsis = "…"

// leastWidth is the least width at which [Distinct] promises that different subjects look
// different.
const leastWidth = 8

// Distinct cuts subjects to a width in columns of a terminal. If one is too wide, the
// beginning that all have in common is taken away from each. It is returned as prefix, to
// be shown once, and ends behind a ":" or "/". It is no wider than the column, with an ellipsis
// behind it, and empty if all subjects are the same one. What is still too wide is cut within,
// an ellipsis marking it:
//
//   - Equal subjects stay equal, and different ones are different, from [leastWidth] on.
//   - All are cut at the same place if they differ then. Else each shows where it differs
//     from those like it. If even that does not tell them apart, it ends in "~" and some
//     characters of a hash.
//   - A greater width never shows fewer columns of a subject, the prefix included.
//
// Subjects have to be printable.
func Distinct(subjects []string, width int) (prefix string, cut []string) {
	rows := make([]row, len(subjects))
	fits := true
	for i, subject := range subjects {
		rows[i] = newRow(subject)
		fits = fits && rows[i].columns() <= width
	}
	if fits {
		return "", append([]string(nil), subjects...)
	}
	prefix = prefixOf(subjects, width)
	cut = make([]string, len(subjects))
	if width <= 0 {
		return prefix, cut
	}
	var long []int // which subjects are to be cut
	for i, subject := range subjects {
		rows[i] = newRow(subject[len(prefix):])
		if cut[i] = rows[i].text; rows[i].columns() > width {
			long = append(long, i)
		}
	}
	cutAll(rows, cut, long, width)
	return prefix, cut
}

// CommonPrefix returns the longest beginning that all subjects have in common, that ends
// behind a ":" or "/", and that leaves something of each.
func CommonPrefix(subjects []string) string {
	if len(subjects) == 0 {
		return ""
	}
	common := subjects[0]
	for _, subject := range subjects[1:] {
		n := 0
		for n < len(common) && n < len(subject) && common[n] == subject[n] {
			n++
		}
		common = common[:n]
	}
	for {
		common = common[:strings.LastIndexAny(common, ":/")+1]
		leavesSome := true
		for _, subject := range subjects {
			leavesSome = leavesSome && len(common) < len(subject)
		}
		if common == "" || leavesSome {
			return common
		}
		common = common[:len(common)-1]
	}
}

// prefixOf is the common prefix that is taken away in a column of that width. One that the header has no room for would
// be gone, and so would be most of a subject that stands alone.
func prefixOf(subjects []string, width int) string {
	if !slices.ContainsFunc(subjects, func(subject string) bool { return subject != subjects[0] }) {
		return ""
	}
	prefix := CommonPrefix(subjects)
	for r := newRow(prefix); prefix != "" && r.columns() >= width; r = newRow(prefix) {
		prefix = prefix[:strings.LastIndexAny(prefix[:len(prefix)-1], ":/")+1]
	}
	return prefix
}

// mostTried is up to how many subjects that look alike a place to cut all at is searched for.
const mostTried = 1000

// cutAll cuts the long ones of rows so that they differ.
func cutAll(rows []row, cut []string, long []int, width int) {
	balanced := width / 2
	cutAt := func(which []int, head int) {
		for _, i := range which {
			cut[i] = rows[i].cutAt(width, head)
		}
	}
	cutAt(long, balanced)
	alike := collisions(rows, cut)
	if len(alike) == 0 {
		return
	}
	// The same place for all, as near the middle as can be. Those that looked alike are
	// tried first: mostly they are few.
	for distance := 1; distance < width && len(alike) <= mostTried; distance++ {
		for _, head := range [2]int{balanced + distance, balanced - distance} {
			if head < width/6 || head > width-1 { // something of the beginning, which says what it is
				continue
			}
			if cutAt(alike, head); len(collisionsOf(alike, rows, cut)) > 0 {
				continue
			}
			if cutAt(long, head); len(collisions(rows, cut)) == 0 {
				return
			}
		}
	}
	tagged := cutByBranches(rows, cut, long, width)
	tagAll(rows, cut, append(tagged, collisions(rows, cut)...), width)
}

// collisions returns the rows that look like a different one.
func collisions(rows []row, cut []string) []int {
	all := make([]int, len(rows))
	for i := range all {
		all[i] = i
	}
	return collisionsOf(all, rows, cut)
}

// collisionsOf is [collisions] among those rows, without the ones that are shown whole.
func collisionsOf(which []int, rows []row, cut []string) (alike []int) {
	texts := make(map[string]string, len(which))
	several := map[string]bool{}
	for _, i := range which {
		if text, known := texts[cut[i]]; !known {
			texts[cut[i]] = rows[i].text
		} else if text != rows[i].text {
			several[cut[i]] = true
		}
	}
	if len(several) == 0 {
		return nil
	}
	for _, i := range which {
		if several[cut[i]] && cut[i] != rows[i].text {
			alike = append(alike, i)
		}
	}
	return alike
}
