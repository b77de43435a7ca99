// Package ui is what all screens of the dashboard are drawn with: one theme, one table, one way to bind keys.
package ui

import (
	"io"
	"strings"

	"github.com/charmbracelet/bubbles/help"
	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// Theme has the styles of the dashboard. Red is the text of what is denied now, and nothing else.
type Theme struct {
	Plain, Bold Style
	Denied      Style // is denied now
	Near        Style // is near its limit, or in doubt
	Full        Style // has nothing left
	Room        Style // has room
	Accent      Style // the selected row, and where somebody types
	Faint       Style // titles, and what is out of date or of no matter now
}

// Style is a style of texts.
type Style struct{ style lipgloss.Style }

// Of is any text in the style. It is escaped, so only our own styles reach the terminal.
func (s Style) Of(text string) string {
	if strings.TrimLeft(text, " ") == "" {
		return text
	}
	return s.style.Render(output.Escape(text))
}

// Background is that of a terminal.
type Background int

// The backgrounds. Of one that is not known both are thought of.
const (
	Unknown Background = iota
	Dark
	Light
)

// colour is one by its meaning, for each background, in full and of 256. The sixteen are the terminal's owner's choice.
type colour struct {
	full, of256 [3]string
	of16        string
}

// The palette. Those who cannot tell red from green tell these apart by their lightness, too.
var (
	denied = colour{[3]string{"#eb061b", "#ff7b72", "#b3001b"}, [3]string{"131", "210", "124"}, "1"}
	near   = colour{[3]string{"#a06900", "#e3b341", "#7d5200"}, [3]string{"130", "179", "94"}, "3"}
	room   = colour{[3]string{"#497b97", "#8fb6c9", "#30617a"}, [3]string{"243", "110", "24"}, "6"}
	accent = colour{[3]string{"#008484", "#56d4dd", "#005f73"}, [3]string{"29", "80", "23"}, "6"}
	faint  = colour{[3]string{"#767676", "#9da5ae", "#57606a"}, [3]string{"243", "247", "240"}, ""}
)

func (c *colour) on(b Background) lipgloss.CompleteColor {
	return lipgloss.CompleteColor{TrueColor: c.full[b], ANSI256: c.of256[b], ANSI: c.of16}
}

// newTheme returns the theme of a terminal that can show so many colours.
func newTheme(profile termenv.Profile, background Background) *Theme {
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(profile)
	r.SetHasDarkBackground(true) // else it would be asked for
	in := func(c *colour) Style { return Style{r.NewStyle().Foreground(c.on(background))} }
	t := &Theme{Plain: Style{r.NewStyle()}, Bold: Style{r.NewStyle().Bold(true)}, Near: in(&near), Room: in(&room),
		Faint: in(&faint), Denied: in(&denied), Accent: in(&accent)}
	t.Denied.style, t.Accent.style = t.Denied.style.Bold(true), t.Accent.style.Bold(true)
	t.Full.style = t.Near.style.Bold(true)
	if profile == termenv.ANSI {
		t.Faint.style = r.NewStyle().Faint(true)
	}
	return t
}

// OfTerminal returns the theme of a terminal, by its environment: it is asked nothing, as an answer can be late.
func OfTerminal(getenv func(string) string) *Theme {
	profile, background := termenv.ANSI, Unknown // any terminal has these
	switch colors := getenv("COLORTERM"); {
	case colors == "truecolor" || colors == "24bit":
		profile = termenv.TrueColor
	case strings.Contains(getenv("TERM"), "256color"):
		profile = termenv.ANSI256
	}
	if of := getenv("COLORFGBG"); strings.HasSuffix(of, ";7") || strings.HasSuffix(of, ";15") {
		background = Light
	} else if strings.Contains(of, ";") {
		background = Dark
	}
	return newTheme(profile, background)
}

// NoColors is the theme of a text without styles.
func NoColors() *Theme { return newTheme(termenv.Ascii, Unknown) }

// Share is the style of a share of a limit.
func (t *Theme) Share(share float64) Style {
	switch {
	case share >= 1:
		return t.Full
	case share >= admin.NearShare:
		return t.Near
	}
	return t.Room
}

// Help returns what draws the keys and what they do, in so many columns.
func (t *Theme) Help(columns int) help.Model {
	h := help.New()
	h.Width = columns
	h.Styles = help.Styles{Ellipsis: t.Faint.style, ShortKey: t.Bold.style, ShortDesc: t.Faint.style,
		ShortSeparator: t.Faint.style, FullKey: t.Bold.style, FullDesc: t.Plain.style, FullSeparator: t.Plain.style}
	h.ShortSeparator, h.FullSeparator = "  ", "   "
	return h
}

// Box is a frame around lines, in at most so many columns.
func (t *Theme) Box(lines []string, columns int) []string {
	const frame = 4
	inside := make([]string, len(lines))
	for i, text := range lines {
		inside[i] = Fit(text, max(1, columns-frame))
	}
	return Lines(t.Plain.style.Border(lipgloss.RoundedBorder()).Padding(0, 1).Render(Join(inside)))
}
