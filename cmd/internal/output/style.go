package output

// Style is a colour that means something, or several joined by ";".
type Style string

// The styles, as SGR parameters that every terminal with colours knows.
const (
	Plain    Style = ""
	Calm     Style = "32" // green: room is left
	Near     Style = "33" // yellow: close to the limit
	AtEnd    Style = "31" // red: at the limit, denied
	Faint    Style = "2"
	Bold     Style = "1"
	Reversed Style = "7" // what is selected
)

// How a style begins and ends, and how long one is at most.
const (
	startOfStyle = "\x1b["
	endOfStyle   = "\x1b[0m"
	longestStyle = len("\x1b[7;33m")
)

// isStyle reports whether an SGR parameter is a style of ours or the end of one.
func isStyle(parameter string) bool {
	switch Style(parameter) {
	case Calm, Near, AtEnd, Faint, Bold, Reversed, "0":
		return true
	case Plain: // it has no parameter
	}
	return false
}

// Paint returns text in a style, if colours are wanted. Any text becomes one
// line, and people see all of it.
func (p *Printer) Paint(style Style, text string) string {
	text = Escape(text)
	if !p.Color || style == Plain || text == "" {
		return text
	}
	return startOfStyle + string(style) + "m" + text + endOfStyle
}
