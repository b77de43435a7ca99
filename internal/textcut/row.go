package textcut

import (
	"sort"

	"github.com/clipperhouse/displaywidth"
)

// row is a text by its characters, as people see them.
type row struct {
	text string
	// ends are where each character ends, in bytes and in columns. They are nil if every
	// character is a byte and a column, as of ASCII.
	ends []position
}

type position struct{ bytes, columns int }

// span is the characters of a row from one on and before another.
type span struct{ from, to int }

func newRow(text string) row {
	plain := true
	for i := range len(text) {
		plain = plain && ' ' <= text[i] && text[i] <= '~'
	}
	if plain {
		return row{text: text}
	}
	ends := make([]position, 0, len(text))
	var at position
	for characters := displaywidth.StringGraphemes(text); characters.Next(); {
		at.bytes += len(characters.Value())
		at.columns += characters.Width()
		ends = append(ends, at)
	}
	return row{text, ends}
}

// len returns how many characters there are.
func (r *row) len() int {
	if r.ends == nil {
		return len(r.text)
	}
	return len(r.ends)
}

// end returns where the characters before that one end.
func (r *row) end(character int) position {
	switch {
	case character == 0:
		return position{}
	case r.ends == nil:
		return position{character, character}
	}
	return r.ends[character-1]
}

func (r *row) offset(character int) int { return r.end(character).bytes }

func (r *row) columns() int { return r.end(r.len()).columns }

func (r *row) width(s span) int { return r.end(s.to).columns - r.end(s.from).columns }

// upTo returns how many characters fit into that many columns.
func (r *row) upTo(columns int) int { return r.fitting(0, columns) }

// fitting returns the end of the longest span that begins there and fits.
func (r *row) fitting(first, columns int) int {
	return first + sort.Search(r.len()-first, func(n int) bool { return r.width(span{first, first + n + 1}) > columns })
}

// from returns the first of the last characters that fit into that many columns.
func (r *row) from(columns int) int {
	return sort.Search(r.len(), func(first int) bool { return r.width(span{first, r.len()}) <= columns })
}

// at returns the character that holds that byte.
func (r *row) at(offset int) int {
	return sort.Search(r.len(), func(character int) bool { return r.offset(character+1) > offset })
}

// cutAt returns the row with its beginning of that many columns, an ellipsis, and as much of
// its end as fits into the width.
func (r *row) cutAt(width, head int) string {
	from, to := r.upTo(head), r.from(width-1-head)
	if room := width - 1 - r.width(span{0, from}) - r.width(span{to, r.len()}); room > 0 { // a wide character left it
		from = r.fitting(from, room)
	}
	return r.text[:r.offset(from)] + ellipsis + r.text[r.offset(to):]
}
