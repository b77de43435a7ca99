package output

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/texts"
)

// Terminal is the filter for all text to people. Strangers write texts in servers, keys, files and recordings, and
// a terminal obeys control sequences. It passes text, line ends, tabs and, if wanted, the styles of this package;
// it escapes everything else, so that it is visible and has no effect. Characters and styles may be split between
// writes.
type Terminal struct {
	mutex  sync.Mutex
	out    io.Writer
	styles bool
	line   bool   // escape line ends and tabs, too
	begun  []byte // the beginning of a character or a style
	styled bool   // a style is on
}

// NewTerminal returns a filter before out, with or without styles.
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

// Flush writes an incomplete character or style.
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

// show returns the visible form of text, and the rest that needs more bytes to decide. It ends all styles at the
// end of a line, so that a stranger cannot change the look of what follows.
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
			shown, size = texts.AppendEscaped(shown, text)
		default:
			if !whole && !utf8.FullRune(text) {
				return shown, text
			}
			shown, size = texts.AppendEscaped(shown, text)
		}
		text = text[size:]
	}
	return shown, nil
}

// oneLine returns text on one line, with its styles if they are on.
func oneLine(text string, styles bool) string {
	t := Terminal{styles: styles, line: true}
	shown, _ := t.show([]byte(text), true)
	if t.styled {
		shown = append(shown, endOfStyle...)
	}
	return string(shown)
}

// styleAt returns one of our styles at the beginning of text, or "", and whether more bytes are needed to decide.
func styleAt(text []byte) (sequence string, more bool) {
	head := string(text[:min(len(text), longestStyle)])
	end := strings.IndexByte(head, 'm')
	if end < 0 {
		return "", len(head) < longestStyle &&
			strings.Trim(strings.TrimPrefix(head, startOfStyle), "0123456789;") == "" ||
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
