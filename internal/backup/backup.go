// Package backup writes and reads the file from which the keys that a reset deleted can be brought back.
//
// It is JSON lines: a [Header], then a line for each record. If a key was used between being read and being
// deleted, its record is written again, marked as amending the earlier one. If the change is not a deletion, a key
// that was not in use has a line, too: bringing it back deletes it. Before keys are changed, a line says which records
// they are, so that the backup of a reset that was killed shows which keys it had not reached. If a line is damaged,
// its record is lost, and so is how far the change came, but no other record.
package backup

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	strictjson "github.com/go-json-experiment/json"

	"github.com/limitctl/limitctl/internal/lines"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// version is the version of the format.
const version = 1

// Header describes a backup.
type Header struct {
	Version   int       `json:"limitctl_backup"` // the version of the format
	Time      time.Time `json:"time"`            // when it was made
	Store     string    `json:"store"`           // without a password
	Context   string    `json:"context,omitempty"`
	Prefix    string    `json:"prefix"`
	Command   string    `json:"command"`
	Selection string    `json:"selection"`
	// Adjusts: the change left the keys in use, so bringing them back has to replace them. Older versions of
	// limitctl did not write it.
	Adjusts bool `json:"adjusts,omitempty"`
	// Marked: before keys are changed, a line says how far the change has come. Older versions of limitctl did not
	// write it.
	Marked bool `json:"marked,omitempty"`
	// Address and StoreID identify the store. Older versions of limitctl did not write them, and a store may have no
	// id.
	Address string `json:"address,omitempty"`
	StoreID string `json:"store_id,omitempty"`
	// Layout is the layout with which keys of other limiters were read; empty for limitctl's own.
	Layout string `json:"layout,omitempty"`
}

// line is one record.
type line struct {
	Subject string `json:"key"`
	Name    string `json:"name"`
	Value   []byte `json:"value"`
	layoutFields
	// ExpiresMS is the expiry in ms since the epoch by the store's clock, or -1 for none.
	ExpiresMS int64 `json:"expires_ms"`
	Amends    bool  `json:"amends,omitempty"`
	// Unchanged: the change did not change the key, so there is nothing to bring back. There is no value then.
	Unchanged bool `json:"unchanged,omitempty"`
	// Unused: nothing of the key was in use. There is no value then.
	Unused bool `json:"unused,omitempty"`
	// Begun, in a line without a record, is the number of the line of the last record whose change has begun.
	Begun int64 `json:"begun,omitempty"`
}

// lineOf returns the line of a record.
func lineOf(r *admin.Record) *line {
	l := &line{Subject: r.Key.Subject, Name: r.Key.Name, Value: r.Value, ExpiresMS: expiryOf(r.Expires)}
	l.setLayout(r)
	return l
}

