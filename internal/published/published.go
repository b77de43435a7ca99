// Package published has what publishers and followers of a configuration in a store share: the texts of an
// [admin.Tables], and a [Follower], which keeps the published configuration in force in a process.
package published

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// schema is the number of the form of records and heads, and triedSchema that of a head with a version that an earlier
// program tried beside the one in force. A program refuses those of a later form.
const schema, triedSchema = 1, 2

// newer is the error of what a later program has written.
func newer(form int) error {
	return fmt.Errorf("the published configuration has form %d, and this program knows forms up to %d; use a newer "+
		"limitctl", form,
		triedSchema)
}

// broken is the error of a text that no program of ours wrote.
func broken(what string, why any) error {
	return fmt.Errorf("%w: the %s of the published configuration is broken: %.200v", store.ErrForeign, what, why)
}

// Head says which version is in force.
type Head struct {
	Schema  int    `json:"schema"`
	Version int64  `json:"version"`
	Hash    string `json:"hash"` // of the version's text, see [Hash]
	// Oldest is the oldest version whose text is kept.
	Oldest int64 `json:"oldest"`
	// Tried is a version that an earlier program tried beside the one in force, which is ignored; 0 for none.
	Tried int64 `json:"-"`
}

// versionsKept is the most versions that are kept, and bytesKept the most bytes of their records.
const (
	versionsKept = 50
	bytesKept    = 8 << 20
)

// TableOf returns the tables in which backend keeps published configurations.
func TableOf(backend store.Store) (*admin.Tables, error) {
	table, has := admin.TablesOf(backend)
	if !has || table.Private {
		return nil, store.Invalidf("this store keeps no configurations for other processes; use one in Redis or in a " +
			"file")
	}
	return table, nil
}

// maxNumber is the greatest number of a version, which programs in other languages read exactly.
const maxNumber = 1 << 53

// readHead reads a head. An error is of a later form, or a [store.ErrForeign].
func readHead(text string) (Head, error) {
	var read struct {
		Head
		Next struct {
			Version int64 `json:"version"`
		} `json:"next"`
	}
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return Head{}, broken("head", err)
	}
	h := read.Head
	h.Tried = read.Next.Version
	switch {
	case h.Schema > triedSchema:
		return h, newer(h.Schema)
	case h.Schema < 1 || h.Version < 1 || h.Oldest < 1 || h.Oldest > h.Version || h.Version > maxNumber ||
		!isHash(h.Hash) ||
		h.Tried < 0 || h.Tried > maxNumber:
		return h, broken("head", "its numbers or its hash cannot be")
	}
	return h, nil
}

// TriedWarning is an error that names the version that an earlier program tried; nil for none.
func (h *Head) TriedWarning() error {
	if h.Tried == 0 {
		return nil
	}
	return fmt.Errorf("version %d, which an older limitctl tried beside version %d, is ignored", h.Tried, h.Version)
}

// Text returns the head as it is stored.
func (h Head) Text() string {
	h.Schema = schema
	return jsonText(h)
}

// jsonText returns v as JSON on one line, without escapes for HTML.
func jsonText(v any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.Encode(v) // structs of texts and numbers, which cannot fail
	return strings.TrimSuffix(text.String(), "\n")
}

// Hash identifies the text of a version.
func Hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func isHash(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size
}

