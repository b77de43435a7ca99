// Package backup writes and reads the file that a reset leaves behind, from which
// what it deleted can be brought back.
//
// It is JSON lines: a [Header], then a line for each record. A record that was
// written again, because its key was used between being read and being deleted, is
// marked as amending the earlier one. A key that was not in use has a line, too, where the
// change is not a deletion: bringing it back deletes it. A line that is damaged costs its
// record alone.
// Backups are written as they are, and read also if they were compressed with gzip since.
package backup

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/limitctl/limitctl/internal/lines"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// version is the version of the format.
const version = 1

// Header says where a backup comes from.
type Header struct {
	Version   int       `json:"limitctl_backup"`
	Time      time.Time `json:"time"`
	Store     string    `json:"store"` // without a password
	Context   string    `json:"context,omitempty"`
	Prefix    string    `json:"prefix"`
	Command   string    `json:"command"`
	Selection string    `json:"selection"`
	// Adjusts: the keys stay in use, so that they come back only by replacing them. An
	// earlier limitctl did not say.
	Adjusts bool `json:"adjusts,omitempty"`
	// Address, Servers and StoreID say which store it is, as package identity has them. An
	// earlier limitctl did not say, and a store may have no id.
	Address string   `json:"address,omitempty"`
	Servers []string `json:"servers,omitempty"`
	StoreID string   `json:"store_id,omitempty"`
	// Layout names the layout by which keys of other limiters were looked at; empty for
	// limitctl's own.
	Layout string `json:"layout,omitempty"`
}

// line is one record.
type line struct {
	Subject string `json:"key"`
	Name    string `json:"name"`
	Value   []byte `json:"value"`
	foreignFields
	// ExpiresMS is when the store would have dropped it, in ms since the epoch by
	// its own clock, or -1 for never.
	ExpiresMS int64 `json:"expires_ms"`
	Amends    bool  `json:"amends,omitempty"`
	// Unchanged: the change that the backup was made for has left the key as it is, so there is
	// nothing to bring back. There is no value then.
	Unchanged bool `json:"unchanged,omitempty"`
	// Unused: nothing of the key was in use. There is no value then.
	Unused bool `json:"unused,omitempty"`
}