// expiryOf converts an expiry for lines.
func expiryOf(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

// Writer writes a backup.
type Writer struct {
	out  *bufio.Writer
	json *json.Encoder
}

// NewWriter begins a backup with its header, and sets the version in it.
func NewWriter(out io.Writer, header Header) (*Writer, error) {
	buffered := bufio.NewWriterSize(out, 1<<16)
	header.Version = version
	w := &Writer{out: buffered, json: json.NewEncoder(buffered)}
	return w, errors.Join(w.json.Encode(header), w.Flush())
}

// Flush writes the buffered rest.
func (w *Writer) Flush() error { return w.out.Flush() }

// Write writes records. With amends they replace earlier lines of the same keys.
func (w *Writer) Write(amends bool, records ...admin.Record) error {
	for i := range records {
		l := lineOf(&records[i])
		l.Amends = amends
		if err := w.json.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// WriteBegun writes that the change of the records up to the line last begins, see [Batch.Last].
func (w *Writer) WriteBegun(last int64) error {
	_, err := fmt.Fprintf(w.out, "{\"begun\":%d,\"amends\":true}\n", last)
	return err
}

// IsUnused reports whether a record of a backup says that its key was not in use.
func IsUnused(r *admin.Record) bool { return r.Value == nil && r.Members == nil }

// Exclude writes that keys with earlier lines must not be brought back, since they have not changed.
func (w *Writer) Exclude(records ...admin.Record) error {
	for i := range records {
		r := &records[i]
		l := line{Subject: r.Key.Subject, Name: r.Key.Name, ExpiresMS: -1, Amends: true, Unchanged: true}
		named := r.WithoutValues()
		if l.setLayout(&named); len(l.Parts) > 1 {
			l.Parts = l.Parts[:1] // identifies it
		}
		if err := w.json.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// Contents is the result of reading a backup.
type Contents struct {
	Header
	Records int // without amendments and unchanged keys
	// Damaged counts the lines that are not records, and Damage has the errors of the first few. A key that only
	// such a line has is not brought back; a key that such a line amends comes back in its earlier state.
	Damaged int
	Damage  []error
	amended map[identity]int64 // the number of the last line that amends a key
	begun   int64              // the line of the last record whose change has begun, if that is marked
	// checked: records that do not fit their layout are damaged.
	checked  bool
	selected *store.Pattern // the selection in the header, once it was parsed
}

// Check reads a whole backup. A file that is not a backup is an error. Somebody may have edited it: a record of
// another limiter counts as damaged if its store keys do not fit its layout, or were not selected.
func Check(in io.Reader) (*Contents, error) {
	c := &Contents{amended: map[identity]int64{}, checked: true}
	excluded := map[identity]bool{}
	err := c.read(in, func(e *entry) error {
		id := identityOf(&e.Record)
		if e.amends {
			c.amended[id] = e.number
		} else {
			c.Records++
		}
		switch was := excluded[id]; {
		case e.unchanged && !was:
			excluded[id] = true
			c.Records--
		case was && !e.unchanged: // it was changed after all
			delete(excluded, id)
			c.Records++
		}
		return nil
	})
	return c, err
}

// maxLine is longer than the longest record: a sliding log of a million entries in base 64.
const maxLine = 32 << 20

// entry is a record with its line.
type entry struct {
	admin.Record
	limit  store.Limit
	number int64 // of the line, from 1
	amends bool
	// unchanged: the key must not be brought back. There is no value then.
	unchanged bool
	begun     int64 // of a line without a record
}

// read calls do with each record. A line that is not a record costs only itself.
func (c *Contents) read(in io.Reader, do func(e *entry) error) error {
	return c.readLines(in, func(text *lines.Line) error {
		e, err := readEntry(text)
		if err == nil && c.checked && e.begun == 0 {
			err = c.check(e)
		}
		if err != nil {
			c.damaged(text.Number, err)
			return nil
		}
		if e.begun > 0 {
			c.begun = max(c.begun, e.begun)
			return nil
		}
		return do(e)
	})
}

// keptDamage is the number of damaged lines that are described.
const keptDamage = 5

func (c *Contents) damaged(number int64, err error) {
	if c.Damaged++; len(c.Damage) < keptDamage {
		c.Damage = append(c.Damage, fmt.Errorf("line %d: %w", number, err))
	}
}

// latest is later than any record expires, and no later than a store accepts.
const latest = 253402300799999 // the end of the year 9999, in ms since the epoch

func readExpiry(ms, latest int64) (time.Time, error) {
	switch {
	case ms < -1 || ms > latest:
		return time.Time{}, fmt.Errorf("expires_ms %d is neither a time in ms since 1970 nor -1 for never", ms)
	case ms < 0:
		return time.Time{}, nil
	}
	return time.UnixMilli(ms), nil
}

// readLine parses a line in any form.
func readLine(text []byte) (*line, error) {
	l := &line{}
	if err := strictjson.Unmarshal(text, l, strictjson.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("it is not a record: %w", err)
	}
	return l, nil
}

func readEntry(text *lines.Line) (*entry, error) {
	if text.Torn {
		return nil, errors.New("it is not whole")
	}
	if text.TooLong {
		return nil, fmt.Errorf("it is longer than the %d bytes of any record", maxLine)
	}
	l, err := readLine(text.Text)
	if err != nil {
		return nil, err
	}
	e := &entry{number: text.Number, amends: l.Amends, unchanged: l.Unchanged, begun: l.Begun}
	switch {
	case l.Begun > 0 && l.Name == "" && l.Subject == "":
		return e, nil
	case l.Begun != 0:
		return nil, errors.New("it is a record and says how far the change came")
	case l.Name == "":
		return nil, errors.New("it names no limit")
	}
	if e.Expires, err = readExpiry(l.ExpiresMS, latest); err != nil {
		return nil, err
	}
	e.Key, e.Value = store.Key{Subject: l.Subject, Name: l.Name}, l.Value
	if len(l.Parts) > 0 {
		return e, e.layout(l)
	}
	if e.unchanged || l.Unused && l.Value == nil {
		return e, e.Key.Validate()
	}
	state, err := e.Decode()
	e.limit = state.Limit
	return e, err
}

// layoutFields are the additional fields of a line for a limit of another limiter.
type layoutFields struct {
	// Parts are its values.
	Parts []part `json:"parts,omitempty"`
	// Limit and Used are in backups of earlier versions of limitctl, and nothing needs them.
	Limit string `json:"limit,omitempty"`
	Used  *int64 `json:"used,omitempty"`
	// KeyBytes and NameBytes are the subject and the name if these are not UTF-8.
	KeyBytes  []byte `json:"key_bytes,omitempty"`
	NameBytes []byte `json:"name_bytes,omitempty"`
}

// part is an [admin.Member].
type part struct {
	StoreKey  []byte `json:"store_key"` // may not be UTF-8
	Type      string `json:"type"`
	Dump      []byte `json:"dump"`
	ExpiresMS int64  `json:"expires_ms"`
}

// setLayout fills in the fields for a record of another limiter.
func (l *line) setLayout(r *admin.Record) {
	for _, p := range r.Members {
		l.Parts = append(l.Parts, part{[]byte(p.StoreKey), p.Type, p.Dump, min(expiryOf(p.Expires), latestOfOthers)})
	}
	if !utf8.ValidString(r.Key.Subject) {
		l.KeyBytes = []byte(r.Key.Subject)
	}
	if !utf8.ValidString(r.Key.Name) {
		l.NameBytes = []byte(r.Key.Name)
	}
}

// latestOfOthers is the latest expiry of another limiter in a backup, in ms since the epoch: the scripts of Redis
// cannot represent more exactly. Some limiters are known to set expiries in tens of thousands of years.
const latestOfOthers = 1 << 53

// layout reads the record of another limiter from a line with parts.
func (e *entry) layout(l *line) error {
	for _, p := range l.Parts {
		expires, err := readExpiry(p.ExpiresMS, latestOfOthers)
		if err != nil {
			return err
		}
		e.Members = append(e.Members,
			admin.Member{StoreKey: string(p.StoreKey), Type: p.Type, Dump: p.Dump, Expires: expires})
	}
	if l.KeyBytes != nil {
		e.Key.Subject = string(l.KeyBytes)
	}
	if l.NameBytes != nil {
		e.Key.Name = string(l.NameBytes)
	}
	switch {
	case e.unchanged && e.Members[0].StoreKey == "":
		return errors.New("it names no store key")
	case e.unchanged:
		return nil
	}
	return e.Check()
}

// check returns why a record cannot belong to this backup.
func (c *Contents) check(e *entry) error {
	switch {
	case c.Layout == "" && len(e.Members) == 0:
		return nil
	case c.Layout == "":
		return fmt.Errorf("key %q is another limiter's, and the backup is of limitctl's own keys",
			e.Members[0].StoreKey)
	case len(e.Members) == 0 && !e.unchanged && e.Value != nil:
		return fmt.Errorf("key %q is limitctl's own, and the backup is of other limiters' keys", e.Key.Subject)
	case len(e.Members) == 0:
		return nil
	}
	if c.selected == nil {
		selected := selectedBy(c.Selection)
		c.selected = &selected
	}
	return layouts.CheckRecord(&e.Record, *c.selected)
}

// selectedBy returns the pattern at the beginning of a selection in words. It is zero if there is none, as for keys
// chosen in the dashboard, or if it cannot be parsed.
func selectedBy(selection string) (pattern store.Pattern) {
	words := shell.Words(selection)
	exact := len(words) > 1 && words[0] == "--exact"
	if exact {
		words = words[1:]
	}
	// If the text ends with the word it may be cut off; and a text in another form is not parsed.
	rest, whole := strings.CutPrefix(strings.TrimPrefix(selection, "--exact "), shell.Command(words[0])+" ")
	if !whole || !strings.HasPrefix(rest, "--") {
		return pattern
	}
	parse := store.ParseStoreKeyPattern
	if exact {
		parse = store.ExactStoreKeyPattern
	}
	pattern, _ = parse(words[0])
	return pattern
}

// identity identifies a record in a backup. Keys of other limiters can have the same subject and name, so their
// first store key counts, too.
type identity struct {
	store.Key
	storeKey string
}

func identityOf(r *admin.Record) identity {
	id := identity{Key: r.Key}
	if len(r.Members) > 0 {
		id.storeKey = r.Members[0].StoreKey
	}
	return id
}
