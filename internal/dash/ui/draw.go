package ui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/textcut"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Join makes a text of lines, and Lines lines of a text.
func Join(lines []string) string { return strings.Join(lines, "\n") }

// Lines are those of a text.
func Lines(text string) []string { return strings.Split(text, "\n") }

// Width is the columns that a styled text takes.
func Width(text string) int { return ansi.StringWidth(text) }

// TextWidth is the columns that a text takes once it is escaped.
func TextWidth(text string) int { return output.Width(output.Escape(text)) }

// Fit cuts a styled line to at most so many columns, with an ellipsis if it was longer.
func Fit(line string, columns int) string { return ansi.Truncate(line, max(0, columns), "…") }

// Pad makes a styled line at least so wide.
func Pad(line string, columns int) string {
	return line + strings.Repeat(" ", max(0, columns-Width(line)))
}

// PadLeft is Pad with the line at the right.
func PadLeft(line string, columns int) string {
	return strings.Repeat(" ", max(0, columns-Width(line))) + line
}

// CutMiddle cuts a text to a width where it is least missed.
func CutMiddle(text string, columns int) string {
	text = output.Escape(text)
	if output.Width(text) <= columns {
		return text
	}
	_, cut := textcut.Distinct([]string{text}, columns)
	return cut[0]
}

// Sparks draws values as a line of blocks, the greatest as the highest. Values that are not known (NaN) are blank.
func Sparks(values []float32, greatest float32) string {
	blocks := []rune(" ▁▂▃▄▅▆▇") // a higher one would touch the line above
	var b strings.Builder
	for _, value := range values {
		height := 0.0
		if value > 0 && greatest > 0 {
			height = math.Ceil(float64(min(value/greatest, 1)) * float64(len(blocks)-1))
		}
		b.WriteRune(blocks[int(height)])
	}
	return b.String()
}

// Greatest returns the greatest of values that are known, and at least least.
func Greatest(values []float32, least float32) float32 {
	for _, value := range values {
		if value > least {
			least = value
		}
	}
	return least
}

// Number writes a number in five columns or less.
func Number(n float64) string {
	switch {
	case n < 0.05:
		return "0"
	case n < 9.95:
		return fmt.Sprintf("%.1f", n)
	case n < 9999.5:
		return fmt.Sprintf("%.0f", n)
	}
	for _, unit := range "kM" {
		if n /= 1000; n < 99.95 {
			return fmt.Sprintf("%.1f%c", n, unit)
		} else if n < 999.5 {
			return fmt.Sprintf("%.0f%c", n, unit)
		}
	}
	return fmt.Sprintf("%.1fG", n/1000)
}

// Rate writes a number a second that is not zero: a little is not nothing.
func Rate(perSecond float64) string {
	if text := Number(perSecond); text != "0" {
		return text
	}
	return "<0.1"
}

// Seconds writes a duration in seven columns or less, rounded up.
func Seconds(d time.Duration) string {
	up := func(to time.Duration) string { return output.Duration((d + to - 1) / to * to) }
	switch {
	case d <= 0:
		return "-"
	case d < 10*time.Second:
		return up(100 * time.Millisecond)
	case d > 24*time.Hour:
		return up(time.Hour)
	}
	return up(time.Second)
}

// Until says when something ends, by the clock where that is less than a day away.
func Until(end, now time.Time) string {
	end = end.In(now.Location())
	if end.Sub(now) < 20*time.Hour {
		return end.Format("15:04")
	}
	return end.Format("Jan 2 15:04")
}

// Override is everything about an override, in lines: what it does, whom it is about, who set it and why.
func Override(o *store.Override, now time.Time) []string {
	left := output.Duration(o.ExpiresAt.Sub(now).Truncate(time.Second))
	by := "set"
	if o.By != "" {
		by += " by " + output.Printable(o.By)
	}
	if o.Reason != "" {
		by += ": " + output.Printable(o.Reason)
	}
	return []string{allowance.Effect(o) + " until " + Until(o.ExpiresAt, now) + ", in " + left,
		"for " + allowance.WhomText(o) + " (" + output.Printable(o.ID) + ")", by}
}

// Wrapped are lines broken to so many columns.
func Wrapped(lines []string, columns int) (all []string) {
	for _, text := range lines {
		all = append(all, output.Wrap(text, max(20, columns))...)
	}
	return all
}
