// Command pictures converts a terminal's screen with its colours, from `tmux capture-pane -e`, to an HTML page that
// looks like it, dark or with -light, and several of them to a moving picture:
//
//	pictures [-light] <screen >page.html
//	pictures -movie <screens >movie.svg
package main

import (
	"bufio"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"strconv"
	"strings"
)

const head = `<!DOCTYPE html><meta charset="utf-8"><style>
body { margin: 0; background: %s }
pre { margin: 0; padding: 16px 20px; color: %s; font: 15px/1.27 "DejaVu Sans Mono", monospace; display: inline-block }
</style><pre>`

// A theme is the colours of a terminal: what it writes on, what it writes in, and the sixteen colours from 1.
type theme struct {
	ground, text string
	colours      [17]string
}

func main() {
	light := flag.Bool("light", false, "show a light terminal")
	moving := flag.Bool("movie", false, "show screens one after the other")
	flag.Parse()
	shown := &dark
	if *light {
		shown = &bright
	}
	show := func() error { return page(os.Stdout, os.Stdin, shown) }
	if *moving {
		show = func() error { return movie(os.Stdout, os.Stdin) }
	}
	if err := show(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func page(to io.Writer, from io.Reader, shown *theme) error {
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, head, shown.ground, shown.text)
	var now style
	for i, part := range strings.Split(strings.TrimRight(string(text), "\n"), "\x1b[") {
		if codes, rest, found := strings.Cut(part, "m"); i > 0 && found {
			now = now.after(codes)
			part = rest
		}
		if part != "" {
			fmt.Fprintf(w, `<span style="%s">%s</span>`, now.css(shown), html.EscapeString(part))
		}
	}
	w.WriteString("</pre>\n")
	return w.Flush()
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

func (s style) css(shown *theme) string {
	colour, ground := shown.colours[s.colour], shown.colours[s.ground]
	if s.swaps {
		colour, ground = ground, colour
		if colour == "" {
			colour = shown.ground
		}
		if ground == "" {
			ground = shown.text
		}
	}
	var css strings.Builder
	for _, rule := range []struct {
		holds bool
		text  string
	}{
		{colour != "", "color:" + colour},
		{ground != "", "background:" + ground},
		{s.bold, "font-weight:bold"},
		{s.faint, "opacity:.6"},
		{s.italic, "font-style:italic"},
		{s.underline, "text-decoration:underline"},
	} {
		if rule.holds {
			css.WriteString(rule.text + ";")
		}
	}
	return css.String()
}
