package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// Mistake is one thing that is wrong in a file, and where. Line and Column count
// from 1, in characters.
type Mistake struct {
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
	// Excerpt is the line with those around it, and a caret below the column.
	// Passwords in it are masked.
	Excerpt string `json:"-"`
}

// String returns the mistake on one line: "limitctl.yaml:3:7: unknown field".
func (m *Mistake) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.Path, m.Line, m.Column, m.Text)
}

// Mistakes is the error of files with mistakes, in the order of the files and of
// their lines. It is a [limiter.ErrInvalid].
type Mistakes struct{ List []Mistake }

// Error returns a block for each mistake, without colours.
func (m *Mistakes) Error() string { return m.Format(false) }

// Is makes Mistakes a limiter.ErrInvalid.
func (m *Mistakes) Is(target error) bool { return target == limiter.ErrInvalid }

// mostShown is how many mistakes are worth reading at once.
const mostShown = 20

// Format writes a block for each mistake: where and what, and an excerpt.
func (m *Mistakes) Format(color bool) string {
	var b strings.Builder
	for i := range m.List[:min(mostShown, len(m.List))] {
		mistake := &m.List[i]
		p := output.Printer{Out: &b, Color: color}
		excerpt := mistake.Excerpt
		if caret := strings.LastIndexByte(excerpt, '^'); caret >= 0 {
			excerpt = excerpt[:caret] + p.Paint(output.AtEnd, "^") + excerpt[caret+1:]
		}
		p.Line("%s:%d:%d: %s", mistake.Path, mistake.Line, mistake.Column, p.Paint(output.AtEnd, mistake.Text))
		b.WriteString(excerpt) // which is visible as it is
	}
	if more := len(m.List) - mostShown; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// maxMistakes is how many of a file are told at all.
const maxMistakes = 1000

// maxText is how many characters of a mistake's text are told: it can hold a name or a
// value of the file.
const maxText = 500

// sorted returns the mistakes in the order of their file, those that are shown with
// their excerpts.
func (t *tree) sorted() []Mistake {
	mistakes := t.mistakes
	slices.SortStableFunc(mistakes, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for i := range mistakes {
		m := &mistakes[i]
		if m.Text = t.secrets.Text(m.Text); utf8.RuneCountInString(m.Text) > maxText {
			m.Text = string([]rune(m.Text)[:maxText]) + "…"
		}
		if i < mostShown {
			m.Excerpt = excerpt(t.shown(), m.Line, m.Column)
		}
	}
	return mistakes
}

// widest is how much of a line is shown.
const widest = 110

// excerpt shows a line and the one before it, with a caret below the column. The lines
// are masked.
func excerpt(lines []string, line, column int) string {
	var b strings.Builder
	width := len(fmt.Sprint(line))
	shown, caret := visible(lines[line-1], column)
	if line > 1 {
		before, _ := visible(lines[line-2], 1)
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("  %*d | %s", width, line-1, before), " "))
	}
	fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("> %*d | %s", width, line, shown), " "))
	fmt.Fprintf(&b, "%s^\n", strings.Repeat(" ", len("> ")+width+len(" | ")+caret))
	return b.String()
}

// visible makes a line safe and fit to show, and says how many columns of the
// terminal are before the given one of the line.
func visible(line string, column int) (text string, before int) {
	runes := []rune(line)
	begin := 0
	var b strings.Builder
	if len(runes) > widest && column > widest*3/4 {
		begin = min(column-widest/2, len(runes)-widest/2)
		b.WriteRune('…')
		before = 1
	}
	for i := begin; i < len(runes) && i < begin+widest; i++ {
		r := runes[i]
		switch {
		case r == '\t':
			r = '→'
		case output.Escape(string(r)) != string(r):
			r = '�' // one column, so that the caret stands where it should
		}
		b.WriteRune(r)
		if i < column-1 {
			before += output.Width(string(r))
		}
	}
	if begin+widest < len(runes) {
		b.WriteRune('…')
	}
	return strings.TrimRight(b.String(), " "), before
}
