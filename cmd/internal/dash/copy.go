package dash

import (
	"io"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// copySubject gives the subject of the current key to the terminal, which puts it where
// texts are pasted from (OSC 52). A subject has at most 1,024 bytes, and goes as base64, so
// it does nothing else to the terminal, whatever it holds.
func (m *model) copySubject() tea.Cmd {
	r := m.current()
	if r == nil || m.clipboard == nil {
		return nil
	}
	subject, tmux, to := r.Key.Subject, m.Tmux, m.clipboard
	return func() tea.Msg {
		sequence := ansi.SetSystemClipboard(subject)
		if tmux { // which may itself take it, pass it on, or neither, by its settings
			sequence += ansi.TmuxPassthrough(sequence)
		}
		_, err := io.WriteString(to, sequence)
		return copied{subject, err}
	}
}

// copied: a text was given to the terminal.
type copied struct {
	text string
	err  error
}

func (m *model) absorbCopied(msg copied) {
	if msg.err != nil {
		m.complain(msg.err)
		return
	}
	m.say("copied " + output.Printable(msg.text))
}
