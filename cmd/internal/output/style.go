package output

import "fmt"

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
