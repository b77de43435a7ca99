// Package auditlog is the format of the audit log, which `limitctl audit` shows. A run that changes keys or
// overrides writes two entries: one before its first change, and one with its outcome. They go to a file of this
// machine, a JSON line each, and to the journal of the store, where everybody sees them. Reading merges the two.
package auditlog

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/lines"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Entry describes a run that changed or deleted something.
type Entry struct {
	// Time is when it ended, or when it began if it has no outcome yet.
	Time time.Time `json:"time"`
	// Began is when it began, zero in entries of older versions of limitctl.
	Began time.Time `json:"began_at,omitzero"`
	// Run identifies the run; both of its entries have it.
	Run string `json:"run,omitempty"`
	// User is the user from the environment. Account is the machine's name of the process's user, if it differs:
	// behind sudo, for example.
	User    string `json:"user"`
	Account string `json:"account,omitempty"`
	Host    string `json:"host,omitempty"`
	Context string `json:"context,omitempty"`
	Store   string `json:"store"` // its name, without a password
	Prefix  string `json:"prefix"`
	// Layout has the layouts of other limiters, separated by commas; empty for limitctl's own keys.
	Layout  string `json:"layout,omitempty"`
	Command string `json:"command"`
	// Selection is the selected keys, in the words of a command line.
	Selection string `json:"selection"`
	Reason    string `json:"reason,omitempty"`
	// Matched is the number of selected keys, and Changed the number of those that certainly changed. For a run
	// about overrides they count overrides (see [Entry.CountsKeys]).
	Matched int64 `json:"matched"`
	Changed int64 `json:"changed"`
	// Unknown is how many more may have changed: the store did not answer.
	Unknown int64   `json:"unknown,omitempty"`
	Backup  string  `json:"backup,omitempty"` // its absolute path on Host
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`
	// Overrides are those that the run set, extended or revoked. They are left out if they take more than half of the
	// most bytes of an entry, and entries of older versions of limitctl have none.
	Overrides []Override `json:"overrides,omitempty"`
	// Source is where the entry was found. Reading sets it; it is never written.
	Source Source `json:"source,omitempty"`
	// Undone is the run that has brought back what this one changed, if its backup was restored on the same machine,
	// into a store of the same URL. Reading sets it; it is never written.
	Undone *Undone `json:"undone,omitempty"`
}

// Override is an override that a run set, extended or revoked.
type Override struct {
	ID string `json:"id"`
	// Override is what it does, to whom and why, as a store keeps it.
	Override json.RawMessage `json:"override"`
	// CreatedAt and ExpiresAt are by the store's clock. A run that revokes it ends it before.
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// MayHaveChanged reports whether anything changed, or may have.
func (e *Entry) MayHaveChanged() bool { return e.Outcome == Begun || e.Changed+e.Unknown > 0 }

// IsAbout reports whether the run was about a key, as far as its overrides or the pattern of a reset say it.
func (e *Entry) IsAbout(key store.Key) bool {
	for _, recorded := range e.Overrides {
		if o, err := admin.DecodeOverride(recorded.Override); err == nil && o.Matches(key) {
			return true
		}
	}
	words, parse := shell.Words(e.Selection), store.ParsePattern
	if words[0] == "--exact" {
		words, parse = words[1:], store.ExactPattern
	}
	if e.Command != "reset" || e.Layout != "" || len(words) != 1 { // flags select fewer keys
		return false
	}
	pattern, err := parse(words[0])
	return err == nil && pattern.Match(key.Subject)
}

// CountsKeys reports whether the run counts keys, and not overrides or published configurations.
func (e *Entry) CountsKeys() bool {
	group, _, _ := strings.Cut(e.Command, " ")
	return !slices.Contains([]string{"block", "unblock", "exempt", "override", "config"}, group)
}

// CommandText is what was run, for people: the command and its selection, a backup without its folder.
func (e *Entry) CommandText() string {
	selection := e.Selection
	if e.BringsBack() {
		selection = filepath.Base(selection)
	}
	return strings.TrimSpace(e.Command + " " + selection)
}

// ChangedText is how many keys a run has changed, as far as that is known, for people. It is empty if the run does not
// count keys.
func (e *Entry) ChangedText() string {
	switch changed := strconv.FormatInt(e.Changed, 10); {
	case !e.CountsKeys():
		return ""
	case e.Outcome == Begun:
		return "?"
	case e.Unknown > 0:
		return "≥" + changed
	default:
		return changed
	}
}

// Outcome is how a run ended.
type Outcome string

// The outcomes of a run.
const (
	// Begun: its end is unknown. It is still running, or was killed.
	Begun       Outcome = "begun"
	Done        Outcome = "done"
	Partly      Outcome = "partly" // some keys were changed, but not all
	Interrupted Outcome = "interrupted"
	Failed      Outcome = "failed" // none was certainly changed
)

// Source is where an entry was found.
type Source string

// The sources of entries.
const (
	Machine Source = "machine"
	Store   Source = "store"
	Both    Source = "both"
)

// NewRun returns a new name for a run.
func NewRun() string { return rand.Text()[:16] }

const (
	// maxText is the most bytes of a text in a line, and in the header of a backup.
	maxText = 2000
	// maxLine is longer than any line with such texts.
	maxLine = 1 << 20
)

// texts are the texts that somebody else can make long: a server its error, a caller the selection. The least
// important come first.
func (e *Entry) texts() []*string {
	return []*string{&e.Error, &e.Selection, &e.Reason, &e.Store, &e.Prefix, &e.Layout, &e.Context, &e.Command, &e.User,
		&e.Account,
		&e.Host,
		&e.Run, &e.Backup}
}

// bound cuts long texts.
func (e *Entry) bound() {
	for _, text := range e.texts() {
		*text = Bounded(*text)
	}
	e.Outcome = Outcome(Bounded(string(e.Outcome)))
}

// Text returns the entry as JSON of at most most bytes, which has to be 1,000 or more. It cuts texts if necessary.
func (e *Entry) Text(most int) (string, error) {
	short := *e
	short.Source, short.Undone = "", nil
	short.bound()
	if overrides, err := json.Marshal(short.Overrides); err != nil || len(overrides) > most/2 {
		short.Overrides = nil
	}
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

// Bounded cuts a text that is too long for the audit log, between two characters.
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

// read reads the entry from a line, or returns why it is not one.
func (e *Entry) read(line *lines.Line) error {
	if line.TooLong {
		return fmt.Errorf("it has %d bytes, and at most %d are read", line.Length, maxLine)
	}
	return e.parse(line.Text)
}

// parse reads the entry from JSON with any content.
func (e *Entry) parse(text []byte) error {
	if err := json.Unmarshal(text, e); err != nil {
		return err
	}
	if e.Time.IsZero() {
		return errors.New("it says no time")
	}
	e.Undone = nil
	e.bound() // older versions of limitctl wrote texts of any length
	return nil
}

// Writer writes the entries of a run. It is opened before the run changes anything, so that the changes can be
// recorded.
type Writer interface {
	// Write writes an entry. It may cut texts.
	Write(e *Entry) error
	// Close closes the writer. It is called once.
	Close() error
}

// File is a Writer to the end of a file. Several processes may write to one file.
type File struct{ file files.File }

// NewFile returns a File for a file that is open to append and to read.
func NewFile(file files.File) *File { return &File{file} }

// Write implements [Writer]. It is a single write, so that lines of several runs stay whole.
func (f *File) Write(e *Entry) error {
	e.bound()
	e.Source, e.Undone = "", nil
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if !f.endsLine() {
		text = append([]byte{'\n'}, text...)
	}
	_, err = f.file.Write(text)
	return err
}

// Close implements [Writer].
func (f *File) Close() error { return f.file.Close() }

// endsLine reports whether the file ends with a complete line. After a full disk it can end with half a line, and
// the next entry would be lost with it.
func (f *File) endsLine() bool {
	info, err := f.file.Stat()
	if err != nil || info.Size() == 0 {
		return true
	}
	var last [1]byte
	_, err = f.file.ReadAt(last[:], info.Size()-1)
	return err != nil || last[0] == '\n'
}
