// Package trail is the format of the audit trail, which `limitctl audit` shows. A run that
// changes what others have writes two entries: one that it begins, before its first change,
// and one of its outcome. They go to a file of this machine, a JSON line each, and to the
// journal of the store, where everybody sees them. Reading makes one entry of the two.
package trail

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/lines"
)

// Entry is what is known of a run that changed or deleted what others had.
type Entry struct {
	// Time is when it ended, or when it began as long as it has no outcome.
	Time time.Time `json:"time"`
	// Began is when it began, zero in the entry of an earlier limitctl.
	Began time.Time `json:"began_at,omitzero"`
	// Run is the same in both entries of a run, and in those of no other run.
	Run string `json:"run,omitempty"`
	// User is who runs it, as the environment says. Account is the machine's name of the user
	// that the process belongs to, if it is another: behind sudo, say.
	User    string `json:"user"`
	Account string `json:"account,omitempty"`
	Host    string `json:"host,omitempty"`
	Context string `json:"context,omitempty"`
	Store   string `json:"store"` // its name, without a password
	Prefix  string `json:"prefix"`
	// Layout names the layouts of other limiters whose keys it was about, with commas between
	// them; empty for limitctl's own keys.
	Layout  string `json:"layout,omitempty"`
	Command string `json:"command"`
	// Selection is which keys, in the words of a command line.
	Selection string `json:"selection"`
	Reason    string `json:"reason,omitempty"`
	// Matched is how many keys were selected, and Changed how many of them are changed for sure.
	// Of a run about overrides they count these (see [Entry.CountsKeys]).
	Matched int64 `json:"matched"`
	Changed int64 `json:"changed"`
	// Unknown is how many more may be changed: the store did not answer.
	Unknown int64   `json:"unknown,omitempty"`
	Backup  string  `json:"backup,omitempty"` // its absolute path on Host
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`
	// Source is where the entry was found. It is set by reading and never written.
	Source Source `json:"source,omitempty"`
}

// CountsKeys reports whether the counts of the run are of keys, and not of overrides.
func (e *Entry) CountsKeys() bool { return !strings.HasPrefix(e.Command, "override ") }

// Outcome is how a run ended.
type Outcome string

// The outcomes of a run.
const (
	// Begun: nothing is known of its end. It still goes on, or it was killed.
	Begun       Outcome = "begun"
	Done        Outcome = "done"
	Partly      Outcome = "partly" // some of the keys were changed, and not all
	Interrupted Outcome = "interrupted"
	Failed      Outcome = "failed" // none was changed for sure
)

// Source is where an entry was found.
type Source string

// The sources of entries.
const (
	Machine Source = "machine"
	Store   Source = "store"
	Both    Source = "both"
)

// NewRun returns a name for a run.
func NewRun() string { return rand.Text()[:16] }

const (
	// maxText is how many bytes of a text go into a line, and into the head of a backup.
	maxText = 2000
	// maxLine is more than any line has that is made of such texts.
	maxLine = 1 << 20
)

// texts are the texts that somebody else may have made long: a server its error, a caller
// the selection. Those that can best be done without come first.
func (e *Entry) texts() []*string {
	return []*string{&e.Error, &e.Selection, &e.Reason, &e.Store, &e.Prefix, &e.Layout, &e.Context, &e.Command, &e.User, &e.Account, &e.Host,
		&e.Run, &e.Backup}
}

// bound cuts long texts.
func (e *Entry) bound() {
	for _, text := range e.texts() {
		*text = Bounded(*text)
	}
	e.Outcome = Outcome(Bounded(string(e.Outcome)))
}

// Text returns the entry as JSON of at most so many bytes, which have to be 1,000 or more. It
// cuts texts where that is needed.
func (e *Entry) Text(most int) (string, error) {
	short := *e
	short.Source = ""
	short.bound()
	text, err := json.Marshal(&short)
	for size := maxText; err == nil && len(text) > most && size > 0; size /= 2 {
		for _, each := range short.texts() {
			*each = bounded(*each, size)
			if text, err = json.Marshal(&short); err != nil || len(text) <= most {
				break
			}
		}
	}
	return string(text), err
}

// Bounded cuts a text that is too long for the trail, between two characters.
func Bounded(text string) string { return bounded(text, maxText) }

func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > max(0, most-utf8.UTFMax) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// read reads the entry from a line, or says why the line is not an entry.
func (e *Entry) read(line *lines.Line) error {
	if line.TooLong {
		return fmt.Errorf("it has %d bytes, and at most %d are read", line.Length, maxLine)
	}
	return e.parse(line.Text)
}

// parse reads the entry from JSON, which may be anything.
func (e *Entry) parse(text []byte) error {
	if err := json.Unmarshal(text, e); err != nil {
		return err
	}
	if e.Time.IsZero() {
		return errors.New("it says no time")
	}
	e.bound() // an earlier limitctl wrote texts of any length
	return nil
}
