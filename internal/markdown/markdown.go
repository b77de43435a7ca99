// Package markdown writes Markdown for summaries in CI systems and pull requests: GitHub's dialect, which others
// read, too.
package markdown

import (
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// Text writes a text so that it is shown unchanged, on one line.
func Text(text string) string {
	var b strings.Builder
	for _, r := range output.Printable(text) {
		// After a letter or a digit, as in "token-bucket", most of these have no effect.
		if strings.ContainsRune("\\`*_[]<>|~&$", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	shown := b.String()
	if trimmed := strings.TrimLeft(shown, " "); trimmed != "" && strings.ContainsRune("#+-!=:", rune(trimmed[0])) {
		shown = "\\" + trimmed // otherwise it begins a heading or a list
	}
	return shown
}

// Code writes a text as code. Use it for foreign names: in code, @ notifies nobody, and an address does not become
// a link.
func Code(text string) string {
	text = output.Printable(text)
	if text == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") || strings.Trim(text, " ") == "" {
		text = " " + text + " "
	}
	return fence + strings.ReplaceAll(text, "|", "\\|") + fence
}
