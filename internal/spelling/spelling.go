// Package spelling guesses which known name an unknown one means.
package spelling

// Nearest returns the name that differs from the given one in the fewest letters, at most most; otherwise "".
func Nearest(name string, names []string, most int) string {
	best, least := "", most+1
	for _, candidate := range names {
		if d := distance(name, candidate, least); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance is the number of letters to insert, remove or replace to make a from b (the Levenshtein distance, in
// bytes), or enough if it is not below that.
func distance(a, b string, enough int) int {
	if len(a)-len(b) >= enough || len(b)-len(a) >= enough {
		return enough
	}
	var short [24]int // so that names of usual length allocate nothing
	row := short[:0]
	for j := range len(b) + 1 {
		row = append(row, j)
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
