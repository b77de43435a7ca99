package output

import (
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Style is a colour that means something.
type Style string

// The styles, as SGR parameters that every terminal with colours knows.
const (
	Plain Style = ""
	Calm  Style = "32" // green: room is left
	Near  Style = "33" // yellow: close to the limit
	AtEnd Style = "31" // red: at the limit, denied
	Faint Style = "2"
)

// Paint returns text in a style, if colours are wanted.
func (p *Printer) Paint(style Style, text string) string {
	if !p.Color || style == Plain || text == "" {
		return text
	}
	return fmt.Sprintf("\x1b[%sm%s\x1b[0m", style, text)
}

// CutPainted is [Cut] for a text with styles in it.
func CutPainted(text string, width int) string {
	var b strings.Builder
	plain := ""
	for rest := text; rest != ""; {
		words, styled, _ := strings.Cut(rest, "\x1b[")
		if runewidth.StringWidth(plain)+runewidth.StringWidth(words) > width {
			b.WriteString(Cut(words, width-runewidth.StringWidth(plain)) + "\x1b[0m")
			return b.String()
		}
		b.WriteString(words)
		plain += words
		style, after, found := strings.Cut(styled, "m")
		if found {
			b.WriteString("\x1b[" + style + "m")
		}
		rest = after
	}
	return b.String()
}
