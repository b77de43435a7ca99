package yamlfile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/token"
	"github.com/mattn/go-runewidth"

	"github.com/limitctl/limitctl/internal/texts"
)

// shown returns the lines for excerpts.
func (r *Reader) shown() []string {
	if r.masked == nil {
		if r.masked = r.lines; r.mask != nil {
			r.masked = r.mask(r.lines)
		}
	}
	return r.masked
}

// quote returns the text at a token for a mistake: quoted, unless it is masked there.
func (r *Reader) quote(text string, at *token.Token) string {
	if !r.shows(text, at) {
		return masked
	}
	return strconv.Quote(text)
}

// masked replaces what a mistake must not repeat.
const masked = "(masked)"

// shows reports whether the text at a token is not masked.
func (r *Reader) shows(text string, at *token.Token) bool {
	if at == nil {
		return false
	}
	line := min(max(at.Position.Line, 1), len(r.lines))
	return strings.Contains(r.shown()[line-1], text)
}

// widest is the most columns of a line that are shown.
const widest = 110

// excerpt shows a line and the one before it, with a caret below the column. The lines are already masked.
func excerpt(lines []string, line, column int) string {
	var b strings.Builder
	width := len(fmt.Sprint(line))
	shown, caret := showable(lines[line-1], column)
	if line > 1 {
		before, _ := showable(lines[line-2], 1)
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("  %*d | %s", width, line-1, before), " "))
	}
	fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("> %*d | %s", width, line, shown), " "))
	fmt.Fprintf(&b, "%s^\n", strings.Repeat(" ", len("> ")+width+len(" | ")+caret))
	return b.String()
}

// showable makes a line safe and short enough to show, and returns how many columns of the terminal precede the
// given one of the line.
func showable(line string, column int) (text string, before int) {
	runes := []rune(strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return '→'
		case !texts.IsVisible(r):
			return '�' // one column, so that the caret keeps its place
		}
		return r
	}, line))
	column = min(column, len(runes)+1)
	begin, left, right := 0, "", ""
	if len(runes) > widest && column > widest*3/4 {
		begin, left = min(column-widest/2, len(runes)-widest/2), "…"
	}
	end := min(len(runes), begin+widest)
	if end < len(runes) {
		right = "…"
	}
	before = runewidth.StringWidth(left + string(runes[begin:max(begin, column-1)]))
	return strings.TrimRight(left+string(runes[begin:end])+right, " "), before
}
