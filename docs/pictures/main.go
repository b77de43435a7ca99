// Command pictures converts a terminal's screen with its colours, from `tmux capture-pane -e`, to an HTML page that
// looks like it: pictures <screen >page.html
package main

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"os"
	"strconv"
	"strings"
)

const head = `<!DOCTYPE html><meta charset="utf-8"><style>
body { margin: 0; background: #1c1f24 }
pre { margin: 0; padding: 16px 20px; color: #d8dce3; font: 15px/1.27 "DejaVu Sans Mono", monospace; display: inline-block }
</style><pre>`

func main() {
	if err := page(os.Stdout, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func page(to io.Writer, from io.Reader) error {
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(to)
	w.WriteString(head)
	var now style
	for i, part := range strings.Split(strings.TrimRight(string(text), "\n"), "\x1b[") {
		if codes, rest, found := strings.Cut(part, "m"); i > 0 && found {
			now = now.after(codes)
			part = rest
		}
		if part != "" {
			fmt.Fprintf(w, `<span style="%s">%s</span>`, now.css(), html.EscapeString(part))
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

// colours are those of a usual dark terminal. 0 is none.
var colours = []string{"",
	"#3b4048", "#e0606c", "#8fbf6b", "#dfb45c", "#61a8e8", "#c07bd8", "#55b4bf", "#d8dce3",
	"#6b7280", "#f07178", "#a5d37f", "#f0c870", "#78b9f5", "#d18ee8", "#6cc8d2", "#ffffff"}

func (s style) css() string {
	colour, ground := colours[s.colour], colours[s.ground]
	if s.swaps {
		colour, ground = ground, colour
		if colour == "" {
			colour = "#1c1f24"
		}
		if ground == "" {
			ground = "#d8dce3"
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
