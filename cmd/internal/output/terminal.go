package output

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/visible"
)

// Terminal is the filter through which all text goes to people. Servers, keys, files and
// recordings are written by strangers, and a terminal obeys what it is sent. It lets
// through text, line ends, tabs and, if it is to show styles, the styles of this package;
// everything else is escaped, so that it is seen and does nothing. A character or a style
// may be split between writes.
type Terminal struct {
	mutex  sync.Mutex
	out    io.Writer
	styles bool
	line   bool   // all is one line: line ends and tabs are escaped, too
	begun  []byte // the beginning of a character or a style
	styled bool   // a style is on
}

// NewTerminal returns a filter before out, with styles or without.
func NewTerminal(out io.Writer, styles bool) *Terminal { return &Terminal{out: out, styles: styles} }

// Write implements io.Writer.
func (t *Terminal) Write(p []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	shown, rest := t.show(append(t.begun, p...), false)
	t.begun = bytes.Clone(rest)
	if _, err := t.out.Write(shown); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what was begun and will not be completed.
func (t *Terminal) Flush() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	shown, _ := t.show(t.begun, true)
	t.begun = nil
	if len(shown) == 0 {
		return nil
	}
	_, err := t.out.Write(shown)
	return err
}

// show returns text as it is to be seen, and what at its end needs more to be told. At the
// end of a line all styles end: what follows is not to look as a stranger wants.
func (t *Terminal) show(text []byte, whole bool) (shown, rest []byte) {
	shown = make([]byte, 0, len(text))
	for len(text) > 0 {
		size := 1
		switch c := text[0]; {
		case c == '\n' && t.styled && !t.line:
			shown, t.styled = append(shown, endOfStyle+"\n"...), false
		case ' ' <= c && c <= '~', (c == '\n' || c == '\t') && !t.line:
			shown = append(shown, c)
		case c == '\x1b' && t.styles:
			style, more := styleAt(text)
			if more && !whole {
				return shown, text
			}
			if style != "" {
				t.styled = style != endOfStyle
				shown, size = append(shown, style...), len(style)
				break
			}
			shown, size = visible.Append(shown, text)
		default:
			if !whole && !utf8.FullRune(text) {
				return shown, text
			}
			shown, size = visible.Append(shown, text)
		}
		text = text[size:]
	}
	return shown, nil
}

// oneLine returns text, which may hold styles if they are wanted, on one line.
func oneLine(text string, styles bool) string {
	t := Terminal{styles: styles, line: true}
	shown, _ := t.show([]byte(text), true)
	if t.styled {
		shown = append(shown, endOfStyle...)
	}
	return string(shown)
}

// styleAt returns the sequence of a style of ours that text begins with, or "", and
// whether more must come to tell.
func styleAt(text []byte) (sequence string, more bool) {
	head := string(text[:min(len(text), longestStyle)])
	end := strings.IndexByte(head, 'm')
	if end < 0 {
		return "", len(head) < longestStyle && strings.Trim(strings.TrimPrefix(head, startOfStyle), "0123456789;") == "" ||
			head == startOfStyle[:1]
	}
	parameters, is := strings.CutPrefix(head[:end], startOfStyle)
	if !is {
		return "", false
	}
	for parameter := range strings.SplitSeq(parameters, ";") {
		if !isStyle(parameter) {
			return "", false
		}
	}
	return head[:end+1], false
}