// expiryOf writes an expiry as lines have it.
func expiryOf(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

// Writer writes a backup.
type Writer struct {
	out    *bufio.Writer
	json   *json.Encoder
	header Header
	length int // of the first line
	limits memo[store.Limit, string]
}

// storeIDRoom is how many bytes a header leaves free for an id that a store gets later.
const storeIDRoom = 64

// NewWriter begins a backup with its header, whose version it sets.
func NewWriter(out io.Writer, header Header) (*Writer, error) {
	buffered := bufio.NewWriterSize(out, 1<<16)
	header.Version = version
	w := &Writer{out: buffered, json: json.NewEncoder(buffered), header: header}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	w.length = len(text) + 1
	if header.StoreID == "" {
		w.length += storeIDRoom
	}
	buffered.Write(w.padded(text))
	return w, w.out.Flush()
}

// padded is a first line of the length that it had at first.
func (w *Writer) padded(text []byte) []byte {
	return append(append(text, bytes.Repeat([]byte{' '}, w.length-len(text)-1)...), '\n')
}

// WithStoreID returns the first line as it is to be, in place of the one that was written,
// with another id of the store. It is nil if nothing has to change, or there is no room.
func (w *Writer) WithStoreID(id string) []byte {
	header := w.header
	header.StoreID = id
	text, err := json.Marshal(header)
	if err != nil || id == w.header.StoreID || len(text) >= w.length {
		return nil
	}
	w.header = header
	return w.padded(text)
}

// Flush writes what is still in memory.
func (w *Writer) Flush() error { return w.out.Flush() }

// Write writes records. With amends they replace what was written of the same keys
// before.
func (w *Writer) Write(amends bool, records ...admin.Record) error {
	for i := range records {
		r := &records[i]
		l := line{Subject: r.Key.Subject, Name: r.Key.Name, Value: r.Value, ExpiresMS: expiryOf(r.Expires), Amends: amends}
		l.setForeign(r)
		if err := w.json.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// WriteEntry writes the record of an entry, with the limit where the record does not have it.
func (w *Writer) WriteEntry(e *admin.Entry) error {
	r := &e.Record
	l := line{Subject: r.Key.Subject, Name: r.Key.Name, Value: r.Value, ExpiresMS: expiryOf(r.Expires)}
	if l.setForeign(r); len(r.Parts) > 0 {
		l.Limit, _ = w.limits.of(e.Limit, limitText)
		if e.UsedKnown() {
			l.Used = &e.Used
		}
	}
	return w.json.Encode(l)
}

// WriteUnused says that nothing of keys was in use. With amends it replaces what was written of
// the same keys before.
func (w *Writer) WriteUnused(amends bool, keys ...store.Key) error {
	for _, key := range keys {
		if err := w.json.Encode(line{Subject: key.Subject, Name: key.Name, ExpiresMS: -1, Amends: amends, Unused: true}); err != nil {
			return err
		}
	}
	return nil
}

// IsUnused reports whether a record of a backup says that nothing of its key was in use.
func IsUnused(r *admin.Record) bool { return r.Value == nil && r.Parts == nil }

// Exclude says that keys which were written before are not to be brought back, since the change
// has left them as they are.
func (w *Writer) Exclude(records ...admin.Record) error {
	for i := range records {
		r := &records[i]
		l := line{Subject: r.Key.Subject, Name: r.Key.Name, ExpiresMS: -1, Amends: true, Unchanged: true}
		named := r.WithoutValues()
		if l.setForeign(&named); len(l.Parts) > 1 {
			l.Parts = l.Parts[:1] // which tells it from others
		}
		if err := w.json.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// Contents is a backup that was read through.
type Contents struct {
	Header
	Records int // amendments aside, and keys that the change has left as they are
	// Torn says that the last line is not whole: the backup's writer was killed.
	Torn bool
	// Damaged is how many lines are not records, and Damage has the errors of the first
	// few. A key that only such a line had is not brought back; one that such a line
	// amended comes back as it was a moment earlier.
	Damaged int
	Damage  []error
	// Layouts are the layouts of other limiters that records are of, by name.
	Layouts []string
	amended map[identity]int64 // the line that amends a key, the last of several
	// checked: records that cannot be of the layout that they name are damaged.
	checked  bool
	selected *store.Pattern // what the header says was selected, once it was read
	limits   memo[string, store.Limit]
}

// Check reads a backup through. A file that is not a backup is an error. Somebody may have edited
// it: a record of another limiter counts as damaged if its store keys cannot be of the layout that
// it names, or were not selected.
func Check(in io.Reader) (*Contents, error) {
	c := &Contents{amended: map[identity]int64{}, checked: true}
	excluded := map[identity]bool{}
	err := c.read(in, func(e *entry) error {
		id := identityOf(&e.Record)
		if e.amends {
			c.amended[id] = e.number
		} else {
			c.Records++
			c.addLayout(&e.Record)
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

// maxLine is more than the longest record takes: a sliding log of a million entries
// in base 64.
const maxLine = 32 << 20

// entry is a record as it was read from a line.
type entry struct {
	admin.Record
	limit  store.Limit
	used   *int64
	number int64 // of the line, from 1
	amends bool
	// unchanged: the key is not to be brought back. There is no value then.
	unchanged bool
}

// read calls do with each record. A line that is not a record costs only itself.
func (c *Contents) read(in io.Reader, do func(e *entry) error) error {
	return c.readLines(in, func(text *lines.Line) error {
		e, err := readEntry(text, &c.limits)
		if err == nil && c.checked {
			err = c.check(e)
		}
		if err != nil {
			c.damaged(text.Number, err)
			return nil
		}
		return do(e)
	})
}

// keptDamage is how many damaged lines are told one by one.
const keptDamage = 5

func (c *Contents) damaged(number int64, err error) {
	if c.Damaged++; len(c.Damage) < keptDamage {
		c.Damage = append(c.Damage, fmt.Errorf("line %d: %w", number, err))
	}
}

// latest is later than any record expires, and no later than a store can be told.
const latest = 253402300799999 // the last of the year 9999, in ms since the epoch

func readExpiry(ms, latest int64) (time.Time, error) {
	switch {
	case ms < -1 || ms > latest:
		return time.Time{}, fmt.Errorf("expires_ms %d is neither a time in ms since 1970 nor -1 for never", ms)
	case ms < 0:
		return time.Time{}, nil
	}
	return time.UnixMilli(ms), nil
}

// readLine reads a line, of any form.
func readLine(text []byte) (*line, error) {
	if l, ok := quickLine(text); ok {
		return l, nil
	}
	l := &line{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(l); err != nil {
		return nil, fmt.Errorf("it is not a record: %w", err)
	}
	if decoder.More() {
		return nil, errors.New("it is more than one record")
	}
	return l, nil
}

func readEntry(text *lines.Line, limits *memo[string, store.Limit]) (*entry, error) {
	if text.TooLong {
		return nil, fmt.Errorf("it is longer than the %d bytes of any record", maxLine)
	}
	l, err := readLine(text.Text)
	if err != nil {
		return nil, err
	}
	e := &entry{number: text.Number, amends: l.Amends, unchanged: l.Unchanged}
	switch {
	case l.Name == "":
		return nil, errors.New("it names no limit")
	}
	if e.Expires, err = readExpiry(l.ExpiresMS, latest); err != nil {
		return nil, err
	}
	e.Key, e.Value = store.Key{Subject: l.Subject, Name: l.Name}, l.Value
	if len(l.Parts) > 0 {
		return e, e.foreign(l, limits)
	}
	if e.unchanged || l.Unused && l.Value == nil {
		return e, e.Key.Validate()
	}
	state, err := e.Decode()
	e.limit = state.Limit
	return e, err
}
