package main

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"
)

// The size of a character and of the edge, in pixels.
const (
	across = 8.43
	down   = 18
	edge   = 16
)

// movie converts screens to an SVG that shows one after the other, in the colours that the reader prefers. Before each
// screen stands a line with a form feed and the seconds for which it is shown. Where nothing moves, the last screen is shown.
func movie(to io.Writer, from io.Reader) error {
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	var screens []string
	var ends []float64
	total, columns, rows := 0.0, 0, 0
	for _, screen := range strings.Split(string(text), "\f")[1:] {
		seconds, screen, _ := strings.Cut(screen, "\n")
		length, err := strconv.ParseFloat(seconds, 64)
		if err != nil {
			return err
		}
		screen = strings.TrimRight(screen, "\n")
		total += length
		screens, ends = append(screens, screen), append(ends, total)
		lines := strings.Split(screen, "\n")
		rows = max(rows, len(lines))
		for _, line := range lines {
			columns = max(columns, width(line))
		}
	}
	w := bufio.NewWriter(to)
	wide, high := float64(columns)*across+2*edge, rows*down+2*edge
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0[1]f" height="%d">`+"\n<style>\n", wide, high)
	w.WriteString("text{font:14px 'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}\n")
	colours(w, &bright)
	w.WriteString("@media (prefers-color-scheme:dark){\n")
	colours(w, &dark)
	w.WriteString("}\n@media (prefers-reduced-motion:no-preference){\n")
	began := 0.0
	for i, end := range ends {
		fmt.Fprintf(w, "#s%d{animation:s%d %.1fs step-end infinite}@keyframes s%d{0%%{opacity:%d}", i, i, total, i, visible(i == 0))
		if i > 0 {
			fmt.Fprintf(w, "%.2f%%{opacity:1}", 100*began/total)
		}
		if end < total {
			fmt.Fprintf(w, "%.2f%%{opacity:0}", 100*end/total)
		}
		w.WriteString("}\n")
		began = end
	}
	fmt.Fprintf(w, "}</style><rect class=\"g\" width=\"100%%\" height=\"100%%\" rx=\"8\" stroke=\"#8886\"/>\n")
	for i, screen := range screens {
		fmt.Fprintf(w, `<g id="s%d" opacity="%d">`+"\n", i, visible(i == len(screens)-1))
		draw(w, screen)
		w.WriteString("</g>\n")
	}
	w.WriteString("</svg>\n")
	return w.Flush()
}

func visible(is bool) int {
	if is {
		return 1
	}
	return 0
}

func colours(w io.Writer, shown *theme) {
	fmt.Fprintf(w, "text,.t{fill:%s}.g{fill:%s}", shown.text, shown.ground)
	for i, colour := range shown.colours[1:] {
		fmt.Fprintf(w, ".c%d{fill:%s}", i+1, colour)
	}
	io.WriteString(w, "\n")
}

// draw writes a screen. Its colours go on from line to line, as in a terminal.
func draw(w io.Writer, screen string) {
	var now style
	for row, line := range strings.Split(screen, "\n") {
		var text strings.Builder
		column := 0
		for i, part := range strings.Split(line, "\x1b[") {
			if codes, rest, found := strings.Cut(part, "m"); i > 0 && found {
				now = now.after(codes)
				part = rest
			}
			if part == "" {
				continue
			}
			at := edge + float64(column)*across
			column += len([]rune(part))
			if ground := now.groundClass(); ground != "" {
				fmt.Fprintf(w, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`, ground, at, edge+down*row,
					edge+float64(column)*across-at, down)
			}
			if strings.TrimSpace(part) != "" {
				fmt.Fprintf(&text, `<tspan x="%.1f"%s>%s</tspan>`, at, now.attributes(), html.EscapeString(strings.TrimRight(part, " ")))
			}
		}
		if text.Len() > 0 {
			fmt.Fprintf(w, `<text y="%d">%s</text>`+"\n", edge+down*(row+1)-5, &text)
		}
	}
}

// groundClass is the class of what a text is written on, or "" for the ground of the terminal.
func (s style) groundClass() string {
	switch {
	case s.swaps && s.colour == 0:
		return "t"
	case s.swaps:
		return fmt.Sprintf("c%d", s.colour)
	case s.ground > 0:
		return fmt.Sprintf("c%d", s.ground)
	}
	return ""
}

// attributes are those of an SVG text.
func (s style) attributes() (text string) {
	colour := s.colour
	if s.swaps {
		colour = s.ground
	}
	if s.swaps && colour == 0 {
		text += ` class="g"`
	} else if colour > 0 {
		text += fmt.Sprintf(` class="c%d"`, colour)
	}
	if s.bold {
		text += ` font-weight="bold"`
	}
	if s.faint {
		text += ` opacity=".6"`
	}
	return text
}

// width is how many columns a line takes.
func width(line string) (columns int) {
	for i, part := range strings.Split(line, "\x1b[") {
		if _, rest, found := strings.Cut(part, "m"); i > 0 && found {
			part = rest
		}
		columns += len([]rune(part))
	}
	return columns
}