// Version is a published configuration.
type Version struct {
	Schema int       `json:"schema"`
	Number int64     `json:"version"`
	Hash   string    `json:"hash"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	// Of is the version that a rollback has brought back; 0 for others.
	Of int64 `json:"of,omitempty"`
	// Text is the configuration: what decides, without contexts.
	Text []byte `json:"-"`
}

// Record returns the version as it is stored: its fields as JSON on one line, and then its text, compressed.
func (v Version) Record() string {
	v.Schema, v.Hash = schema, Hash(v.Text)
	var record bytes.Buffer
	record.WriteString(jsonText(v) + "\n")
	w := gzip.NewWriter(&record)
	w.Write(v.Text) // a buffer takes everything
	w.Close()
	return record.String()
}

// readVersion reads and checks a record in bounded memory. An error is of a later form, or a [store.ErrForeign].
func readVersion(record string) (*Version, error) {
	line, compressed, found := strings.Cut(record, "\n")
	v := new(Version)
	if err := json.Unmarshal([]byte(line), v); err != nil || !found {
		return nil, broken("record", cmp.Or(err, errors.New("it is cut off")))
	}
	switch {
	case v.Schema > schema:
		return nil, newer(v.Schema)
	case v.Schema < 1 || v.Number < 1:
		return nil, broken("record", "it has no number")
	}
	r, err := gzip.NewReader(strings.NewReader(compressed))
	if err != nil {
		return nil, broken("record", err)
	}
	if v.Text, err = io.ReadAll(io.LimitReader(r, configfile.MaxSize+1)); err != nil {
		return nil, broken("record", err)
	}
	switch {
	case len(v.Text) > configfile.MaxSize:
		return nil, broken("record", "its text is too large")
	case v.Hash != Hash(v.Text):
		return nil, broken("record", "its text is another one than its hash says")
	}
	return v, nil
}

// names reports whether v is the version in force.
func (h *Head) names(v *Version) bool { return v.Number == h.Version && v.Hash == h.Hash }

// record returns the record of the version in force.
func (h *Head) record(ctx context.Context, table *admin.Tables) (string, error) {
	record, err := table.Value(ctx, admin.ConfigTable, strconv.FormatInt(h.Version, 10))
	if err == nil && record == "" {
		err = &RefusedError{h.Version, fmt.Errorf("%w: the store does not have it", store.ErrForeign)}
	}
	return record, err
}

// read reads a record, which has to be that of the version in force.
func (h *Head) read(record string) (*Version, error) {
	v, err := readVersion(record)
	if err == nil && !h.names(v) {
		err = broken("record", "it is of another version than the head says")
	}
	return v, err
}

// Cache is a file that keeps the record in force, for when the store is away. The zero Cache keeps none.
type Cache struct {
	Path  string // empty for none
	Read  func(path string, most int) ([]byte, error)
	Write func(path string, data []byte) error
}

// record returns what was kept, which can be anything.
func (c *Cache) record() string {
	if c.Path == "" {
		return ""
	}
	data, _ := c.Read(c.Path, admin.MaxConfigRecord)
	return string(data)
}

func (c *Cache) keep(record string) error {
	if c.Path == "" || record == "" {
		return nil
	}
	return panics.Call(func() error { return c.Write(c.Path, []byte(record)) })
}

// InForce returns the version in force, and why cache cannot keep it. If it was kept, one small read is enough. While
// the store is away or has none, the version that was kept is returned beside the error, nil for none. An error is
// [ErrNothing], a [store.ErrForeign], that of a later form, or the store's.
func InForce(ctx context.Context, table *admin.Tables, cache Cache) (v *Version, notKept, err error) {
	v, noneKept := readVersion(cache.record())
	text, err := table.Value(ctx, admin.ConfigTable, "")
	var head Head
	switch {
	case store.IsAway(err) && noneKept == nil:
		return v, nil, err
	case err == nil && text == "":
		err = ErrNothing
	case err == nil:
		head, err = readHead(text)
	}
	if err != nil || noneKept == nil && head.names(v) {
		return v, nil, err
	}
	record, err := head.record(ctx, table)
	if err == nil {
		v, err = head.read(record)
	}
	if err == nil {
		notKept = cache.keep(record)
	}
	return v, notKept, err
}

// Line is a line of the history.
type Line struct {
	Version int64  `json:"version"`
	Did     string `json:"did"` // publish or rollback; earlier programs also wrote shadow, canary, promote and withdraw
	Of      int64  `json:"of,omitempty"`
	By      string `json:"by"`
	Reason  string `json:"reason"`
	Hash    string `json:"hash"`
	// Bytes is the size of the record.
	Bytes int `json:"bytes"`
	// At is when the store added the line.
	At time.Time `json:"-"`
}

// The kinds of lines that put a version in force; an earlier program promoted a version that it had tried.
const (
	didPublish  = "publish"
	didRollback = "rollback"
	didPromote  = "promote"
)

// PutInForce reports whether the line put its version in force.
func (l *Line) PutInForce() bool {
	return l.Did == didPublish || l.Did == didRollback || l.Did == didPromote
}

// State is what a publisher knows of a store.
type State struct {
	// Was is the head as it is stored, and Head what it says; empty and zero if nothing was published.
	Was  string
	Head Head
	// Broken, a [store.ErrForeign], says why there is no Head although something was published.
	Broken error
	// Lines are those of the history, the oldest first.
	Lines []Line

	first, last int64 // whose texts are kept; without a Head, by the history
}

// Read reads the state.
func Read(ctx context.Context, table *admin.Tables) (*State, error) {
	s := new(State)
	entries, _, err := table.Lines(ctx, admin.HistoryList, admin.HistoryList.Kept())
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		line := Line{}
		if err := json.Unmarshal([]byte(entry.Text), &line); err != nil || line.Version < 1 ||
			line.Version > maxNumber || line.Bytes < 0 {
			continue // damaged
		}
		line.At = entry.At
		s.Lines = append(s.Lines, line)
	}
	if s.Was, err = table.Value(ctx, admin.ConfigTable, ""); err == nil && s.Was != "" {
		s.Head, err = readHead(s.Was)
	}
	if err == nil && s.Was != "" {
		s.first, s.last = s.Head.Oldest, s.Head.Version
		return s, nil
	}
	s.Head = Head{}
	size := 0
	for i := range s.Lines {
		if l := &s.Lines[i]; l.PutInForce() && l.Version > s.last {
			s.last, size = l.Version, l.Bytes
		}
	}
	s.first = s.oldestBeside(s.last, size, 1)
	if err == nil && s.last > 0 {
		err = broken("head", "it is missing")
	}
	if foreign, is := errors.AsType[*store.ForeignError](err); is {
		err = broken("head", fmt.Sprintf("%q holds %s", foreign.StoreKey, foreign.Holds))
	}
	if errors.Is(err, store.ErrForeign) {
		s.Broken, err = err, nil
	}
	return s, err
}

// InForce returns the version in force. An error is [ErrNothing], or says that it is not known which one it is.
func (s *State) InForce() (int64, error) {
	switch {
	case s.Broken != nil:
		return 0, fmt.Errorf("%w; `limitctl config history` shows the versions that `limitctl config rollback N` "+
			"brings back", s.Broken)
	case s.Was == "":
		return 0, ErrNothing
	}
	return s.Head.Version, nil
}

// Lost returns a [store.ErrForeign] if versions were published and the store has no head.
func Lost(ctx context.Context, table *admin.Tables) error {
	s, err := Read(ctx, table)
	if err == nil && s.Was == "" {
		err = s.Broken
	}
	return err
}

// Kept reports whether the text of a version is kept; that of one that was only tried is not.
func (s *State) Kept(number int64) bool {
	known, inForce := false, number == s.last
	for i := range s.Lines {
		if s.Lines[i].Version == number {
			known, inForce = true, inForce || s.Lines[i].PutInForce()
		}
	}
	return s.first <= number && number <= s.last && (inForce || !known)
}

// Before returns the version that was in force before the one that is; 0 for none that is known.
func (s *State) Before() int64 {
	var order []int64 // the versions in the order in which they were in force
	for i := range s.Lines {
		if l := &s.Lines[i]; l.PutInForce() && l.Version <= s.Head.Version {
			order = append(order, l.Version)
		}
	}
	if at := slices.Index(order, s.Head.Version); at > 0 {
		return order[at-1]
	}
	if s.Head.Version > s.Head.Oldest {
		return s.Head.Version - 1
	}
	return 0
}

// NextNumber returns the number of the next version.
func (s *State) NextNumber() int64 {
	number := max(s.Head.Version, s.Head.Tried)
	for i := range s.Lines { // the numbers of a store that lost its head go on
		number = max(number, s.Lines[i].Version)
	}
	return number + 1
}

// Next returns the change that puts a version with a new number in force. It completes v.
func (s *State) Next(v *Version) *admin.Change {
	v.Number, v.Hash = s.NextNumber(), Hash(v.Text)
	record := v.Record()
	line := Line{Version: v.Number, Did: didPublish, Of: v.Of, By: v.By, Reason: v.Reason, Hash: v.Hash,
		Bytes: len(record)}
	if v.Of != 0 {
		line.Did = didRollback
	}
	head := Head{Version: v.Number, Hash: v.Hash}
	var drop []int64
	head.Oldest, drop = s.oldest(v.Number, len(record))
	if tried := s.Head.Tried; tried != 0 {
		drop = append(drop, tried)
	}
	c := &admin.Change{Table: admin.ConfigTable, What: "publication", Was: s.Was, Line: jsonText(line),
		Set: []admin.TableRecord{{Name: strconv.FormatInt(v.Number, 10), Value: record}, {Value: head.Text()}}}
	for _, number := range drop {
		c.Drop = append(c.Drop, strconv.FormatInt(number, 10))
	}
	return c
}

// oldest returns the oldest version to keep beside a new one of so many bytes, and those to drop.
func (s *State) oldest(number int64, size int) (oldest int64, drop []int64) {
	before := s.Head.Oldest
	if before == 0 { // nobody knows what was dropped
		before = number
		for i := range s.Lines {
			before = min(before, s.Lines[i].Version)
		}
	}
	oldest = s.oldestBeside(number, size, before)
	for n := before; n < oldest; n++ {
		if len(drop) == admin.HistoryList.Kept() {
			return n, drop
		}
		drop = append(drop, n)
	}
	return oldest, drop
}

// oldestBeside returns the oldest version, not before that one, to keep beside a version of so many bytes.
func (s *State) oldestBeside(number int64, size int, before int64) int64 {
	sizes := map[int64]int{} // of a version that was only tried, 0
	for i := range s.Lines {
		bytes := 0
		if s.Lines[i].PutInForce() {
			bytes = s.Lines[i].Bytes
		}
		sizes[s.Lines[i].Version] = max(sizes[s.Lines[i].Version], bytes)
	}
	oldest := number
	for oldest > before && number-oldest < versionsKept-1 {
		next, known := sizes[oldest-1]
		if !known {
			next = admin.MaxConfigRecord
		}
		if size += next; size > bytesKept {
			break
		}
		oldest--
	}
	return oldest
}

// Fetch returns a version. It is a [store.ErrInvalid] if the store does not keep it, and lists those that it keeps.
func (s *State) Fetch(ctx context.Context, table *admin.Tables, number int64) (*Version, error) {
	record, err := table.Value(ctx, admin.ConfigTable, strconv.FormatInt(number, 10))
	switch {
	case err != nil:
		return nil, err
	case record == "" && s.last == 0:
		return nil, cmp.Or(s.Broken, ErrNothing)
	case record == "" && s.Kept(number):
		return nil, broken("record", fmt.Sprintf("version %d is missing", number))
	case record == "":
		return nil, store.Invalidf("version %d is not kept; versions %d to %d are", number, s.first, s.last)
	}
	v, err := readVersion(record)
	if err == nil && v.Number != number {
		err = broken("record", fmt.Sprintf("version %d has the number %d", number, v.Number))
	}
	return v, err
}

// ErrNothing: nothing was published to the store yet.
var ErrNothing = store.Invalidf("no configuration was published to this store; publish one with `limitctl config " +
	"publish FILE`")

// Parse reads the text of a published configuration; name is its name in mistakes. It refuses a text with contexts
// or layouts, which are about this machine. An error is a [store.ErrInvalid] with a line for each mistake.
func Parse(name string, text []byte) (*configfile.File, error) {
	refuse := func(r *yamlfile.Reader, v yamlfile.Value) {
		r.Mistake(v, "a published configuration has neither contexts nor layouts")
	}
	file, r := configfile.Read(name, text, configfile.Operators{Contexts: refuse, Layouts: refuse})
	if mistakes := r.Mistakes(); len(mistakes) > 0 {
		return nil, store.Invalidf("%s", yamlfile.Format(mistakes))
	}
	return &file, nil
}
