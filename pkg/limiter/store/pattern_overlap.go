package store

// Overlaps reports whether there can be a subject that both p and q select; the zero Pattern selects all here. If it
// is wrong, it reports true: it takes a set for any character, and a network, compared with a glob, for its
// [Pattern.RedisGlob].
func (p Pattern) Overlaps(q Pattern) bool {
	subject, exact := p.Exact()
	other, otherExact := q.Exact()
	switch {
	case p.IsZero() || q.IsZero():
		return true
	case exact:
		return q.Match(subject)
	case otherExact:
		return p.Match(other)
	case p.network.IsValid() && q.network.IsValid() && !p.network.Overlaps(q.network):
		return false
	}
	return tokensMeet(p.elements(), q.elements())
}

// tokensMeet reports whether there is a text that both globs match.
func tokensMeet(a, b []globToken) bool {
	meet := make([]bool, len(b)+1) // of what follows in a with what follows in b
	meet[len(b)] = true
	for j := len(b) - 1; j >= 0; j-- {
		meet[j] = b[j].star && meet[j+1]
	}
	for i := len(a) - 1; i >= 0; i-- {
		diagonal := meet[len(b)]
		meet[len(b)] = meet[len(b)] && a[i].star
		for j := len(b) - 1; j >= 0; j-- {
			below := meet[j]
			if a[i].star || b[j].star {
				meet[j] = below || meet[j+1]
			} else {
				meet[j] = diagonal && a[i].meets(&b[j])
			}
			diagonal = below
		}
	}
	return meet[0]
}

// meets reports whether there can be a character that both match.
func (t *globToken) meets(u *globToken) bool {
	switch {
	case t.isOneRune():
		return u.matches(t.ranges[0].low)
	case u.isOneRune():
		return t.matches(u.ranges[0].low)
	}
	return true
}
