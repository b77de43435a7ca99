// Command pictures converts what a terminal shows, from `tmux capture-pane -e`, to an SVG in its colours, for light and for dark pages:
// a picture of one screen, or a moving one of several. Before each screen stands a line with a form feed and the seconds for
// which it is shown. With -small it makes a PNG smaller:
//
//	pictures <screens >picture.svg
//	pictures -small <page.png >small.png
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A theme is the colours of a terminal: what it writes on, what it writes in, and the sixteen colours from 1.
type theme struct {
	ground, text string
	colours      [17]string
}

func main() {
	compress := flag.Bool("small", false, "make a picture of a page smaller: a PNG of at most 256 colours")
	flag.Parse()
	show := movie
	if *compress {
		show = small
	}
	if err := show(os.Stdout, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// style is the style of the next characters. colour and ground are numbers of the sixteen colours from 1, or 0.
type style struct {
	colour, ground                        int
	bold, faint, italic, underline, swaps bool
}

// after returns the style after an escape sequence with these codes.
func (s style) after(codes string) style {
	for _, code := range strings.Split(codes, ";") {
		n, _ := strconv.Atoi(code) // none is 0
		switch {
		case n == 0:
			s = style{}
		case n == 1:
			s.bold = true
		case n == 2:
			s.faint = true
		case n == 3:
			s.italic = true
		case n == 4:
			s.underline = true
		case n == 7:
			s.swaps = true
		case n == 22:
			s.bold, s.faint = false, false
		case n == 27:
			s.swaps = false
		case n >= 30 && n <= 37:
			s.colour = n - 29
		case n == 39:
			s.colour = 0
		case n >= 40 && n <= 47:
			s.ground = n - 39
		case n == 49:
			s.ground = 0
		case n >= 90 && n <= 97:
			s.colour = n - 81
		}
	}
	return s
}

// dark and bright are usual terminals.
var dark = theme{"#1c1f24", "#d8dce3", [17]string{"",
	"#3b4048", "#e0606c", "#8fbf6b", "#dfb45c", "#61a8e8", "#c07bd8", "#55b4bf", "#d8dce3",
	"#6b7280", "#f07178", "#a5d37f", "#f0c870", "#78b9f5", "#d18ee8", "#6cc8d2", "#ffffff"}}

var bright = theme{"#ffffff", "#24292f", [17]string{"",
	"#24292f", "#b3261e", "#1a6b54", "#8a5a00", "#15599c", "#8c2f6b", "#0e6f78", "#dfe4ea",
	"#5a636e", "#c4453d", "#2b8a6e", "#a87900", "#2f7fc1", "#a84488", "#17808a", "#24292f"}}
