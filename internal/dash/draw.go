package dash

import (
	"math"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

const (
	bold     = output.Bold
	reversed = output.Reversed
	// Colours that are told apart by those who cannot tell red from green, too: room is cyan, near yellow, full bold.
	// Red is only for what is wrong, such as a key that is being denied, so that it is seen among full ones.
	full    = bold + ";" + output.Near
	denying = reversed + ";" + output.AtEnd
)

// span is a text in one style. The text may be anything: a server's error, a key, a line
// of a recording. It is measured, cut and painted as it is shown, which is escaped. So only
// our own styles reach the terminal.
type span struct {
	text  string
	style output.Style
}

// line is a line of the screen.
type line []span

func plain(text string) line                      { return line{{text, output.Plain}} }
func styled(text string, style output.Style) line { return line{{text, style}} }

// width is that of a text on the screen, in columns.
func width(text string) int { return output.Width(output.Escape(text)) }

func (l line) width() (columns int) {
	for i := range l {
		columns += width(l[i].text)
	}
	return columns
}

// cut shortens text to a width, with an ellipsis in place of what is left out.
func cut(text string, columns int) string {
	return output.Cut(output.Escape(text), columns)
}

// pad makes text exactly so wide.
func pad(text string, columns int, right bool) string {
	text = cut(text, columns)
	space := strings.Repeat(" ", max(0, columns-width(text)))
	if right {
		return space + text
	}
	return text + space
}

// fit cuts the line to at most that many columns, with an ellipsis if it was longer.
func (l line) fit(columns int) line {
	if l.width() <= columns {
		return l
	}
	var fitted line
	for _, s := range l {
		rest := columns - fitted.width()
		if width(s.text) >= rest { // something comes after it, or it is too long itself
			s.text = cut(s.text+"…", rest)
			return append(fitted, s)
		}
		fitted = append(fitted, s)
	}
	return fitted
}

// painter writes lines with their styles, if colours are wanted.
type painter struct {
	color bool
	faint bool // everything is faint, because it is out of date
}

func (p painter) paint(b *strings.Builder, l line) {
	for _, s := range l {
		style := s.style
		if p.faint {
			style = output.Faint
		}
		b.WriteString((&output.Printer{Color: p.color}).Paint(style, s.text))
	}
}

// reverse shows the line as the selected one, over its whole width.
func (l line) reverse(columns int) line {
	reversedLine := make(line, 0, len(l)+1)
	for _, s := range l {
		switch {
		case s.style == output.Plain:
			s.style = reversed
		case !strings.HasPrefix(string(s.style), string(reversed)): // else it is so already
			s.style = reversed + ";" + s.style
		}
		reversedLine = append(reversedLine, s)
	}
	return append(reversedLine, span{strings.Repeat(" ", max(0, columns-l.width())), reversed})
}

func shareStyle[F float32 | float64](share F) output.Style {
	switch {
	case share >= 1:
		return full
	case share >= admin.NearShare:
		return output.Near
	}
	return output.Room
}

// greatest returns the greatest of values, and at least least. A value that is not known (NaN) is never greater.
func greatest(values []float32, least float32) float32 {
	for _, value := range values {
		if value > least {
			least = value
		}
	}
	return least
}

// sparks draws values as a line of blocks, the greatest as the highest. Unknown values
// are blank.
func sparks(values []float32, greatest float32, style func(float32) output.Style) line {
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	var l line
	for _, value := range values {
		height := 0
		if !isNaN(value) && greatest > 0 {
			height = int(math.Ceil(float64(max(0, min(value/greatest, 1))) * float64(len(blocks)-1)))
		}
		s := span{string(blocks[height]), output.Plain}
		if height > 0 {
			s.style = style(value)
		}
		if n := len(l) - 1; n >= 0 && l[n].style == s.style {
			l[n].text += s.text
		} else {
			l = append(l, s)
		}
	}
	return l
}

// boxed puts lines into a frame.
func boxed(lines []line, columns int) []line {
	widest := 0
	for _, l := range lines {
		widest = max(widest, l.width())
	}
	inner := max(1, min(widest, columns-4))
	border := lipgloss.RoundedBorder()
	box := []line{plain(border.TopLeft + strings.Repeat(border.Top, inner+2) + border.TopRight)}
	for _, l := range lines {
		l = l.fit(inner)
		inside := append(plain(border.Left+" "), l...)
		box = append(box, append(inside, span{strings.Repeat(" ", inner-l.width()) + " " + border.Right, output.Plain}))
	}
	return append(box, plain(border.BottomLeft+strings.Repeat(border.Bottom, inner+2)+border.BottomRight))
}
