// Package trail is the format of the audit trail, which `limitctl audit` shows: JSON
// lines, one for each run that changed what others have.
package trail

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/lines"
)

// Entry is a line of the trail: a run that changed or deleted what others had.
type Entry struct {
	Time      time.Time `json:"time"`
	User      string    `json:"user"`
	Context   string    `json:"context,omitempty"`
	Store     string    `json:"store"` // its name, without a password
	Prefix    string    `json:"prefix"`
	Command   string    `json:"command"`
	Selection string    `json:"selection"` // which keys, in the words of a command line
	Reason    string    `json:"reason,omitempty"`
	Matched   int64     `json:"matched"` // how many keys were selected
	Changed   int64     `json:"changed"` // how many of them are changed for sure
	Backup    string    `json:"backup,omitempty"`
	Outcome   Outcome   `json:"outcome"`
	Error     string    `json:"error,omitempty"`
}

// Outcome is how a run ended.
type Outcome string

// The outcomes of a run.
const (
	Done        Outcome = "done"
	Partly      Outcome = "partly" // some of the keys were changed, and not all
	Interrupted Outcome = "interrupted"
	Failed      Outcome = "failed" // none was changed for sure
)

const (
	// maxText is how many bytes of a text go into a line, and into the head of a backup.
	maxText = 2000
	// maxLine is more than any line has that is made of such texts.
	maxLine = 1 << 20
)

// bound cuts the texts that somebody else may have made long: a server its error, a
// caller the selection.
func (e *Entry) bound() {
	for _, text := range []*string{&e.User, &e.Context, &e.Store, &e.Prefix, &e.Command, &e.Selection, &e.Reason, &e.Backup, &e.Error} {
		*text = Bounded(*text)
	}
	e.Outcome = Outcome(Bounded(string(e.Outcome)))
}

// Bounded cuts a text that is too long for the trail, between two characters.
func Bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > maxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// read reads the entry from a line, or says why the line is not an entry.
func (e *Entry) read(line *lines.Line) error {
	if line.TooLong {
		return fmt.Errorf("it has %d bytes, and at most %d are read", line.Length, maxLine)
	}
	if err := json.Unmarshal(line.Text, e); err != nil {
		return err
	}
	if e.Time.IsZero() {
		return errors.New("it says no time")
	}
	e.bound() // an earlier limitctl wrote texts of any length
	return nil
}
