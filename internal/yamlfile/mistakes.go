package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/texts"
)

// Mistake is one thing that is wrong in a file, and where. Line and Column count
// from 1, in characters.
type Mistake struct {
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
	// Excerpt is the line with its neighbours, and a caret below the column. Passwords in it are masked.
	Excerpt string `json:"-"`
}

// String returns the mistake on one line: "limitctl.yaml:3:7: unknown field".
func (m *Mistake) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.Path, m.Line, m.Column, m.Text)
}

// mostShown is the most mistakes that are shown.
const mostShown = 20

// Format writes a block for each mistake, up to twenty: place, text and excerpt. emphasize marks, for instance with
// a colour, the text and the caret.
func Format(mistakes []Mistake, emphasize func(text string) string) string {
	var b strings.Builder
	for i := range mistakes[:min(mostShown, len(mistakes))] {
		m := &mistakes[i]
		excerpt := m.Excerpt // it is already safe to show
		if caret := strings.LastIndexByte(excerpt, '^'); caret >= 0 {
			excerpt = excerpt[:caret] + emphasize("^") + excerpt[caret+1:]
		}
		fmt.Fprintf(&b, "%s:%d:%d: %s\n%s", texts.Escape(m.Path), m.Line, m.Column, emphasize(texts.Escape(m.Text)), excerpt)
	}
	if more := len(mistakes) - mostShown; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Plain emphasizes nothing.
func Plain(text string) string { return text }

// maxMistakes is the most mistakes of a file that are recorded.
const maxMistakes = 1000

// maxText is the most characters of a mistake's text, which can contain a name or a value of the file.
const maxText = 500

// Mistakes returns the mistakes in the order of their file; those that are shown have excerpts.
func (r *Reader) Mistakes() []Mistake {
	mistakes := r.mistakes
	slices.SortStableFunc(mistakes, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for i := range mistakes {
		m := &mistakes[i]
		if m.Text = r.secrets.Text(m.Text); utf8.RuneCountInString(m.Text) > maxText {
			m.Text = string([]rune(m.Text)[:maxText]) + "…"
		}
		if i < mostShown {
			m.Excerpt = excerpt(r.shown(), m.Line, m.Column)
		}
	}
	return mistakes
}
