package output

// Style is a colour with a meaning, or several joined by ";".
type Style string

// The styles, as SGR parameters that every terminal with colours supports.
const (
	Plain    Style = ""
	Calm     Style = "32" // green: room remains
	Near     Style = "33" // yellow: close to the limit
	AtEnd    Style = "31" // red: at the limit, denied
	Room     Style = "36" // cyan: as Calm, where it must be told from the others without telling green from red
	Faint    Style = "2"
	Bold     Style = "1"
	Reversed Style = "7" // selected
)

// The beginning, the end and the greatest length of a style.
const (
	startOfStyle = "\x1b["
	endOfStyle   = "\x1b[0m"
	longestStyle = len("\x1b[7;1;33m")
)

// isStyle reports whether an SGR parameter is one of our styles or their end.
func isStyle(parameter string) bool {
	switch Style(parameter) {
	case Calm, Near, AtEnd, Room, Faint, Bold, Reversed, "0":
		return true
	case Plain: // it has no parameter
	}
	return false
}

// Paint returns text in a style, if colours are on. It puts the text on one line and escapes what is invisible.
func (p *Printer) Paint(style Style, text string) string {
	text = Escape(text)
	if !p.Color || style == Plain || text == "" {
		return text
	}
	return startOfStyle + string(style) + "m" + text + endOfStyle
}
