package output

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"

	"github.com/limitctl/limitctl/internal/texts"
)

// Count writes a count with its noun: "1 key", "1,234 keys". many is a plural that is more than an s.
func Count[N int | int64](n N, noun string, many ...string) string {
	switch {
	case n == 1:
	case many != nil:
		noun = many[0]
	default:
		noun += "s"
	}
	return Thousands(int64(n)) + " " + noun
}

// Share writes part of whole as a percentage. "0%" means nothing at all, and "100%"
// everything.
func Share(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	percent := 100 * float64(part) / float64(whole)
	digits := 0
	if percent < 10 || percent > 99 {
		digits = 1
	}
	text := strconv.FormatFloat(percent, 'f', digits, 64)
	switch {
	case part == 0:
		return "0%"
	case part == whole:
		return "100%"
	case text == "0.0":
		return "<0.1%"
	case text == "100.0":
		return ">99.9%"
	}
	return text + "%"
}

// Ratio writes a multiple of the limit: "1.97 ×". "1.00 ×" means exactly the limit.
func Ratio(f float64) string {
	if 0 < f && f < 0.005 {
		return "<0.01 ×"
	}
	text := ""
	for digits := 2; digits <= 9; digits++ {
		text = strconv.FormatFloat(f, 'f', digits, 64)
		if shown, err := strconv.ParseFloat(text, 64); err != nil || f == 1 || shown != 1 {
			break
		}
	}
	return text + " ×"
}

// Micros writes microseconds with three digits, in a fitting unit: "840 µs", "1.24 ms",
// "12 s".
func Micros(us int64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%d µs", us)
	case us < 999_500:
		return Decimal(float64(us)/1000) + " ms"
	}
	return Decimal(float64(us)/1e6) + " s"
}

// Decimal writes a figure with three digits, or with all digits before its point.
func Decimal(f float64) string {
	switch size := math.Abs(f); {
	case math.IsNaN(f), math.IsInf(f, 0):
		return "-"
	case size >= 99.95:
		return Thousands(int64(math.Round(f)))
	case size >= 9.995:
		return Decimals(f, 1)
	case size >= 0.0995:
		return Decimals(f, 2)
	}
	return Decimals(f, 3)
}

// PerSecond writes a rate.
func PerSecond(f float64) string { return Decimal(f) + "/s" }

// Wrap breaks text into lines of at most width, between words if possible. A width of 0 or less means no bound.
// Line ends in the text become spaces, and invisible characters are escaped.
func Wrap(text string, width int) []string {
	text = Escape(strings.ReplaceAll(text, "\n", " "))
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	line, columns := "", 0
	for word := range strings.FieldsSeq(text) {
		needs := Width(word)
		if line != "" && columns+1+needs <= width {
			line, columns = line+" "+word, columns+1+needs
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for needs > width && width > 1 { // usually a key
			var head string
			head, word = splitAt(word, width)
			lines = append(lines, head)
			needs = Width(word)
		}
		line, columns = word, needs
	}
	return append(lines, line)
}

// besideLabel is the width below which a text goes under its label instead of next to it.
const besideLabel = 40

// Labelled prints a text after a label of indent columns. Where the text is too long it goes on below its own
// beginning. Labelled returns how many columns it has indented the text by.
func (p *Printer) Labelled(label string, indent int, text string) int {
	if p.Width > 0 && p.Width-indent < besideLabel {
		fmt.Fprintln(p.Out, strings.TrimRight(label, " "))
		label, indent = "  ", 2
	}
	for _, line := range Wrap(text, p.Width-indent) {
		fmt.Fprintln(p.Out, label+line)
		label = strings.Repeat(" ", indent)
	}
	return indent
}

// Width returns the width of a text without styles on a terminal. It does not depend on the locale: a character
// whose width differs between terminals, such as "…" or "█", counts as one column.
func Width(text string) int { return displaywidth.String(text) }

// Cut shortens a text without styles to a width, with an ellipsis for the missing part.
func Cut(text string, width int) string {
	switch {
	case Width(text) <= width:
		return text
	case width <= 0:
		return ""
	}
	return displaywidth.TruncateString(text, width, "…")
}

// splitAt returns the longest beginning of a text within a width, but at least one character, and the rest.
func splitAt(text string, width int) (head, rest string) {
	head = displaywidth.TruncateString(text, width, "")
	if head == "" {
		_, size := utf8.DecodeRuneInString(text)
		head = text[:size]
	}
	return head, text[len(head):]
}

// Escape is [texts.Escape].
func Escape(text string) string { return texts.Escape(text) }

// Printable is [texts.Quote].
func Printable(text string) string { return texts.Quote(text) }

// Shorten cuts a text that is longer than that many bytes, and adds how much is missing.
func Shorten(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	head := texts.Prefix(text, longest)
	return head + "… (" + Bytes(int64(len(text)-len(head))) + " more)"
}

// Style is a colour with a meaning, or several joined by ";".
type Style string

// The styles, as SGR parameters that every terminal with colours supports.
const (
	Plain Style = ""
	Calm  Style = "32" // green: room remains
	Near  Style = "33" // yellow: close to the limit
	AtEnd Style = "31" // red: at the limit, denied
	Faint Style = "2"
	Bold  Style = "1"
)

// The beginning, the end and the greatest length of a style.
const (
	startOfStyle = "\x1b["
	endOfStyle   = "\x1b[0m"
	longestStyle = len("\x1b[1;33m")
)

// isStyle reports whether an SGR parameter is one of our styles or their end.
func isStyle(parameter string) bool {
	switch Style(parameter) {
	case Calm, Near, AtEnd, Faint, Bold, "0":
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
