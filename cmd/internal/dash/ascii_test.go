package dash

import (
	"fmt"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
)

// A terminal without UTF-8 gets the same frames in ASCII. Names keep what they have.
func TestFramesInASCII(t *testing.T) {
	for _, view := range []struct {
		name, keys string
		fill       func(*driver)
		names      string // the characters of names
	}{
		{"keys", "", routes, ""},
		{"marked", "mmm/acme<enter>", routes, ""},
		{"filter", "/acme", routes, ""},
		{"names", "", traffic, "利用者山田太郎èûé🍮"},
		{"offenders", "", scraped, ""},
		{"groups", "g<enter>", scraped, ""},
		{"menu", "g", scraped, ""},
		{"detail", "<enter>", scraped, ""},
		{"help", "?", routes, ""},
		{"reset", "mmmmmmmr", routes, ""},
		{"override", "o<enter>", routes, ""},
		{"blocked", "", governed, "利用者山田太郎èûé🍮"},
		{"in-force", "O", governed, "é"},
	} {
		for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 40, Height: 12}} {
			shown := begin(t, nil, func(o *Options) { o.ASCII = true })
			view.fill(shown)
			shown.send(size)
			shown.press(view.keys)
			name := fmt.Sprintf("ascii-%s-%dx%d", view.name, size.Width, size.Height)
			frame := shown.View()
			shown.checkSize(name, frame)
			for _, r := range frame {
				if r > '~' && !strings.ContainsRune(view.names, r) {
					t.Errorf("%s has %q", name, r)
				}
			}
			golden(t, name+".txt", frame)
		}
	}
}
