package textcut

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// mostGaps is in how many places a row may be cut. Beyond, it is hard to read.
	mostGaps = 4
	// contextColumns is how much of a part is shown before the character that differs.
	contextColumns = 6
)

// cutByBranches shows of each row the places where it differs from another one: the
// characters at which the tree of all rows branches on the way to it. As far as there is
// room it then completes the parts that those are in, and then goes on from the beginning.
// Rows without room for all the places get nothing, and are returned.
//
// What is shown grows with the width in one order that does not depend on it, so a greater
// width never shows less. Two rows that differ are cut at the same places before their
// branch, or one shows a character where the other has an ellipsis, so they look different.
func cutByBranches(rows []row, cut []string, long []int, width int) (without []int) {
	branches := branchesOf(rows)
	for _, i := range long {
		text, fits := rows[i].show(branches[i], width)
		if cut[i] = text; !fits {
			without = append(without, i)
		}
	}
	return without
}

// branchesOf returns for each row the characters, in rising order, at which another row
// branches off.
func branchesOf(rows []row) [][]int {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(rows[a].text, rows[b].text) })
	branches := make([][]int, len(rows))
	// Where a row parts from any before it in the order are the common lengths of neighbours,
	// as far as they fall; and so for those behind it.
	walk := func(order []int) {
		var open []int
		for place, i := range order {
			if place > 0 {
				before := &rows[order[place-1]]
				if before.text != rows[i].text {
					common := before.common(&rows[i])
					for len(open) > 0 && open[len(open)-1] >= common {
						open = open[:len(open)-1]
					}
					open = append(open, common)
				}
			}
			branches[i] = append(branches[i], open...)
		}
	}
	walk(order)
	slices.Reverse(order)
	walk(order)
	for i := range branches {
		slices.Sort(branches[i])
		branches[i] = slices.Compact(branches[i])
	}
	return branches
}

// common returns how many characters at their beginning two rows have in common.
func (r *row) common(other *row) int {
	n := 0
	for n < len(r.text) && n < len(other.text) && r.text[n] == other.text[n] {
		n++
	}
	return min(r.at(n), other.at(n))
}

// show returns the row with ellipses in place of all but the branches, and what more fits.
func (r *row) show(branches []int, width int) (text string, fits bool) {
	shown := make([]bool, r.len())
	for _, branch := range branches {
		for i := r.contextOf(branch); i <= branch && i < len(shown); i++ {
			shown[i] = true
		}
	}
	columns, gaps := r.cost(shown)
	if columns > width || gaps > mostGaps {
		return "", false
	}
	// grow shows a character behind one that is shown, and reports whether there was room.
	grow := func(i int) bool {
		if shown[i] {
			return true
		}
		more := r.width(span{i, i + 1})
		if i == 0 && len(shown) > 1 && !shown[1] {
			// The row began with an ellipsis, which moves behind the character.
		} else if i+1 == len(shown) || shown[i+1] {
			more-- // the ellipsis goes
		}
		if columns+more > width {
			return false
		}
		shown[i] = true
		columns += more
		return true
	}
	complete := func() bool {
		for _, branch := range branches {
			for i := branch + 1; i < len(shown) && !r.isSeparator(i); i++ {
				if !grow(i) {
					return false
				}
			}
		}
		return true
	}
	if complete() {
		for i := range shown {
			if !grow(i) {
				break
			}
		}
	}
	return r.join(shown), true
}

// contextOf returns the first character to show for one that differs: the beginning of the
// part it is in, if that is near.
func (r *row) contextOf(character int) int {
	first := min(character, r.len())
	for end := first; first > 0 && !r.isSeparator(first-1) && r.width(span{first - 1, end}) <= contextColumns; {
		first--
	}
	return first
}

func (r *row) isSeparator(character int) bool {
	from, to := r.offset(character), r.offset(character+1)
	return to-from == 1 && (r.text[from] == ':' || r.text[from] == '/')
}

// cost returns how many columns it takes to show those characters, and how many gaps there are.
func (r *row) cost(shown []bool) (columns, gaps int) {
	for i, is := range shown {
		switch {
		case is:
			columns += r.width(span{i, i + 1})
		case i == 0 || shown[i-1]:
			gaps++
		}
	}
	return columns + gaps, gaps
}

// join returns the characters that are shown, and an ellipsis in each gap.
func (r *row) join(shown []bool) string {
	var b strings.Builder
	for i, is := range shown {
		switch {
		case is:
			b.WriteString(r.text[r.offset(i):r.offset(i+1)])
		case i == 0 || shown[i-1]:
			b.WriteString(ellipsis)
		}
	}
	return b.String()
}
